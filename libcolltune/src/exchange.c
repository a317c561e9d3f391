/* Phase 2, the exchange between the leaders of the nodes, overlapped with phase 3, the distribution
 * on each node (Tran et al., sec. 3.2, figures 13 and 14).
 *
 * What a leader receives comes into the shared memory at once; it raises its counter, and all
 * processes of the node copy out while the next transfer is in flight. */
#include "hierarchy.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Copied between two looks at the network. */
static const size_t PIECE = (size_t)1 << 17;

/* ---- plans ---- */

/* In step s each passes on what it got in step s - 1, its own part first. */
static void plan_ring(int nodes, int node, ct_plan_t *plan) {
    int left = (node + nodes - 1) % nodes, right = (node + 1) % nodes;
    for (int s = 0; s < nodes - 1; s++) {
        int sent = (node + nodes - s) % nodes, received = (left + nodes - s) % nodes;
        plan->sends[plan->n_sends++] = (ct_move_t){right, sent, sent + 1, s};
        plan->receives[plan->n_receives++] = (ct_move_t){left, received, received + 1, 0};
    }
}

/* Where nodes are no power of two, the first `extra` pairs of neighbours act as one: the even node
 * for both, and passes on to the odd one what comes, at once. The first node of pair v: */
static int first_of(int v, int extra) { return v < extra ? 2 * v : v + extra; }

static void plan_odd(int node, int power, int extra, ct_plan_t *plan) {
    int even = node - 1, v = even / 2;
    plan->sends[plan->n_sends++] = (ct_move_t){even, node, node + 1, 0};
    plan->receives[plan->n_receives++] = (ct_move_t){even, even, even + 1, 0};
    for (int step = 1; step < power; step *= 2) {
        int theirs = (v ^ step) / step * step;
        ct_move_t move = {even, first_of(theirs, extra), first_of(theirs + step, extra), 0};
        plan->receives[plan->n_receives++] = move;
    }
}

static void plan_doubling(int nodes, int node, ct_plan_t *plan) {
    int power = 1;
    while (2 * power <= nodes) power *= 2;
    int extra = nodes - power, paired = node < 2 * extra;
    if (paired && node % 2) {
        plan_odd(node, power, extra, plan);
        return;
    }
    int v = paired ? node / 2 : node - extra;
    if (paired) {
        plan->receives[plan->n_receives++] = (ct_move_t){node + 1, node + 1, node + 2, 0};
        plan->sends[plan->n_sends++] = (ct_move_t){node + 1, node, node + 1, 0};
    }
    for (int step = 1; step < power; step *= 2) {
        int peer = first_of(v ^ step, extra);
        int ours = v / step * step, theirs = (v ^ step) / step * step;
        int first = first_of(theirs, extra), end = first_of(theirs + step, extra);
        plan->sends[plan->n_sends++] = (ct_move_t){
            peer, first_of(ours, extra), first_of(ours + step, extra), plan->n_receives};
        plan->receives[plan->n_receives++] = (ct_move_t){peer, first, end, 0};
        if (paired)
            plan->sends[plan->n_sends++] = (ct_move_t){node + 1, first, end, plan->n_receives};
    }
}

void ct_plan_of(int exchange, int nodes, int node, ct_plan_t *plan) {
    plan->n_receives = plan->n_sends = 0;
    if (exchange == CT_RING) plan_ring(nodes, node, plan);
    else plan_doubling(nodes, node, plan);
}

static const char plan_key;

static void release(void *data) {
    ct_plan_t *plan = data;
    free(plan->receives);
    free(plan->requests);
    free(plan);
}

const ct_plan_t *ct_plan(ct_comm_t *c, const ct_hierarchy_t *h, int exchange) {
    ct_plan_t *plan = ct_find(c, &plan_key, exchange);
    if (plan) return plan;
    size_t most = 0; /* doubling: in each step to the peer and to the neighbour; and one's own */
    if (exchange == CT_RING) most = (size_t)h->nodes;
    else for (int n = h->nodes; n > 0; n /= 2) most += 2;
    plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    plan->receives = calloc(2 * most, sizeof *plan->receives);
    plan->requests = calloc(2 * most, sizeof *plan->requests);
    if (plan->receives && plan->requests) {
        plan->sends = plan->receives + most;
        ct_plan_of(exchange, h->nodes, h->node, plan);
        return ct_keep(c, &plan_key, exchange, plan, release);
    }
    release(plan);
    return NULL;
}

/* ---- copying out ---- */

typedef struct {
    const ct_node_call_t *call;
    int copied[CT_MOST_LEADERS]; /* chunks, of each leader */
    size_t at[CT_MOST_LEADERS];
    int unfinished; /* leaders */
    int code;       /* after an error chunks are counted, not copied */
} copier_t;

enum { NOTHING, SOME, MORE };

/* One more chunk of leader k is done with. */
static void finish(copier_t *copier, int k) {
    const ct_node_call_t *call = copier->call;
    copier->at[k] = 0;
    if (++copier->copied[k] <= call->plan->n_receives) return;
    int leader = ct_led_from(call->h->ppn, call->leaders, k);
    copier->code = ct_first(copier->code, ct_same_size(call->h, leader));
    copier->unfinished--;
}

/* Copy a piece of a chunk that is there; whether there was one, or even more of it. */
static int copy_some(copier_t *copier) {
    const ct_node_call_t *call = copier->call;
    int chunks = 1 + call->plan->n_receives;
    for (int k = 0; k < call->leaders; k++) {
        int next = copier->copied[k], code;
        if (next == chunks) continue;
        if (ct_arrived(call->h, k, &code) < (call->overlap ? next + 1 : chunks)) continue;
        int first = call->h->node, end = first + 1;
        if (next) first = call->plan->receives[next - 1].first, end = call->plan->receives[next - 1].end;
        copier->code = code = ct_first(copier->code, code);
        if (code == MPI_SUCCESS)
            copier->code = call->copy(call, k, first, end, PIECE, &copier->at[k]);
        if (copier->code == MPI_SUCCESS && copier->at[k] != SIZE_MAX) return MORE;
        finish(copier, k);
        return SOME;
    }
    return NOTHING;
}

static void follow(copier_t *copier) {
    ct_wait_t wait = {0};
    while (copier->unfinished) {
        int did = copy_some(copier), code = MPI_SUCCESS;
        if (did) wait = (ct_wait_t){0};
        else code = ct_wait_turn(copier->call->h, &wait);
        if (did == MORE) sched_yield(); /* a leader on this processor must not wait for all of it */
        copier->code = ct_first(copier->code, code);
        if (code != MPI_SUCCESS) return; /* of MPI itself: nobody may come any more */
    }
}

/* ---- leaders ---- */

typedef struct {
    copier_t *copier;
    int k;
    MPI_Request *receives, *sends;
    int received, started, sent;
    int code; /* what others are told */
} leader_t;

static size_t begin_of(const leader_t *leader, int node) {
    return leader->copier->call->begin(leader->copier->call, leader->k, node);
}

/* Start a transfer. Parts without data are sent as well: other counts elsewhere may have some. */
static void start(leader_t *leader, const ct_move_t *move, int is_send, MPI_Request *request) {
    static char none;
    const ct_node_call_t *call = leader->copier->call;
    const ct_hierarchy_t *h = call->h;
    size_t begin = begin_of(leader, move->first), bytes = begin_of(leader, move->end) - begin;
    int peer = ct_rank_of_leader(h, move->peer, leader->k, call->leaders), code;
    char *at = is_send && leader->code != MPI_SUCCESS ? &none : call->base + begin;
    *request = MPI_REQUEST_NULL;
    if (is_send)
        code = PMPI(Isend)(at, ct_length(bytes, leader->code), MPI_BYTE, peer, h->tag, h->work, request);
    else code = PMPI(Irecv)(at, (int)bytes, MPI_BYTE, peer, h->tag, h->work, request);
    leader->code = ct_first(leader->code, code);
}

int ct_check_length(const MPI_Status *status, size_t bytes) {
    int got;
    int code = PMPI(Get_count)(status, MPI_BYTE, &got);
    return code == MPI_SUCCESS && got != (int)bytes ? MPI_ERR_TRUNCATE : code;
}

/* Whether the next receive is complete. */
static int take(leader_t *leader) {
    const ct_move_t *move = &leader->copier->call->plan->receives[leader->received];
    size_t bytes = begin_of(leader, move->end) - begin_of(leader, move->first);
    MPI_Status status;
    int done, code = PMPI(Test)(&leader->receives[leader->received], &done, &status);
    if (code == MPI_SUCCESS && !done) return 0;
    if (code == MPI_SUCCESS) code = ct_check_length(&status, bytes);
    leader->code = ct_first(leader->code, code);
    ct_arrive(leader->copier->call->h, leader->k, 1 + ++leader->received, leader->code);
    return 1;
}

/* One look at the next receive and the next send to complete; whether there was a receive. */
static int look(leader_t *leader) {
    const ct_plan_t *plan = leader->copier->call->plan;
    int came = leader->received < plan->n_receives && take(leader), done;
    while (leader->started < plan->n_sends &&
           plan->sends[leader->started].after <= leader->received) {
        int i = leader->started++;
        start(leader, &plan->sends[i], 1, &leader->sends[i]);
    }
    if (leader->sent < leader->started) {
        int code = PMPI(Test)(&leader->sends[leader->sent], &done, MPI_STATUS_IGNORE);
        leader->sent += code != MPI_SUCCESS || done;
        leader->code = ct_first(leader->code, code);
    }
    return came;
}

static void lead(leader_t *leader) {
    copier_t *copier = leader->copier;
    const ct_plan_t *plan = copier->call->plan;
    for (int i = 0; i < plan->n_receives; i++)
        start(leader, &plan->receives[i], 0, &leader->receives[i]);
    ct_arrive(copier->call->h, leader->k, 1, leader->code);
    while (leader->received < plan->n_receives || leader->sent < plan->n_sends ||
           copier->unfinished)
        if (!look(leader) && copy_some(copier) == NOTHING) sched_yield();
}

int ct_exchange(ct_node_call_t *call) {
    MPI_Request *requests = call->plan->requests;
    copier_t copier = {.call = call, .unfinished = call->leaders, .code = call->code};
    leader_t leader = {.copier = &copier, .k = ct_leader(call->h, call->leaders), .receives = requests,
                       .sends = requests + call->plan->n_receives, .code = call->code};
    if (leader.k < 0) follow(&copier);
    else lead(&leader);
    return ct_first(copier.code, leader.code);
}

/* ---- messages of all algorithms ---- */

int ct_tag(const ct_comm_t *c) {
    static atomic_int highest;
    int most = atomic_load_explicit(&highest, memory_order_relaxed), found = 0, *bound;
    if (!most) {
        PMPI(Comm_get_attr)(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
        most = found && *bound > 0 ? *bound : SHRT_MAX; /* which MPI promises */
        atomic_store(&highest, most);
    }
    return 1 + (int)(c->calls % (unsigned long)most);
}

int ct_wait_all(int n, MPI_Request *requests) {
    int code = MPI_SUCCESS;
    for (int i = 0; i < n; i++) code = ct_first(code, PMPI(Wait)(&requests[i], MPI_STATUS_IGNORE));
    return code;
}
