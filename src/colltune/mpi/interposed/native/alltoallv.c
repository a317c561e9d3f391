/* The alltoallv with a threshold: not available in this build. */
#include "ct.h"

const ct_algorithm_t ct_alltoallv_eager_pairwise = {.collective = CT_ALLTOALLV,
                                                    .name = "eager_pairwise"};
