#include "collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROOT = 0, LEFT_TAG = 10, LATE_POLLS = 20 };

/* libcolltune's: the id of what ran the last call of a collective, empty for the library's own. */
extern const char *colltune_last_choice(const char *collective) __attribute__((weak));

void mark_call(const collective_t *collective, const call_t *call) {
    const char *chosen = colltune_last_choice ? colltune_last_choice(collective->name) : "";
    if (*chosen) fprintf(stderr, "CHOICE %s\n", chosen);
    fprintf(stderr, "MARK %s %d %zu\n", collective->name, call->size, call->msize);
}

/* Byte at `offset` of rank `source`'s send buffer; never 0, which is what receivers start from. */
static unsigned char pattern(int source, size_t offset) {
    unsigned low = (unsigned)offset, high = (unsigned)(offset >> 8);
    return (unsigned char)(1u + ((unsigned)source * 31u + low * 7u + high) % 255u);
}

/* Element `k` of rank `source`'s send buffer in reductions; never 0. */
static int term(int source, size_t k) { return (int)(k % 1000) + source + 1; }
static unsigned char bit(int source, size_t k) { return (unsigned char)(1U << ((source + k) % 8)); }

static void fill_bytes(call_t *c, size_t length) {
    for (size_t i = 0; i < length; i++) c->send[i] = pattern(c->rank, i);
}
static void fill_one(call_t *c) { fill_bytes(c, c->msize); }
static void fill_all(call_t *c) { fill_bytes(c, c->msize * (size_t)c->size); }
static void fill_bcast(call_t *c) {
    for (size_t i = 0; i < c->msize && c->rank == ROOT; i++) c->recv[i] = pattern(ROOT, i);
}
static void fill_nothing(call_t *c) { (void)c; }

static void fill_terms(call_t *c, size_t elements) {
    int *numbers = (int *)c->send;
    for (size_t k = 0; k < elements; k++) {
        if (c->type == MPI_INT) numbers[k] = term(c->rank, k);
        else c->send[k] = bit(c->rank, k);
    }
}
static void fill_terms_one(call_t *c) { fill_terms(c, (size_t)c->count); }
static void fill_terms_all(call_t *c) { fill_terms(c, (size_t)c->count * (size_t)c->size); }

/* Does recv not hold what the reduction leaves? */
static int wrong_reduction(const call_t *c, left_t left) {
    const int *numbers = (const int *)c->recv;
    int low = left.low, high = left.high, ranks = high - low;
    int ends = ranks < 8 ? high : low + 8; /* eight ranks set all bits */
    for (size_t i = 0; i < left.n; i++) {
        int sum = ranks * term(0, left.first + i) + ranks * (low + high - 1) / 2;
        unsigned char bits = 0;
        for (int r = low; r < ends; r++) bits |= bit(r, left.first + i);
        if (c->type == MPI_INT ? numbers[i] != sum : c->recv[i] != bits) return 1;
    }
    return 0;
}

static int wrong_block(const call_t *c, int block, int source, size_t offset) {
    const unsigned char *got = c->recv + (size_t)block * c->msize;
    unsigned char difference = 0;
    for (size_t i = 0; i < c->msize; i++) difference |= got[i] ^ pattern(source, offset + i);
    return difference != 0;
}

/* Is a block of any source wrong, of what they send from `offset` on? */
static int wrong_blocks(const call_t *c, size_t offset) {
    for (int b = 0; b < c->size; b++)
        if (wrong_block(c, b, b, offset)) return 1;
    return 0;
}

/* What each collective leaves on this rank that is not right. */
#define WRONG(name, condition) \
    static int wrong_##name(const call_t *c) { return (void)c, (condition); }
WRONG(nothing, 0)
WRONG(bcast, wrong_block(c, 0, ROOT, 0))
WRONG(allgather, wrong_blocks(c, 0))
WRONG(gather, c->rank == ROOT && wrong_blocks(c, 0))
WRONG(scatter, wrong_block(c, 0, ROOT, (size_t)c->rank * c->msize))
WRONG(alltoall, wrong_blocks(c, (size_t)c->rank * c->msize))

/* What each reduction leaves on this rank. */
#define LEAVES(name, low, high, first, n)                                                \
    static left_t left_##name(const call_t *c) { return (left_t){low, high, first, n}; } \
    static int wrong_##name(const call_t *c) { return wrong_reduction(c, left_##name(c)); }
#define COUNT ((size_t)c->count)
LEAVES(allreduce, 0, c->size, 0, COUNT)
LEAVES(reduce, 0, c->size, 0, c->rank == ROOT ? COUNT : 0)
LEAVES(scan, 0, c->rank + 1, 0, COUNT)
LEAVES(exscan, 0, c->rank, 0, c->rank ? COUNT : 0)
LEAVES(reduce_scatter, 0, c->size, (size_t)c->displs[c->rank], (size_t)c->counts[c->rank])
LEAVES(reduce_scatter_block, 0, c->size, (size_t)c->rank * COUNT, COUNT)

#define SENT c->send, c->count, c->type
#define RECEIVED c->recv, c->count, c->type
#define REDUCED c->send, c->recv, c->count, c->type, c->op
#define RUN(name, call) \
    static int run_##name(call_t *c) { return call; }
RUN(barrier, MPI_Barrier(c->comm))
RUN(bcast, MPI_Bcast(RECEIVED, ROOT, c->comm))
RUN(reduce, MPI_Reduce(REDUCED, ROOT, c->comm))
RUN(allreduce, MPI_Allreduce(REDUCED, c->comm))
RUN(scan, MPI_Scan(REDUCED, c->comm))
RUN(exscan, MPI_Exscan(REDUCED, c->comm))
RUN(reduce_scatter, MPI_Reduce_scatter(c->send, c->recv, c->counts, c->type, c->op, c->comm))
RUN(reduce_scatter_block, MPI_Reduce_scatter_block(REDUCED, c->comm))
RUN(allgather, MPI_Allgather(SENT, RECEIVED, c->comm))
RUN(allgatherv, MPI_Allgatherv(SENT, c->recv, c->counts, c->displs, c->type, c->comm))
RUN(alltoall, MPI_Alltoall(SENT, RECEIVED, c->comm))
RUN(alltoallv, MPI_Alltoallv(c->send, c->counts, c->displs, c->type, c->recv, c->counts, c->displs,
                             c->type, c->comm))
RUN(gather, MPI_Gather(SENT, RECEIVED, ROOT, c->comm))
RUN(scatter, MPI_Scatter(SENT, RECEIVED, ROOT, c->comm))

static const collective_t COLLECTIVES[] = {
    {"allgather", run_allgather, fill_one, wrong_allgather, 1, -1, NULL},
    {"allgatherv", run_allgatherv, fill_one, wrong_allgather, 1, -1, NULL},
    {"allreduce", run_allreduce, fill_terms_one, wrong_allreduce, 1, 1, left_allreduce},
    {"alltoall", run_alltoall, fill_all, wrong_alltoall, -1, -1, NULL},
    {"alltoallv", run_alltoallv, fill_all, wrong_alltoall, -1, -1, NULL},
    {"barrier", run_barrier, fill_nothing, wrong_nothing, 0, 0, NULL},
    {"bcast", run_bcast, fill_bcast, wrong_bcast, 0, 1, NULL},
    {"exscan", run_exscan, fill_terms_one, wrong_exscan, 1, 1, left_exscan},
    {"gather", run_gather, fill_one, wrong_gather, 1, -1, NULL},
    {"reduce", run_reduce, fill_terms_one, wrong_reduce, 1, 1, left_reduce},
    {"reduce_scatter", run_reduce_scatter, fill_terms_one, wrong_reduce_scatter, 1, 1,
     left_reduce_scatter},
    {"reduce_scatter_block", run_reduce_scatter_block, fill_terms_all, wrong_reduce_scatter_block,
     -1, 1, left_reduce_scatter_block},
    {"scan", run_scan, fill_terms_one, wrong_scan, 1, 1, left_scan},
    {"scatter", run_scatter, fill_all, wrong_scatter, -1, 1, NULL},
};

const collective_t *find_collective(const char *name) {
    for (size_t i = 0; i < sizeof COLLECTIVES / sizeof *COLLECTIVES; i++)
        if (!strcmp(COLLECTIVES[i].name, name)) return &COLLECTIVES[i];
    return NULL;
}

/* Length of a buffer of `blocks` as in collective_t. */
static size_t length_of(const call_t *c, int blocks) {
    return c->msize * (size_t)(blocks < 0 ? c->size : blocks);
}

void prepare_check(call_t *c, const collective_t *collective) {
    memset(c->recv, 0, length_of(c, collective->recv_blocks));
    collective->fill(c);
}

/* With one process late: does another one tell it that it has left before the late one entered?
 * A message that has arrived by then is a proof; a violation may stay unseen, but not often. */
static int leaks(call_t *c, MPI_Comm base, int late, int *refused) {
    const struct timespec a_while = {0, 100000};
    int leaked = 0, told = 0;
    for (int i = 0; i < LATE_POLLS && c->rank == late && !leaked; i++) {
        nanosleep(&a_while, NULL);
        MPI_Iprobe(MPI_ANY_SOURCE, LEFT_TAG, base, &leaked, MPI_STATUS_IGNORE);
    }
    if (MPI_Barrier(c->comm) != MPI_SUCCESS) *refused = 1;
    if (c->rank != late) MPI_Send(NULL, 0, MPI_BYTE, late, LEFT_TAG, base);
    for (; c->rank == late && told < c->size - 1; told++)
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, LEFT_TAG, base, MPI_STATUS_IGNORE);
    return leaked;
}

int barrier_leaks(call_t *c, MPI_Comm base) {
    const int late[] = {0, 1, c->size / 2, c->size - 1};
    int leaked = 0, refused = 0;
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        if (late[i] < c->size) leaked |= leaks(c, base, late[i], &refused);
    return refused ? -1 : leaked;
}

void prepare_typed_call(call_t *c, const collective_t *collective, MPI_Datatype type, MPI_Op op,
                        size_t width) {
    int splits = collective->run == run_reduce_scatter;
    c->type = type;
    c->op = op;
    c->count = (int)(c->msize / width);
    for (int r = 0, at = 0; r < c->size; r++) {
        c->counts[r] = splits ? c->count / c->size + (r < c->count % c->size) : c->count;
        c->displs[r] = at;
        at += c->counts[r];
    }
}

void prepare_call(call_t *c, const collective_t *collective) {
    if (collective->left && c->msize % sizeof(int) == 0)
        prepare_typed_call(c, collective, MPI_INT, MPI_SUM, sizeof(int));
    else
        prepare_typed_call(c, collective, MPI_BYTE, MPI_BOR, 1);
}
