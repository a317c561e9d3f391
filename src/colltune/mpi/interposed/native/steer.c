/* Choosing the MPI library's algorithms: this build cannot. */
#include "ct.h"

int ct_run_steered(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *configuration) {
    static _Thread_local int told;
    if (!told++) ct_log(0, "%s: steering the MPI library is not available", configuration->id);
    (void)c;
    return ct_pass(call, call->comm);
}
