/* Decision tables: this build cannot read them. */
#include "ct.h"

void ct_load_decisions(void) {
    if (ct_setting("COLLTUNE_TABLE")) ct_log(0, "COLLTUNE_TABLE: decision tables are not available");
}

const ct_configuration_t *ct_decide(ct_comm_t *c, const ct_call_t *call) {
    (void)c, (void)call;
    return NULL;
}
