/* Allreduces in the node's shared memory, each process reducing its part of all inputs. Every element is
 * reduced at one place, and so the results are the same on all processes.
 *
 * ring: over nodes. After the reduction on the node, a reduce-scatter between leaders in a ring, and
 * the hierarchical allgather, overlapped with the distribution (Tran et al., sec. 2.2.2 and 5.4; the
 * ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 2009). The vector lies in the shared memory as
 * the user has it: leader k's share is the k-th of `leaders` parts, and of that node q's is the q-th
 * of `nodes`. Behind it are the inputs of the node's processes.
 *
 * doubling: on one node, with the bits of the recursive doubling of Open MPI and MPICH.
 *
 * The order of summation:
 * - ring: on a node that of the ranks, ((0 + 1) + 2) + ...; between nodes, for the part that node q
 *   gathers, that of the nodes q + 1, q + 2, ..., the last one and 0 following each other, up to q.
 * - doubling: of p processes, `most` is the largest power of two of them and extra = p - most. Ranks 2 i
 *   and 2 i + 1 for i < extra are combined and become new rank i; the others, r, become r - extra. Then
 *   for mask = 1, 2, 4, ... < most the sums that begin at new ranks i and i + mask are combined, for
 *   all multiples i of 2 mask. The lower ranks are always the first operand. */
#include "hierarchy.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

typedef struct {
    ct_node_call_t call;
    ct_reduction_t reduction;
    const void *input;
    void *recvbuf;
    size_t count, low, elements; /* in all; of this round: from where on, how many */
    size_t stride;               /* bytes from one input in the shared memory to the next */
    int in_place;                /* all is done in the receive buffer: nothing to be copied */
    int is_doubling;             /* by the order of recursive doubling, not of the ranks */
} sum_t;

/* ---- parts of the vector, in elements ---- */

static size_t part(size_t of, int number, int parts) {
    size_t i = (size_t)number, n = (size_t)parts;
    return of / n * i + of % n * i / n;
}

static size_t element_begin(const sum_t *sum, int k, int node) {
    size_t first = part(sum->elements, k, sum->call.leaders);
    size_t share = part(sum->elements, k + 1, sum->call.leaders) - first;
    return first + part(share, node, sum->call.h->nodes);
}

static size_t begin(const ct_node_call_t *call, int k, int node) {
    const sum_t *sum = (const sum_t *)call;
    return element_begin(sum, k, node) * sum->reduction.elements.size;
}

static int copy(const ct_node_call_t *call, int k, int first, int end, size_t budget, size_t *at) {
    const sum_t *sum = (const sum_t *)call;
    const ct_elements_t *e = &sum->reduction.elements;
    size_t from = element_begin(sum, k, first), n = element_begin(sum, k, end) - from - *at;
    size_t most = e->size < budget ? budget / e->size : 1;
    int code = MPI_SUCCESS, is_last = sum->in_place || n <= most;
    if (n > most) n = most;
    from += *at;
    if (n && !sum->in_place) {
        char *there = ct_element(e, sum->recvbuf, sum->low + from);
        code = ct_unpack(e, call->base + from * e->size, there, n, sum->call.h->work);
    }
    *at = is_last ? SIZE_MAX : *at + n;
    return code;
}

/* ---- reduction on the node ---- */

/* The input of the node's process `local`, behind the result. Doubling combines inputs where they lie
 * and ends in the last one's place: that is the result's. */
static char *input_of(const sum_t *sum, int local) {
    int ppn = sum->call.h->ppn, area = sum->is_doubling ? (local + 1) % ppn : local + 1;
    return sum->call.base + (size_t)(ppn == 1 ? 0 : area) * sum->stride;
}

static size_t areas(const sum_t *sum) { return (size_t)sum->call.h->most + !sum->is_doubling; }

/* A block of `n` elements, `at` bytes from the beginning. */
static int add_in_turn(const sum_t *sum, size_t at, size_t n) {
    const ct_reduction_t *r = &sum->reduction;
    char *result = sum->call.base + at;
    int code = MPI_SUCCESS;
    memcpy(result, input_of(sum, 0) + at, n * r->elements.size);
    for (int j = 1; j < sum->call.h->ppn && code == MPI_SUCCESS; j++)
        code = ct_reduce(r, input_of(sum, j) + at, result, n);
    return code;
}

/* The last process of doubling's new rank. */
static int last_of(int new_rank, int extra) {
    return new_rank < extra ? 2 * new_rank + 1 : new_rank + extra;
}

static int add_pair(const sum_t *sum, int lower, int upper, size_t at, size_t n) {
    return ct_reduce(&sum->reduction, input_of(sum, lower) + at, input_of(sum, upper) + at, n);
}

/* Sum up the new ranks from `first` on, `many` of them, a power of two; it lies where the input of the
 * last process of them was. */
static int add_doubling(const sum_t *sum, int extra, int first, int many, size_t at, size_t n) {
    int half = many / 2, next = first + half, code;
    if (!half) return first < extra ? add_pair(sum, 2 * first, 2 * first + 1, at, n) : MPI_SUCCESS;
    code = add_doubling(sum, extra, first, half, at, n);
    if (code == MPI_SUCCESS) code = add_doubling(sum, extra, next, half, at, n);
    if (code != MPI_SUCCESS) return code;
    return add_pair(sum, last_of(next - 1, extra), last_of(first + many - 1, extra), at, n);
}

static int reduce_part(const sum_t *sum, size_t first, size_t end) {
    const ct_reduction_t *r = &sum->reduction;
    int ppn = sum->call.h->ppn, most = 1, code = MPI_SUCCESS;
    while (2 * most <= ppn) most *= 2;
    for (size_t i = first; i < end && code == MPI_SUCCESS; i += r->most) {
        size_t at = i * r->elements.size, n = end - i < r->most ? end - i : r->most;
        code = sum->is_doubling ? add_doubling(sum, ppn - most, 0, most, at, n)
                                : add_in_turn(sum, at, n);
    }
    return code;
}

/* Each process of the node reduces its part of all inputs. */
static int reduce_on_node(const sum_t *sum) {
    ct_hierarchy_t *h = sum->call.h;
    const ct_elements_t *e = &sum->reduction.elements;
    int code = sum->call.code;
    if (code == MPI_SUCCESS)
        code = ct_pack(e, ct_element(e, sum->input, sum->low), sum->elements, input_of(sum, h->local),
                       h->work);
    if (h->ppn == 1) return code;
    ct_written(h, sum->count * e->size, code);
    size_t first = part(sum->elements, h->local, h->ppn);
    size_t end = part(sum->elements, h->local + 1, h->ppn);
    if (first < end) code = ct_first(code, ct_await_written(h, 0, h->ppn));
    if (code == MPI_SUCCESS) code = reduce_part(sum, first, end);
    ct_mark(h, CT_REDUCED, code);
    if (ct_leader(h, sum->call.leaders) < 0) return code;
    return ct_first(code, ct_await(h, CT_REDUCED, 0, h->ppn));
}

/* ---- reduce-scatter between leaders ---- */

static int wait_for(MPI_Request *request, MPI_Status *status) {
    int done = 0, code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && !done) {
        code = PMPI(Test)(request, &done, status);
        if (code == MPI_SUCCESS && !done) sched_yield();
    }
    return code;
}

/* Send node `sent`'s part to the right, add what comes from the left to node `received`'s. Both are
 * done whatever happens; after an error the message has another length. */
static int ring_step(const sum_t *sum, int k, int sent, int received, char *room, int code) {
    const ct_hierarchy_t *h = sum->call.h;
    int left = ct_rank_of_leader(h, (h->node + h->nodes - 1) % h->nodes, k, sum->call.leaders);
    int right = ct_rank_of_leader(h, (h->node + 1) % h->nodes, k, sum->call.leaders);
    size_t out = begin(&sum->call, k, sent), out_bytes = begin(&sum->call, k, sent + 1) - out;
    size_t in = begin(&sum->call, k, received);
    size_t in_bytes = begin(&sum->call, k, received + 1) - in;
    const char *from = code == MPI_SUCCESS ? sum->call.base + out : (const char *)&code;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status;
    int length = ct_length(out_bytes, code);
    int posted = PMPI(Irecv)(room, room ? (int)in_bytes : 0, MPI_BYTE, left, h->tag, h->work, &requests[0]);
    posted = ct_first(posted, PMPI(Isend)(from, length, MPI_BYTE, right, h->tag, h->work, &requests[1]));
    int got = wait_for(&requests[0], &status);
    if (got == MPI_SUCCESS) got = ct_check_length(&status, in_bytes);
    got = ct_first(got, wait_for(&requests[1], MPI_STATUS_IGNORE));
    code = ct_first(ct_first(code, posted), got);
    if (code != MPI_SUCCESS || !in_bytes) return code;
    size_t count = in_bytes / sum->reduction.elements.size;
    return ct_reduce(&sum->reduction, room, sum->call.base + in, count);
}

static int reduce_scatter(const sum_t *sum, int k, int code) {
    const ct_hierarchy_t *h = sum->call.h;
    if (h->nodes == 1) return code;
    size_t share = begin(&sum->call, k, h->nodes) - begin(&sum->call, k, 0);
    size_t size = sum->reduction.elements.size;
    char *room = malloc(share / (size_t)h->nodes + size); /* the largest part of a node */
    if (!room) code = ct_first(code, MPI_ERR_NO_MEM);
    for (int s = 0; s < h->nodes - 1; s++) {
        int sent = (h->node + h->nodes - s - 1) % h->nodes;
        code = ring_step(sum, k, sent, (sent + h->nodes - 1) % h->nodes, room, code);
    }
    free(room);
    return code;
}

/* ---- rounds ---- */

/* Phase 1: the leaders have the sums of their parts of this node's part. */
static int bring(ct_node_call_t *call) {
    const sum_t *sum = (const sum_t *)call;
    int code = reduce_on_node(sum), k = ct_leader(call->h, call->leaders);
    return k < 0 ? code : reduce_scatter(sum, k, code);
}

static size_t stride_of(size_t elements, size_t size) {
    return (elements * size + LINE - 1) / LINE * LINE;
}

static int run_rounds(sum_t *sum, size_t elements) {
    sum->in_place = sum->call.h->ppn == 1 && sum->reduction.elements.dense;
    sum->stride = stride_of(elements, sum->reduction.elements.size);
    for (sum->low = 0; sum->low < sum->count; sum->low += elements) {
        size_t left = sum->count - sum->low;
        sum->elements = left < elements ? left : elements;
        char *there = ct_element(&sum->reduction.elements, sum->recvbuf, sum->low);
        ct_node_round(&sum->call, sum->in_place ? there : NULL);
    }
    return sum->call.code;
}

/* ---- one call ---- */

/* Whether all have a vector of as many bytes, by the largest and the smallest number of them. */
static int compare_vectors(const sum_t *sum) {
    long long bytes = (long long)(sum->count * sum->reduction.elements.size);
    long long mine[CT_COMPARED_WORDS] = {bytes, -bytes}, most[CT_COMPARED_WORDS] = {0};
    sum_t sizes = *sum;
    int code = ct_reduction(&sizes.reduction, MPI_LONG_LONG, MPI_MAX, sum->call.h->work);
    sizes.call.code = ct_first(sizes.call.code, code);
    sizes.input = mine;
    sizes.recvbuf = most;
    sizes.count = CT_COMPARED_WORDS;
    code = run_rounds(&sizes, CT_COMPARED_WORDS);
    return code == MPI_SUCCESS && (most[0] != bytes || most[1] != -bytes) ? MPI_ERR_TRUNCATE : code;
}

/* As many elements of a round as fit into halves of `half` bytes. */
static size_t elements_in(const sum_t *sum, size_t half) {
    return half / areas(sum) / LINE * LINE / sum->reduction.elements.size;
}

/* The elements that go in each round; 0 where memory is not enough for one. Whoever would not come by
 * with one round, as memory is now, compares sizes first. */
static int elements_of(sum_t *sum, long chunk, size_t *elements) {
    size_t size = sum->reduction.elements.size, most = elements_in(sum, ct_segment_most());
    if (chunk && (size_t)chunk / size < most) most = (size_t)chunk / size;
    if (!most) most = 1;
    *elements = sum->count < most ? sum->count : most;
    size_t bytes = areas(sum) * stride_of(*elements, size);
    int has = ct_segment_has(sum->call.h, bytes);
    if (has && *elements == sum->count && sum->count * size != CT_COMPARED_BYTES) return MPI_SUCCESS;
    int code = compare_vectors(sum);
    if (code == MPI_SUCCESS && !has) code = ct_segment_grow(sum->call.h, bytes);
    most = elements_in(sum, sum->call.h->half);
    if (*elements > most) *elements = most;
    return code;
}

static int run(ct_comm_t *c, const ct_call_t *call, const long *values, int is_doubling) {
    sum_t sum = {.call = {.bring = bring, .begin = begin, .copy = copy},
                 .recvbuf = call->recvbuf,
                 .is_doubling = is_doubling};
    size_t elements = 0;
    int code = ct_node_call(c, values, &sum.call);
    if (code != MPI_SUCCESS) return code;
    if (!sum.call.h->half) return ct_pass(call, c->base);
    sum.count = (size_t)call->recvcount;
    sum.input = call->sendbuf == MPI_IN_PLACE ? call->recvbuf : call->sendbuf;
    sum.call.code = ct_reduction(&sum.reduction, call->recvtype, call->op, sum.call.h->work);
    code = elements_of(&sum, values[CT_CHUNK], &elements);
    if (code == MPI_SUCCESS && elements) code = run_rounds(&sum, elements);
    ct_reduction_release(&sum.reduction);
    return code == MPI_SUCCESS && !elements ? ct_pass(call, c->base) : code;
}

static int run_ring(ct_comm_t *c, const ct_call_t *call, const long *values) {
    return run(c, call, values, 0);
}

static int run_doubling(ct_comm_t *c, const ct_call_t *call, const long *values) {
    static const long one_leader[] = {[CT_LEADERS] = 1, [CT_OVERLAP] = 1};
    (void)values;
    return run(c, call, one_leader, 1);
}

static int fits(const ct_comm_t *c, const ct_call_t *call, const long *values) {
    (void)c, (void)values;
    int size;
    if (!call->msize || !ct_is_reducible(call->op, call->recvtype)) return 0;
    return PMPI(Type_size)(call->recvtype, &size) == MPI_SUCCESS && size != MPI_UNDEFINED;
}

const ct_algorithm_t ct_allreduce_ring = {
    .collective = CT_ALLREDUCE,
    .name = "ring",
    .parameters = CT_NODE_PARAMETERS,
    .fits = fits,
    .run = run_ring,
};

const ct_algorithm_t ct_allreduce_doubling = {
    .collective = CT_ALLREDUCE,
    .name = "doubling",
    .fits = fits,
    .run = run_doubling,
    .is_of_a_node = 1,
};
