/* What becomes of a call: whether it is ours to change, what it asks for, and who runs it. */
#include "calls.h"
#include "core.h"

#include <limits.h>
#include <stdlib.h>

/* Calls that ours makes, directly or through the MPI library, go to the MPI library. */
static _Thread_local int inside;
/* The user's error handler has been called for the error of the call under way. */
static _Thread_local int handled;
int ct_fault_tolerant, ct_first_calls;
/* What ran the last call of each collective; NULL: the MPI library by its own decision. */
static _Thread_local const ct_configuration_t *last[CT_COLLECTIVES];

const ct_call_t ct_no_call;

/* ---- as the user called it ---- */

#define COMMA() ,
#define GIVE(argument) c->argument
#define GIVE_LARGE(argument) (const void *)c->argument

static int pass(const ct_call_t *c, MPI_Comm comm) {
#define PASS(function, COLLECTIVE, LIST) \
    case CT_##COLLECTIVE: return PMPI(function)(CT_##LIST(GIVE, GIVE, COMMA) comm);
    switch (c->collective) {
        CT_EACH_COLLECTIVE(PASS)
    default:
        return MPI_ERR_INTERN;
    }
}

#if MPI_VERSION >= 4
static int pass_large(const ct_call_t *c, MPI_Comm comm) {
#define PASS_LARGE(function, COLLECTIVE, LIST) \
    case CT_##COLLECTIVE: return PMPI(function##_c)(CT_##LIST(GIVE, GIVE_LARGE, COMMA) comm);
    switch (c->collective) {
        CT_EACH_WITH_COUNTS(PASS_LARGE)
    default:
        return MPI_ERR_INTERN;
    }
}
#else
#define pass_large pass
#endif

int ct_pass(const ct_call_t *call, MPI_Comm comm) {
    int error = call->is_large ? pass_large(call, comm) : pass(call, comm);
    if (error != MPI_SUCCESS && comm == call->comm) handled = 1;
    return error;
}

/* ---- what it asks for ---- */

static int has_root(ct_collective_t collective) {
    return collective == CT_BCAST || collective == CT_GATHER || collective == CT_REDUCE ||
           collective == CT_SCATTER;
}

/* 0 with the bytes written, 1 where the MPI library has something to say about the arguments. */
static int bytes_of(MPI_Count count, MPI_Datatype type, size_t *bytes) {
    size_t size;
    if (count < 0 || ct_type_size(type, &size)) return 1;
    *bytes = (size_t)count * size;
    return 0;
}

/* The sum of what all processes receive, which each process knows. */
static int sum_of(const ct_call_t *call, int n, size_t *bytes) {
    size_t sum = 0, size;
    if (!call->recvcounts || ct_type_size(call->recvtype, &size)) return 1;
    for (int i = 0; i < n; i++) {
        MPI_Count count = ct_count_at(call, call->recvcounts, i);
        if (count < 0) return 1;
        sum += (size_t)count;
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
        failed = sum_of(call, c->size, &call->msize);
        call->msize /= (size_t)c->size;
        return failed;
    case CT_REDUCE_SCATTER:
        return call->op == MPI_OP_NULL || sum_of(call, c->size, &call->msize);
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

/* ---- what the MPI library refuses on one process alone ---- */

#ifdef OPEN_MPI /* which takes a buffer that is both sent from and received into */
static int is_aliased(const ct_comm_t *c, const ct_call_t *call) { return (void)c, (void)call, 0; }
#else
/* Block `rank` of a buffer. */
static const void *block(const void *buffer, MPI_Datatype type, MPI_Count elements) {
    MPI_Aint low, extent;
    if (PMPI(Type_get_extent)(type, &low, &extent) != MPI_SUCCESS) return NULL;
    return (const char *)buffer + elements * extent;
}

/* Whether this process receives into the very memory that it sends from. */
static int is_aliased(const ct_comm_t *c, const ct_call_t *call) {
    const void *sent = call->sendbuf, *received = call->recvbuf;
    if (!sent || sent == MPI_IN_PLACE || !received || received == MPI_IN_PLACE) return 0;
    if (has_root(call->collective) && c->rank != call->root) return 0;
    if (call->collective == CT_ALLTOALLV)
        return sent == received && call->sendcounts == call->recvcounts &&
               call->sendtype == call->recvtype;
    if (!call->msize || call->collective == CT_BCAST) return 0;
    if (call->collective == CT_SCATTER)
        sent = block(sent, call->sendtype, c->rank * call->sendcount);
    if (call->collective == CT_GATHER || call->collective == CT_ALLGATHER)
        received = block(received, call->recvtype, c->rank * call->recvcount);
    if (call->collective == CT_ALLGATHERV && call->rdispls)
        received = block(received, call->recvtype, ct_count_at(call, call->rdispls, c->rank));
    return sent == received;
}
#endif

/* ---- who runs it ---- */

/* Whether no process has a count that is too large for our own algorithms, which have ints: another
 * one may describe the same message by other counts. */
static int is_small(const ct_call_t *call) {
    switch (call->collective) {
    case CT_ALLREDUCE: /* its counts are the same everywhere */
        return call->recvcount <= INT_MAX;
    case CT_ALLTOALLV:
        return !call->is_large;
    default:
        return call->msize <= INT_MAX;
    }
}

/* A communicator of fewer processes may be freed soon: its first calls are not worth one of ours. */
static int is_early(ct_comm_t *c) {
    return c->base == MPI_COMM_NULL && c->size < ct_world_size && c->chosen++ < ct_first_calls;
}

/* Whether an algorithm is for communicators of one node, and this is none. Collective at the first call
 * where nothing was configured in MPI_Init. */
static int is_elsewhere(ct_comm_t *c, const ct_algorithm_t *algorithm) {
    return algorithm && algorithm->is_of_a_node && (ct_spread(c) != MPI_SUCCESS || c->nodes > 1);
}

/* The configuration that is to run it; NULL: the MPI library by its own decision. */
static const ct_configuration_t *choose(ct_comm_t *c, const ct_call_t *call) {
    const ct_configuration_t *forced = ct_forced(call->collective), *chosen = forced;
    if (!chosen) chosen = ct_decide(c, call);
    if (!chosen || chosen->kind == CT_LIBRARY || ct_fault_tolerant) return NULL;
    const ct_algorithm_t *algorithm = chosen->algorithm;
    if (algorithm && !is_small(call)) return NULL;
    if (algorithm && algorithm->fits && !algorithm->fits(c, call, chosen->values)) return NULL;
    if (!forced && is_early(c)) return NULL;
    if (is_elsewhere(c, algorithm)) return NULL;
    if (chosen->kind == CT_STEERED) return ct_steerable(c, chosen) ? chosen : NULL;
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
    if (c) c->calls++;
    if (!c || measure(c, call) || is_aliased(c, call)) return ct_pass(call, call->comm);
    if (ct_profiling) return run_noted(c, call);
    return run(c, call, choose(c, call));
}

int ct_dispatch(ct_call_t *call) {
    if (inside) return ct_pass(call, call->comm);
    int error = carry_out(call);
    /* our own communicators return errors, which the user's handler has not seen */
    if (error != MPI_SUCCESS && !handled) PMPI(Comm_call_errhandler)(call->comm, error);
    return error;
}
