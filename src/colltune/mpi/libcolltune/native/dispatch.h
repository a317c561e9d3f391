/* The way from MPI's functions to those who run them. */
#ifndef CT_DISPATCH_H
#define CT_DISPATCH_H

#include "ct.h"

#include <stdatomic.h>

extern _Atomic unsigned ct_engaged; /* bit 1 << c: calls of collective c go through ct_dispatch */

static inline int ct_is_engaged(ct_collective_t collective) {
    return (atomic_load_explicit(&ct_engaged, memory_order_relaxed) & 1u << collective) != 0;
}

int ct_dispatch(ct_call_t *call);

extern const ct_call_t ct_no_call; /* all zero; to copy it is faster than to clear a call */

#endif
