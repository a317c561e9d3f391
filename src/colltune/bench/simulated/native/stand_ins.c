/* Stand for libcolltune's steer.c, since SimGrid's MPI has no control variables (MPI_T), and for
 * launcher.c, since the library is part of the program. */
#include "core.h"

void ct_announce(void) {}

int ct_all_present(void) { return 1; }

int ct_steerable(ct_comm_t *c, const ct_configuration_t *configuration) {
    (void)c;
    (void)configuration;
    return 0;
}

int ct_run_steered(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *configuration) {
    (void)c;
    (void)configuration;
    return ct_pass(call, call->comm);
}

void ct_steer_end(void) {}
