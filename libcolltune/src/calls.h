/* The collectives' arguments, each once: for functions of ours that stand before MPI's, and for calls
 * of MPI's. `_c` functions have the same with larger counts.
 *
 * A list has A(argument) for each argument but the communicator, V(argument) if it is an array with
 * a number for each process, and _() behind each of them. Arguments are called as in ct_call_t. */
#ifndef CT_CALLS_H
#define CT_CALLS_H

#include "ct.h"

#include <stdatomic.h>

/* ---- from MPI's functions to those who run them (dispatch.c) ---- */

extern _Atomic unsigned ct_engaged; /* bit 1 << c: calls of collective c go through ct_dispatch */

static inline int ct_is_engaged(ct_collective_t collective) {
    return (atomic_load_explicit(&ct_engaged, memory_order_relaxed) & 1u << collective) != 0;
}

int ct_dispatch(ct_call_t *call);

extern const ct_call_t ct_no_call; /* all zero; to copy it is faster than to clear a call */

/* ---- lists ---- */

/* X(function, collective, list) */
#define CT_EACH_WITH_COUNTS(X)                               \
    X(Allgather, ALLGATHER, EXCHANGE)                        \
    X(Allgatherv, ALLGATHERV, GATHERV)                       \
    X(Allreduce, ALLREDUCE, REDUCTION)                       \
    X(Alltoall, ALLTOALL, EXCHANGE)                          \
    X(Alltoallv, ALLTOALLV, EXCHANGEV)                       \
    X(Bcast, BCAST, BUFFER)                                  \
    X(Exscan, EXSCAN, REDUCTION)                             \
    X(Gather, GATHER, ROOTED_EXCHANGE)                       \
    X(Reduce, REDUCE, ROOTED_REDUCTION)                      \
    X(Reduce_scatter, REDUCE_SCATTER, REDUCTIONV)            \
    X(Reduce_scatter_block, REDUCE_SCATTER_BLOCK, REDUCTION) \
    X(Scan, SCAN, REDUCTION)                                 \
    X(Scatter, SCATTER, ROOTED_EXCHANGE)
#define CT_EACH_COLLECTIVE(X) CT_EACH_WITH_COUNTS(X) X(Barrier, BARRIER, NOTHING)

#define CT_NOTHING(A, V, _)
#define CT_SENT(A, V, _) A(sendbuf) _() A(sendcount) _() A(sendtype) _()
#define CT_BUFFER(A, V, _) A(recvbuf) _() A(recvcount) _() A(recvtype) _() A(root) _()
#define CT_EXCHANGE(A, V, _) CT_SENT(A, V, _) A(recvbuf) _() A(recvcount) _() A(recvtype) _()
#define CT_ROOTED_EXCHANGE(A, V, _) CT_EXCHANGE(A, V, _) A(root) _()
#define CT_RECEIVEDV(A, V, _) A(recvbuf) _() V(recvcounts) _() V(rdispls) _() A(recvtype) _()
#define CT_GATHERV(A, V, _) CT_SENT(A, V, _) CT_RECEIVEDV(A, V, _)
#define CT_EXCHANGEV(A, V, _) \
    A(sendbuf) _() V(sendcounts) _() V(sdispls) _() A(sendtype) _() CT_RECEIVEDV(A, V, _)
#define CT_REDUCTION(A, V, _) \
    A(sendbuf) _() A(recvbuf) _() A(recvcount) _() A(recvtype) _() A(op) _()
#define CT_ROOTED_REDUCTION(A, V, _) CT_REDUCTION(A, V, _) A(root) _()
#define CT_REDUCTIONV(A, V, _) \
    A(sendbuf) _() A(recvbuf) _() V(recvcounts) _() A(recvtype) _() A(op) _()

#endif
