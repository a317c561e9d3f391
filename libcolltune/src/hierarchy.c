/* Nodes, their processes and their leaders. */
#include "core.h"
#include "hierarchy.h"

#include <stdlib.h>

const char *const ct_exchange_words[] = {"ring", "recursive_doubling", NULL};
const char *const ct_overlap_words[] = {"no", "yes", NULL};

static const char hierarchy_key;

/* Order the ranks by node; nodes are numbered by their lowest ranks. */
static void sort_ranks(ct_hierarchy_t *h, const int *node_of) {
    for (int r = 0; r < h->size; r++) h->first[node_of[r] + 1]++;
    for (int n = 0; n < h->nodes; n++) h->first[n + 1] += h->first[n];
    for (int r = 0; r < h->size; r++) h->ranks[h->first[node_of[r]]++] = r;
    for (int n = h->nodes; n > 0; n--) h->first[n] = h->first[n - 1];
    h->first[0] = 0;
}

static void describe(ct_hierarchy_t *h) {
    h->least = h->size;
    for (int n = 0; n < h->nodes; n++) {
        int ppn = h->first[n + 1] - h->first[n];
        if (ppn < h->least) h->least = ppn;
        if (ppn > h->most) h->most = ppn;
    }
    h->ppn = h->first[h->node + 1] - h->first[h->node];
    while (h->ranks[h->first[h->node] + h->local] != h->rank) h->local++;
}

static void release(void *data) {
    ct_hierarchy_t *h = data;
    ct_segment_release(h);
    free(h->first);
    free(h->ranks);
    free(h->world);
    free(h);
}

/* The ranks in MPI_COMM_WORLD of this node's processes, in their order; NULL without memory. */
static int *world_of(const ct_comm_t *c, const ct_hierarchy_t *h) {
    int *world = ct_world_ranks(c->comm, c->size), *ours = calloc((size_t)h->ppn, sizeof *ours);
    for (int i = 0; world && ours && i < h->ppn; i++) ours[i] = world[h->ranks[h->first[h->node] + i]];
    if (!world) {
        free(ours);
        ours = NULL;
    }
    free(world);
    return ours;
}

static int make(ct_comm_t *c, ct_hierarchy_t **made) {
    int code = ct_spread(c);
    if (code != MPI_SUCCESS) return code;
    ct_hierarchy_t *h = calloc(1, sizeof *h);
    if (!h) return MPI_ERR_NO_MEM;
    *h = (ct_hierarchy_t){.work = c->base, .size = c->size, .rank = c->rank};
    h->nodes = c->nodes;
    h->node = c->node_of[c->rank];
    h->first = calloc((size_t)c->nodes + 1, sizeof *h->first);
    h->ranks = calloc((size_t)c->size, sizeof *h->ranks);
    if (h->first && h->ranks) {
        sort_ranks(h, c->node_of);
        describe(h);
        h->world = world_of(c, h);
        if (h->world) *made = ct_keep(c, &hierarchy_key, 0, h, release);
        if (h->world) return *made ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    release(h);
    return MPI_ERR_NO_MEM;
}

int ct_hierarchy(ct_comm_t *c, ct_hierarchy_t **hierarchy) {
    int code = MPI_SUCCESS;
    *hierarchy = ct_find(c, &hierarchy_key, 0);
    if (!*hierarchy) code = make(c, hierarchy);
    if (code != MPI_SUCCESS) return code;
    (*hierarchy)->work = c->base;
    (*hierarchy)->tag = ct_tag(c);
    return ct_segment(*hierarchy, c->calls);
}

int ct_leaders(const ct_hierarchy_t *h, long wanted) {
    int most = h->least < CT_MOST_LEADERS ? h->least : CT_MOST_LEADERS;
    return wanted < most ? (int)wanted : most;
}

int ct_led_from(int ppn, int leaders, int k) {
    return (int)((long)ppn * k / leaders);
}

int ct_leader(const ct_hierarchy_t *h, int leaders) {
    for (int k = 0; k < leaders; k++)
        if (ct_led_from(h->ppn, leaders, k) == h->local) return k;
    return -1;
}

int ct_rank_of_leader(const ct_hierarchy_t *h, int node, int k, int leaders) {
    int ppn = h->first[node + 1] - h->first[node];
    return h->ranks[h->first[node] + ct_led_from(ppn, leaders, k)];
}

int ct_node_call(ct_comm_t *c, const long *values, ct_node_call_t *call) {
    int code = ct_hierarchy(c, &call->h);
    if (code != MPI_SUCCESS) return code;
    call->leaders = ct_leaders(call->h, values[CT_LEADERS]);
    call->overlap = (int)values[CT_OVERLAP];
    call->plan = ct_plan(c, call->h, (int)values[CT_EXCHANGE]);
    return call->plan ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void ct_node_round(ct_node_call_t *call, char *in_place) {
    char *half;
    call->code = ct_first(call->code, ct_round_begin(call->h, &half));
    call->base = in_place ? in_place : half;
    call->code = call->bring(call);
    call->code = ct_exchange(call);
    ct_round_end(call->h);
}
