/* What becomes of a call: whether it is ours to change, what it asks for, and who runs it. */
#include "dispatch.h"

#include <stdint.h>
#include <stdlib.h>

/* Calls that ours makes, directly or through the MPI library, go to the MPI library. */
static _Thread_local int inside;
/* The user's error handler has been called for the error of the call under way. */
static _Thread_local int handled;
/* What ran the last call of each collective; NULL: the MPI library by its own decision. */
static _Thread_local const ct_configuration_t *last[CT_COLLECTIVES];

const ct_call_t ct_no_call;

/* ---- as the user called it ---- */

static int pass(const ct_call_t *c, MPI_Comm comm) {
    switch (c->collective) {
    case CT_ALLGATHER:
        return PMPI_Allgather(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                              c->recvtype, comm);
    case CT_ALLGATHERV:
        return PMPI_Allgatherv(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcounts,
                               c->rdispls, c->recvtype, comm);
    case CT_ALLREDUCE:
        return PMPI_Allreduce(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, comm);
    case CT_ALLTOALL:
        return PMPI_Alltoall(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                             c->recvtype, comm);
    case CT_ALLTOALLV:
        return PMPI_Alltoallv(c->sendbuf, c->sendcounts, c->sdispls, c->sendtype, c->recvbuf,
                              c->recvcounts, c->rdispls, c->recvtype, comm);
    case CT_BARRIER:
        return PMPI_Barrier(comm);
    case CT_BCAST:
        return PMPI_Bcast(c->recvbuf, c->recvcount, c->recvtype, c->root, comm);
    case CT_EXSCAN:
        return PMPI_Exscan(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, comm);
    case CT_GATHER:
        return PMPI_Gather(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                           c->recvtype, c->root, comm);
    case CT_REDUCE:
        return PMPI_Reduce(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, c->root, comm);
    case CT_REDUCE_SCATTER:
        return PMPI_Reduce_scatter(c->sendbuf, c->recvbuf, c->recvcounts, c->recvtype, c->op, comm);
    case CT_REDUCE_SCATTER_BLOCK:
        return PMPI_Reduce_scatter_block(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op,
                                         comm);
    case CT_SCAN:
        return PMPI_Scan(c->sendbuf, c->recvbuf, c->recvcount, c->recvtype, c->op, comm);
    case CT_SCATTER:
        return PMPI_Scatter(c->sendbuf, c->sendcount, c->sendtype, c->recvbuf, c->recvcount,
                            c->recvtype, c->root, comm);
    default:
        return MPI_ERR_INTERN;
    }
}

int ct_pass(const ct_call_t *call, MPI_Comm comm) {
    int error = pass(call, comm);
    if (error != MPI_SUCCESS && comm == call->comm) handled = 1;
    return error;
}

/* ---- what it asks for ---- */

static int has_root(ct_collective_t collective) {
    return collective == CT_BCAST || collective == CT_GATHER || collective == CT_REDUCE ||
           collective == CT_SCATTER;
}

/* 0 with the bytes written, 1 where the MPI library has something to say about the arguments. */
static int bytes_of(int count, MPI_Datatype type, size_t *bytes) {
    size_t size;
    if (count < 0 || ct_type_size(type, &size)) return 1;
    *bytes = (size_t)count * size;
    return 0;
}

/* The sum of all processes' counts, which each process knows. */
static int sum_of(const int *counts, int n, MPI_Datatype type, size_t *bytes) {
    size_t sum = 0, size;
    if (!counts || bytes_of(1, type, &size)) return 1;
    for (int i = 0; i < n; i++) {
        if (counts[i] < 0) return 1;
        sum += (size_t)counts[i];
    }
    *bytes = sum * size;
    return 0;
}

/* Whether the MPI library takes the datatype of what is sent. */
static int knows_sent(const ct_call_t *call) {
    size_t size;
    return call->sendbuf == MPI_IN_PLACE || !ct_type_size(call->sendtype, &size);
}

static int measure(const ct_comm_t *c, ct_call_t *call) {
    size_t size;
    int failed;
    if (has_root(call->collective) && (call->root < 0 || call->root >= c->size)) return 1;
    switch (call->collective) {
    case CT_BARRIER:
        return 0;
    case CT_ALLTOALLV:
        return !knows_sent(call) || ct_type_size(call->recvtype, &size);
    case CT_ALLGATHER:
        if (!knows_sent(call)) return 1;
        break;
    case CT_ALLGATHERV:
        failed = sum_of(call->recvcounts, c->size, call->recvtype, &call->msize);
        call->msize /= (size_t)c->size;
        return failed;
    case CT_REDUCE_SCATTER:
        return call->op == MPI_OP_NULL ||
               sum_of(call->recvcounts, c->size, call->recvtype, &call->msize);
    case CT_GATHER: /* what the root receives means nothing to the others */
        if (c->rank != call->root) return bytes_of(call->sendcount, call->sendtype, &call->msize);
        break;
    case CT_SCATTER:
        if (c->rank == call->root) return bytes_of(call->sendcount, call->sendtype, &call->msize);
        break;
    case CT_ALLREDUCE:
    case CT_EXSCAN:
    case CT_REDUCE:
    case CT_REDUCE_SCATTER_BLOCK:
    case CT_SCAN:
        if (call->op == MPI_OP_NULL) return 1;
        break;
    default:
        break;
    }
    return bytes_of(call->recvcount, call->recvtype, &call->msize);
}

/* ---- who runs it ---- */

/* The configuration that is to run it; NULL: the MPI library by its own decision. */
static const ct_configuration_t *choose(ct_comm_t *c, const ct_call_t *call) {
    const ct_configuration_t *chosen = ct_forced(call->collective);
    if (!chosen) chosen = ct_decide(c, call);
    if (!chosen || chosen->kind == CT_LIBRARY) return NULL;
    if (chosen->kind == CT_STEERED) return ct_steerable(c, chosen) ? chosen : NULL;
    const ct_algorithm_t *algorithm = chosen->algorithm;
    if (algorithm->fits && !algorithm->fits(c, call, chosen->values)) return NULL;
    return ct_base(c) == MPI_SUCCESS ? chosen : NULL;
}

CT_PUBLIC const char *colltune_last_choice(const char *collective) {
    ct_collective_t asked = ct_collective_named(collective);
    const ct_configuration_t *chosen = asked == CT_NONE ? NULL : last[asked];
    if (asked != CT_NONE) last[asked] = NULL;
    return chosen ? chosen->id : "";
}

static int run(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *chosen) {
    last[call->collective] = chosen;
    if (!chosen) return ct_pass(call, call->comm);
    if (chosen->kind == CT_OWN) return chosen->algorithm->run(c, call, chosen->values);
    return ct_run_steered(c, call, chosen);
}

static int run_noted(ct_comm_t *c, const ct_call_t *call) {
    int timed = ct_profile_wants(c, call);
    const ct_configuration_t *chosen = choose(c, call);
    double start = timed ? ct_now() : 0;
    int error = run(c, call, chosen);
    ct_profile_note(c, call, chosen, timed ? ct_now() - start : -1);
    return error;
}

static void leave(const int *mark) {
    (void)mark;
    inside = 0;
}

static int carry_out(ct_call_t *call) {
    /* a user's error handler may throw an exception right through */
    int mark __attribute__((cleanup(leave))) = inside = 1;
    ct_comm_t *c = ct_comm(call->comm);
    (void)mark;
    handled = 0;
    if (!c || measure(c, call)) return ct_pass(call, call->comm);
    if (ct_profiling) return run_noted(c, call);
    return run(c, call, choose(c, call));
}

int ct_dispatch(ct_call_t *call) {
    if (inside) return ct_pass(call, call->comm);
    int error = carry_out(call);
    /* our own communicators return errors, which the user's handler has not seen */
    if (error != MPI_SUCCESS && !handled) PMPI_Comm_call_errhandler(call->comm, error);
    return error;
}
