/* Hierarchical allgather: aggregation in the node's shared memory, exchange between leaders, and
 * distribution on the node that overlaps with it (Tran et al., sec. 3.2).
 *
 * Blocks lie in the shared memory by leader, then by node, then by rank, whatever order of ranks
 * over nodes: what a leader passes on is contiguous. Large blocks go in rounds of slices.
 *
 * How many rounds there are rests on the size of the block and on nothing else, so that errors leave
 * no process behind; that all have the same size is found out before a second round. */
#include "hierarchy.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The order of blocks for a number of leaders. */
typedef struct {
    int nodes;
    int *start; /* the first slot of leader k's blocks of node q: k * (nodes + 1) + q */
    int *rank;  /* of each slot */
    int mine;   /* this process's slot */
    int ranked; /* slots are ranks */
} order_t;

static const char order_key;

static void release(void *data) {
    order_t *order = data;
    free(order->start);
    free(order->rank);
    free(order);
}

static void fill(order_t *order, const ct_hierarchy_t *h, int leaders) {
    int slot = 0;
    order->ranked = 1;
    for (int k = 0; k < leaders; k++) {
        for (int q = 0; q < h->nodes; q++) {
            int ppn = h->first[q + 1] - h->first[q];
            order->start[k * (h->nodes + 1) + q] = slot;
            for (int i = ct_led_from(ppn, leaders, k); i < ct_led_from(ppn, leaders, k + 1); i++) {
                int rank = h->ranks[h->first[q] + i];
                if (rank == h->rank) order->mine = slot;
                if (rank != slot) order->ranked = 0;
                order->rank[slot++] = rank;
            }
        }
        order->start[k * (h->nodes + 1) + h->nodes] = slot;
    }
}

static const order_t *order_of(ct_comm_t *c, const ct_hierarchy_t *h, int leaders) {
    order_t *order = ct_find(c, &order_key, leaders);
    if (order) return order;
    order = calloc(1, sizeof *order);
    if (!order) return NULL;
    order->nodes = h->nodes;
    order->start = malloc((size_t)leaders * ((size_t)h->nodes + 1) * sizeof *order->start);
    order->rank = malloc((size_t)h->size * sizeof *order->rank);
    if (order->start && order->rank) {
        fill(order, h, leaders);
        return ct_keep(c, &order_key, leaders, order, release);
    }
    release(order);
    return NULL;
}

/* ---- one round ---- */

typedef struct {
    ct_node_call_t call;
    const order_t *order;
    ct_elements_t to;
    void *recvbuf;
    size_t recvcount;
    size_t block;     /* bytes */
    size_t low, high; /* of the block, in this round */
    char *whole;      /* all blocks, contiguous and by rank; NULL: unpack as they come */
    const char *mine; /* this process's block, contiguous; NULL: pack from `source` */
    ct_elements_t from;
    const void *source;
    size_t sendcount;
    int in_place; /* all is exchanged in the receive buffer: nothing to be copied */
} gather_t;

static size_t begin(const ct_node_call_t *call, int k, int node) {
    const gather_t *g = (const gather_t *)call;
    return (size_t)g->order->start[k * (g->order->nodes + 1) + node] * (g->high - g->low);
}

static int unpack(const gather_t *g, const char *bytes, int rank) {
    char *there = ct_element(&g->to, g->recvbuf, (size_t)rank * g->recvcount);
    return ct_unpack(&g->to, bytes, there, g->recvcount, g->call.h->work);
}

static int copy(const ct_node_call_t *call, int k, int first, int end, size_t budget, size_t *at) {
    const gather_t *g = (const gather_t *)call;
    size_t slice = g->high - g->low, from = begin(call, k, first);
    size_t left = begin(call, k, end) - from - *at;
    if (g->in_place) left = 0;
    while (left && budget) {
        size_t slot = (from + *at) / slice, offset = (from + *at) % slice, bytes = slice - offset;
        const char *there = call->base + from + *at;
        int rank = g->order->rank[slot], code = MPI_SUCCESS;
        if (g->whole) {
            if (bytes > budget) bytes = budget;
            memcpy(g->whole + (size_t)rank * g->block + g->low + offset, there, bytes);
        } else {
            code = unpack(g, there, rank);
        }
        if (code != MPI_SUCCESS) return code;
        *at += bytes;
        left -= bytes;
        budget -= bytes < budget ? bytes : budget;
    }
    if (!left) *at = SIZE_MAX;
    return MPI_SUCCESS;
}

/* Phase 1: every process writes its block, leaders wait for those that they lead. */
static int aggregate(ct_node_call_t *call) {
    const gather_t *g = (const gather_t *)call;
    ct_hierarchy_t *h = call->h;
    char *slot = call->base + (size_t)g->order->mine * (g->high - g->low);
    int code = call->code, k = ct_leader(h, call->leaders);
    if (code == MPI_SUCCESS) {
        if (!g->mine) code = ct_pack(&g->from, g->source, g->sendcount, slot, h->work);
        else if (slot != g->mine + g->low) memcpy(slot, g->mine + g->low, g->high - g->low);
    }
    ct_written(h, g->block, code);
    if (k < 0) return code;
    return ct_first(code, ct_await_written(h, h->local, ct_led_from(h->ppn, call->leaders, k + 1)));
}

/* ---- buffers ---- */

static int unpack_all(const gather_t *g) {
    int code = MPI_SUCCESS;
    for (int r = 0; r < g->call.h->size && code == MPI_SUCCESS; r++)
        code = unpack(g, g->whole + (size_t)r * g->block, r);
    return code;
}

/* Where one round does not do, blocks that are not dense are packed and unpacked as a whole. */
static void pack_whole(gather_t *g, char **packed, char **whole) {
    if (!g->from.dense) {
        g->mine = *packed = malloc(g->block);
        int code = *packed ? ct_pack(&g->from, g->source, g->sendcount, *packed, g->call.h->work)
                           : MPI_ERR_NO_MEM;
        g->call.code = ct_first(g->call.code, code);
    }
    if (!g->to.dense) {
        g->whole = *whole = malloc(g->block * (size_t)g->call.h->size);
        if (!*whole) g->call.code = ct_first(g->call.code, MPI_ERR_NO_MEM);
    }
}

static int run_rounds(gather_t *g, size_t slice) {
    char *packed = NULL, *whole = NULL;
    if (g->from.dense) g->mine = g->source;
    if (g->to.dense) g->whole = g->recvbuf;
    if (slice < g->block && g->call.code == MPI_SUCCESS) pack_whole(g, &packed, &whole);
    g->in_place = slice == g->block && g->to.dense && g->call.h->ppn == 1 && g->order->ranked;
    for (g->low = 0; g->low < g->block; g->low = g->high) {
        g->high = g->block - g->low < slice ? g->block : g->low + slice;
        ct_node_round(&g->call, g->in_place ? g->recvbuf : NULL);
    }
    if (g->call.code == MPI_SUCCESS && whole) g->call.code = unpack_all(g);
    free(packed);
    free(whole);
    return g->call.code;
}

static int read_types(gather_t *g, const ct_call_t *call) {
    int code = ct_elements(call->recvtype, &g->to);
    g->recvbuf = call->recvbuf;
    g->recvcount = (size_t)call->recvcount;
    g->block = call->msize;
    g->source = call->sendbuf;
    g->sendcount = (size_t)call->sendcount;
    if (code == MPI_SUCCESS && call->sendbuf != MPI_IN_PLACE)
        code = ct_elements(call->sendtype, &g->from);
    else {
        g->from = g->to;
        g->sendcount = g->recvcount;
        g->source = ct_element(&g->to, call->recvbuf, (size_t)g->call.h->rank * g->recvcount);
    }
    if (code == MPI_SUCCESS && g->sendcount * g->from.size != g->block) code = MPI_ERR_TRUNCATE;
    return code;
}

/* ---- one call ---- */

/* Whether all have the same block, by an allgather of its size. */
static int compare_blocks(const gather_t *g) {
    unsigned long long mine[CT_COMPARED_WORDS] = {g->block};
    unsigned long long *theirs = malloc((size_t)g->call.h->size * sizeof mine);
    gather_t sizes = *g;
    if (!theirs) return MPI_ERR_NO_MEM;
    sizes.block = sizes.sendcount = sizes.recvcount = sizeof mine;
    sizes.to = sizes.from = (ct_elements_t){.type = MPI_BYTE, .size = 1, .extent = 1, .dense = 1};
    sizes.source = mine;
    sizes.recvbuf = theirs;
    int code = run_rounds(&sizes, sizeof mine);
    for (int r = 0; r < g->call.h->size && code == MPI_SUCCESS; r++)
        if (theirs[r * CT_COMPARED_WORDS] != g->block) code = MPI_ERR_TRUNCATE;
    free(theirs);
    return code;
}

/* The bytes of a block that go in each round. Whoever would not come by with one, as memory is now,
 * compares sizes first. */
static int slice_of(gather_t *g, long chunk, size_t *slice) {
    size_t n = (size_t)g->call.h->size;
    *slice = ct_segment_most() / n ? ct_segment_most() / n : 1;
    if (chunk && (size_t)chunk < *slice) *slice = (size_t)chunk;
    if (g->block < *slice) *slice = g->block;
    int has = ct_segment_has(g->call.h, *slice * n);
    if (has && *slice == g->block && g->block != CT_COMPARED_BYTES) return MPI_SUCCESS;
    int code = compare_blocks(g);
    if (code == MPI_SUCCESS && !has) code = ct_segment_grow(g->call.h, *slice * n);
    if (*slice > g->call.h->half / n) *slice = g->call.h->half / n;
    return code;
}

static int run(ct_comm_t *c, const ct_call_t *call, const long *values) {
    gather_t g = {.call = {.bring = aggregate, .begin = begin, .copy = copy}};
    size_t slice = 0;
    int code = ct_node_call(c, values, &g.call);
    if (code != MPI_SUCCESS) return code;
    if (!g.call.h->half) return ct_pass(call, c->base);
    g.order = order_of(c, g.call.h, g.call.leaders);
    if (!g.order) return MPI_ERR_NO_MEM;
    g.call.code = read_types(&g, call);
    code = slice_of(&g, values[CT_CHUNK], &slice);
    return code == MPI_SUCCESS ? run_rounds(&g, slice) : code;
}

/* A larger block would not be one message; whether a datatype can be described may differ between
 * processes there. */
static int fits(const ct_comm_t *c, const ct_call_t *call, const long *values) {
    (void)c, (void)values;
    return call->msize > 0 && call->msize <= INT_MAX;
}

const ct_algorithm_t ct_allgather_hierarchical = {
    .collective = CT_ALLGATHER,
    .name = "hierarchical",
    .parameters = CT_NODE_PARAMETERS,
    .fits = fits,
    .run = run,
};
