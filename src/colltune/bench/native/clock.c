/* A global clock: the monotonic clock of the group's first node.
 *
 * All processes of a node read one clock. The first process of each further node learns a linear
 * model (offset and drift) of its own clock, in ceil(log2 nodes) rounds in which those that have
 * learnt already serve the others with the global clock (HCA3: Hunold and Carpen-Amarie, CLUSTER
 * 2018). A fit point is the exchange of shortest round trip of several (SKaMPI). Later sessions are
 * short: they add points, so that the drift is known from a long time.
 *
 * Wall clocks play no part: whoever sets one disturbs nothing. */
#include "collbench.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>

enum { POINTS = 32, FIRST_FITS = 8, LATER_FITS = 2, PINGS = 10, CHECK_PINGS = 5 };
#define SPREAD_SECONDS 0.01 /* between the fit points of the first session */
#define STALE_SECONDS 2.0
#define YIELD_SECONDS 5e-5
#define SLEEP_SECONDS 2e-3

typedef struct { double local, offset, round_trip; } point_t;
typedef struct group_clock {
    int sessions, n_points, next;
    point_t points[POINTS];
    double offset, drift, reference; /* global = local + offset + drift * (local - reference) */
    double synchronised;             /* now() of the last session */
} group_clock_t;

static double worst = -1; /* largest error seen by this root of a group, in seconds */

/* This node's clock. Tests give every node another offset and drift:
 * COLLBENCH_TEST_CLOCK=OFFSET:DRIFT, times the number of the node in its group. */
static double local_now(const group_t *group) {
    static double offset, drift;
    static int asked;
    if (!asked) {
        const char *text = getenv("COLLBENCH_TEST_CLOCK");
        if (text && sscanf(text, "%lf:%lf", &offset, &drift) != 2)
            die("COLLBENCH_TEST_CLOCK is not OFFSET:DRIFT: ", text);
        asked = 1;
    }
    double t = now(), node = group->rank / group->ppn;
    return t + node * (offset + drift * (t - started));
}

static double global_of(const group_clock_t *clock, double local) {
    return local + clock->offset + clock->drift * (local - clock->reference);
}

double global_now(const group_t *group) { return global_of(group->clock, local_now(group)); }

/* ---- ping-pong ---- */

static void serve(const group_t *group, int client, int n) {
    for (int i = 0; i < n; i++) {
        MPI_Recv(NULL, 0, MPI_BYTE, client, CLOCK_TAG, group->base, MPI_STATUS_IGNORE);
        double t = global_now(group);
        MPI_Send(&t, 1, MPI_DOUBLE, client, CLOCK_TAG, group->base);
    }
}

/* The server's global clock against this node's, by the fastest of `n` exchanges. */
static point_t ask(const group_t *group, int server, int n) {
    point_t best = {0, 0, INFINITY};
    for (int i = 0; i < n; i++) {
        double answer, before = local_now(group);
        MPI_Send(NULL, 0, MPI_BYTE, server, CLOCK_TAG, group->base);
        MPI_Recv(&answer, 1, MPI_DOUBLE, server, CLOCK_TAG, group->base, MPI_STATUS_IGNORE);
        double after = local_now(group), middle = (before + after) / 2;
        if (after - before < best.round_trip)
            best = (point_t){middle, answer - middle, after - before};
    }
    return best;
}

/* ---- the model ---- */

/* Least squares; an exchange that took long tells little. */
static void fit(group_clock_t *clock) {
    double weights = 0, mean_t = 0, mean_o = 0, tt = 0, to = 0;
    for (int i = 0; i < clock->n_points; i++) {
        const point_t *p = &clock->points[i];
        double weight = 1 / (p->round_trip * p->round_trip);
        weights += weight;
        mean_t += weight * p->local;
        mean_o += weight * p->offset;
    }
    mean_t /= weights;
    mean_o /= weights;
    for (int i = 0; i < clock->n_points; i++) {
        const point_t *p = &clock->points[i];
        double weight = 1 / (p->round_trip * p->round_trip);
        tt += weight * (p->local - mean_t) * (p->local - mean_t);
        to += weight * (p->local - mean_t) * (p->offset - mean_o);
    }
    clock->reference = mean_t;
    clock->offset = mean_o;
    clock->drift = tt > 0 ? to / tt : 0;
}

static void learn(const group_t *group, int server, int fits) {
    group_clock_t *clock = group->clock;
    for (int i = 0; i < fits; i++) {
        clock->points[clock->next] = ask(group, server, PINGS);
        clock->next = (clock->next + 1) % POINTS;
        if (clock->n_points < POINTS) clock->n_points++;
        if (!clock->sessions) pause_for(SPREAD_SECONDS);
    }
    fit(clock);
}

/* Leaders hand their model to the other processes of their node, which read the same clock. */
static void share_on_node(const group_t *group) {
    group_clock_t *clock = group->clock;
    double model[3] = {clock->offset, clock->drift, clock->reference};
    int leader = group->rank - group->rank % group->ppn;
    if (group->rank != leader) {
        MPI_Recv(model, 3, MPI_DOUBLE, leader, CLOCK_TAG, group->base, MPI_STATUS_IGNORE);
        clock->offset = model[0];
        clock->drift = model[1];
        clock->reference = model[2];
        return;
    }
    for (int r = leader + 1; r < leader + group->ppn; r++)
        MPI_Send(model, 3, MPI_DOUBLE, r, CLOCK_TAG, group->base);
}

/* The root compares its clock with what the other nodes take for it. */
static void check(const group_t *group) {
    if (group->rank % group->ppn) return;
    if (group->rank) {
        serve(group, 0, CHECK_PINGS);
        return;
    }
    for (int node = 1; node < group->nodes; node++) {
        double error = fabs(ask(group, node * group->ppn, CHECK_PINGS).offset);
        if (error <= worst) continue;
        worst = error;
        output_fact("sync_error_s", "%.3g", worst);
    }
}

void synchronise_clocks(group_t *group) {
    if (!group->clock && !(group->clock = calloc(1, sizeof *group->clock))) die("out of memory", "");
    group_clock_t *clock = group->clock;
    int node = group->rank / group->ppn, fits = clock->sessions ? LATER_FITS : FIRST_FITS;
    for (int known = 1; known < group->nodes && group->rank % group->ppn == 0; known *= 2) {
        if (node < known && node + known < group->nodes)
            serve(group, (node + known) * group->ppn, fits * PINGS);
        else if (node >= known && node < 2 * known)
            learn(group, (node - known) * group->ppn, fits);
    }
    share_on_node(group);
    check(group);
    clock->sessions++;
    clock->synchronised = now();
}

int clocks_are_stale(const group_t *group) {
    return !group->clock || now() - group->clock->synchronised > STALE_SECONDS;
}

int wait_until(const group_t *group, double start) {
    double left = start - global_now(group);
    if (left < 0) return 0;
    for (; left > 0; left = start - global_now(group)) {
        if (left > SLEEP_SECONDS) pause_for(left - SLEEP_SECONDS);
        else if (left > YIELD_SECONDS) sched_yield();
    }
    return 1;
}
