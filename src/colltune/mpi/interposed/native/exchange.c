/* Phase 2, the exchange between the leaders of the nodes, overlapped with phase 3, the distribution
 * on each node (Tran et al., sec. 3.2, figures 13 and 14).
 *
 * What a leader receives comes into the shared memory at once; it raises its counter, and all
 * processes of the node copy out while the next transfer is in flight. */
#include "hierarchy.h"

#include <sched.h>
#include <stdlib.h>

enum { TAG = 2 };
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
    if (plan) free(plan->receives);
    free(plan);
}

const ct_plan_t *ct_plan(ct_comm_t *c, const ct_hierarchy_t *h, int exchange) {
    ct_plan_t *plan = ct_find(c, &plan_key, exchange);
    if (plan) return plan;
    size_t most = 0; /* doubling: in each step to the peer and to the neighbour; and one's own */
    if (exchange == CT_RING) most = (size_t)h->nodes;
    else for (int n = h->nodes; n > 0; n /= 2) most += 2;
    plan = calloc(1, sizeof *plan);
    if (plan) plan->receives = calloc(2 * most, sizeof *plan->receives);
    if (!plan || !plan->receives) {
        release(plan);
        return NULL;
    }
    plan->sends = plan->receives + most;
    ct_plan_of(exchange, h->nodes, h->node, plan);
    if (!ct_keep(c, &plan_key, exchange, plan, release)) return plan;
    release(plan);
    return NULL;
}

/* ---- copying out ---- */

typedef struct {
    ct_hierarchy_t *h;
    const ct_plan_t *plan;
    const ct_data_t *data;
    int leaders, overlap;
    int copied[CT_MOST_LEADERS]; /* chunks, of each leader */
    size_t at[CT_MOST_LEADERS];
    int unfinished; /* leaders */
} copier_t;

enum { NOTHING, SOME, MORE };

/* Copy a piece of a chunk that is there; `did` tells whether there was one, or even more of it. */
static int copy_some(copier_t *copier, int *did) {
    const ct_plan_t *plan = copier->plan;
    int chunks = 1 + plan->n_receives;
    *did = NOTHING;
    for (int k = 0; k < copier->leaders; k++) {
        int next = copier->copied[k];
        if (next == chunks || ct_arrived(copier->h, k) < (copier->overlap ? next + 1 : chunks))
            continue;
        int first = copier->h->node, end = first + 1;
        if (next) first = plan->receives[next - 1].first, end = plan->receives[next - 1].end;
        *did = MORE;
        int code = copier->data->copy(copier->data, k, first, end, PIECE, &copier->at[k]);
        if (code != MPI_SUCCESS || copier->at[k] != SIZE_MAX) return code;
        *did = SOME;
        copier->at[k] = 0;
        copier->unfinished -= ++copier->copied[k] == chunks;
        return MPI_SUCCESS;
    }
    return MPI_SUCCESS;
}

static int follow(copier_t *copier) {
    ct_wait_t wait = {0};
    while (copier->unfinished) {
        int did, code = copy_some(copier, &did);
        if (did) wait = (ct_wait_t){0};
        if (did == MORE) sched_yield(); /* a leader on this processor must not wait for all of it */
        if (code == MPI_SUCCESS) code = ct_failed(copier->h);
        if (code == MPI_SUCCESS && !did) code = ct_wait_turn(copier->h, &wait);
        if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
}

/* ---- leaders ---- */

typedef struct {
    copier_t *copier;
    int k;
    MPI_Request *receives, *sends;
    int received, started, sent;
} leader_t;

static int rank_of(const ct_hierarchy_t *h, int node, int k, int leaders) {
    int ppn = h->first[node + 1] - h->first[node];
    return h->ranks[h->first[node] + ct_led_from(ppn, leaders, k)];
}

/* Start a transfer; none of 0 bytes, which both sides know. */
static int start(const leader_t *leader, const ct_move_t *move, int is_send, MPI_Request *request) {
    const copier_t *copier = leader->copier;
    const ct_data_t *data = copier->data;
    size_t begin = data->begin(data, leader->k, move->first);
    size_t bytes = data->begin(data, leader->k, move->end) - begin;
    int peer = rank_of(copier->h, move->peer, leader->k, copier->leaders);
    *request = MPI_REQUEST_NULL;
    if (!bytes) return MPI_SUCCESS;
    if (bytes > INT32_MAX) return MPI_ERR_COUNT;
    char *at = data->base + begin;
    MPI_Comm work = copier->h->work;
    return is_send ? PMPI_Isend(at, (int)bytes, MPI_BYTE, peer, TAG, work, request)
                   : PMPI_Irecv(at, (int)bytes, MPI_BYTE, peer, TAG, work, request);
}

int ct_check_length(const MPI_Status *status, size_t bytes) {
    int got;
    int code = PMPI_Get_count(status, MPI_BYTE, &got);
    return code == MPI_SUCCESS && got != (int)bytes ? MPI_ERR_TRUNCATE : code;
}

static int take(leader_t *leader, int *done) {
    const ct_data_t *data = leader->copier->data;
    const ct_move_t *move = &leader->copier->plan->receives[leader->received];
    size_t begin = data->begin(data, leader->k, move->first);
    size_t bytes = data->begin(data, leader->k, move->end) - begin;
    MPI_Status status;
    int code = PMPI_Test(&leader->receives[leader->received], done, &status);
    if (code == MPI_SUCCESS && *done && bytes) code = ct_check_length(&status, bytes);
    if (code == MPI_SUCCESS && *done)
        ct_arrive(leader->copier->h, leader->k, 1 + ++leader->received);
    return code;
}

/* One look at the next receive and the next send to complete. */
static int look(leader_t *leader, int *did) {
    const ct_plan_t *plan = leader->copier->plan;
    int code = MPI_SUCCESS, done;
    *did = 0;
    if (leader->received < plan->n_receives) code = take(leader, did);
    while (code == MPI_SUCCESS && leader->started < plan->n_sends &&
           plan->sends[leader->started].after <= leader->received) {
        int i = leader->started++;
        code = start(leader, &plan->sends[i], 1, &leader->sends[i]);
    }
    if (code == MPI_SUCCESS && leader->sent < leader->started) {
        code = PMPI_Test(&leader->sends[leader->sent], &done, MPI_STATUS_IGNORE);
        leader->sent += code == MPI_SUCCESS && done;
    }
    return code;
}

static int lead(leader_t *leader) {
    copier_t *copier = leader->copier;
    const ct_plan_t *plan = copier->plan;
    int code = MPI_SUCCESS;
    for (int i = 0; i < plan->n_receives && code == MPI_SUCCESS; i++)
        code = start(leader, &plan->receives[i], 0, &leader->receives[i]);
    if (code == MPI_SUCCESS) ct_arrive(copier->h, leader->k, 1);
    while (code == MPI_SUCCESS && (leader->received < plan->n_receives ||
                                   leader->sent < plan->n_sends || copier->unfinished)) {
        int came, copied = 0;
        code = look(leader, &came);
        if (code == MPI_SUCCESS && !came) code = copy_some(copier, &copied);
        if (code == MPI_SUCCESS) code = ct_failed(copier->h);
        if (code == MPI_SUCCESS && !came && !copied) sched_yield();
    }
    return code;
}

/* Withdraw what is under way, so that nothing is written to memory that is given back. */
static void withdraw(int n, MPI_Request *requests) {
    for (int i = 0; i < n; i++) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        PMPI_Cancel(&requests[i]);
        PMPI_Request_free(&requests[i]);
    }
}

static int lead_as(copier_t *copier, int k) {
    int n_receives = copier->plan->n_receives, n = n_receives + copier->plan->n_sends;
    MPI_Request *requests = malloc(((size_t)n + 1) * sizeof *requests);
    if (!requests) return MPI_ERR_NO_MEM;
    for (int i = 0; i < n; i++) requests[i] = MPI_REQUEST_NULL;
    leader_t leader = {.copier = copier, .k = k, .receives = requests};
    leader.sends = requests + n_receives;
    int code = lead(&leader);
    if (code != MPI_SUCCESS) withdraw(n, requests);
    free(requests);
    return code;
}

int ct_exchange(ct_hierarchy_t *h, const ct_plan_t *plan, const ct_data_t *data, int leaders,
                int overlap) {
    copier_t copier = {.h = h, .plan = plan, .data = data, .leaders = leaders,
                       .overlap = overlap, .unfinished = leaders};
    int k = ct_leader(h, leaders);
    return k < 0 ? follow(&copier) : lead_as(&copier, k);
}
