/* The ring allreduce: not available in this build. */
#include "ct.h"

const ct_algorithm_t ct_allreduce_ring = {.collective = CT_ALLREDUCE, .name = "ring"};
