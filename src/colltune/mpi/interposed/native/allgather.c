/* The hierarchical allgather: not available in this build. */
#include "ct.h"

const ct_algorithm_t ct_allgather_hierarchical = {.collective = CT_ALLGATHER, .name = "hierarchical"};
