/* Plays the leaders' plans of an exchange: plans NODES.
 *
 * Messages between two nodes arrive in the order in which they are sent, and a send begins when the
 * receives that it waits for are complete, as MPI and the library have it. */
#include "exchange.c"

#include <stdio.h>
#include <string.h>

enum { MOST = 80 };

void *ct_find(ct_comm_t *c, const void *key, long number) {
    (void)c, (void)key, (void)number;
    return NULL;
}
void *ct_keep(ct_comm_t *c, const void *key, long number, void *data, void (*release_)(void *)) {
    return (void)c, (void)key, (void)number, (void)release_, data;
}
int ct_led_from(int ppn, int leaders, int k) { return ppn * k / leaders; }
int ct_leader(const ct_hierarchy_t *h, int leaders) { return (void)h, (void)leaders, 0; }
int ct_rank_of_leader(const ct_hierarchy_t *h, int node, int k, int leaders) {
    return (void)h, (void)k, (void)leaders, node;
}
int ct_same_size(ct_hierarchy_t *h, int local) { return (void)h, (void)local, 0; }
int ct_arrived(ct_hierarchy_t *h, int k, int *code) { return (void)h, (void)k, *code = 0; }
void ct_arrive(ct_hierarchy_t *h, int k, int chunks, int code) {
    (void)h, (void)k, (void)chunks, (void)code;
}
int ct_wait_turn(const ct_hierarchy_t *h, ct_wait_t *wait) { return (void)h, (void)wait, 0; }

static const ct_plan_t *plans[MOST];
static int received[MOST], sent[MOST], has[MOST][MOST];

/* The message that node's next receive matches: how many it got from that peer before. */
static const ct_move_t *matching(int node) {
    const ct_move_t *receive = &plans[node]->receives[received[node]];
    int before = 0;
    for (int i = 0; i < received[node]; i++)
        before += plans[node]->receives[i].peer == receive->peer;
    for (int i = 0; i < sent[receive->peer]; i++) {
        const ct_move_t *send = &plans[receive->peer]->sends[i];
        if (send->peer == node && before-- == 0) return send;
    }
    return NULL;
}

static int advance(int node) {
    const ct_plan_t *plan = plans[node];
    int moved = 0;
    while (sent[node] < plan->n_sends && plan->sends[sent[node]].after <= received[node]) {
        const ct_move_t *send = &plan->sends[sent[node]++];
        for (int q = send->first; q < send->end; q++)
            if (!has[node][q]) return -1; /* sends what it has not got */
        moved = 1;
    }
    if (received[node] == plan->n_receives) return moved;
    const ct_move_t *receive = &plan->receives[received[node]], *send = matching(node);
    if (!send) return moved;
    if (send->first != receive->first || send->end != receive->end) return -1;
    received[node]++;
    for (int q = receive->first; q < receive->end; q++)
        if (has[node][q]++) return -1;
    return 1;
}

static int play(int exchange, int nodes) {
    ct_hierarchy_t h = {.nodes = nodes};
    memset(received, 0, sizeof received), memset(sent, 0, sizeof sent), memset(has, 0, sizeof has);
    for (h.node = 0; h.node < nodes; h.node++) {
        plans[h.node] = ct_plan(NULL, &h, exchange);
        has[h.node][h.node] = 1;
    }
    for (int moved = 1; moved;) {
        moved = 0;
        for (int node = 0; node < nodes; node++) {
            int step = advance(node);
            if (step < 0) return 0;
            moved |= step;
        }
    }
    int whole = 1;
    for (int node = 0; node < nodes; node++) {
        whole &= sent[node] == plans[node]->n_sends;
        for (int q = 0; q < nodes; q++) whole &= has[node][q] == 1;
        release((void *)plans[node]);
    }
    return whole;
}

int main(int argc, char **argv) {
    int most = argc > 1 ? atoi(argv[1]) : MOST - 1;
    for (int nodes = 1; nodes <= most && nodes < MOST; nodes++)
        for (int exchange = 0; exchange < 2; exchange++)
            if (!play(exchange, nodes)) {
                printf("WRONG: %s between %d nodes\n", exchange ? "doubling" : "ring", nodes);
                return 1;
            }
    printf("2 exchanges between 1 to %d nodes\n", most);
    return 0;
}
