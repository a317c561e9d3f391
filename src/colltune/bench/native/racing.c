/* Which configuration is proved, by its few repetitions, not to be the fastest of its instance.
 *
 * Medians are compared by their order-statistic confidence intervals (sign test), which assume
 * nothing about the distribution. Repetitions of one visit depend on each other and may all be
 * cold or disturbed: therefore only some of each visit count, and the first visits must show more
 * than a significant difference. */
#include "collbench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLD = 2, PER_VISIT = 32, KEPT = 128, FEWEST = 7 };
#define ALPHA 0.01             /* one-sided */
#define SLOW_SECONDS 0.01

typedef struct {
    float times[KEPT];
    int n, next;             /* how many, and where the next one goes */
    int visits, in_visit;    /* in_visit: repetitions of this visit, cold ones included */
    int slow;                /* one repetition is too long to be made long by cold caches */
    double lower, upper;     /* of the median */
    double sure;             /* factor by which `lower` must exceed the best's `upper` */
} racer_t;

static racer_t **racers;

static racer_t *racer(int cell) {
    if (!racers) racers = calloc((size_t)plan.n_cells, sizeof *racers);
    if (racers && !racers[cell]) {
        racers[cell] = calloc(1, sizeof **racers);
        if (racers[cell]) racers[cell]->upper = INFINITY;
    }
    if (!racers || !racers[cell]) die("out of memory", "");
    return racers[cell];
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* How many of the smallest (and largest) of n values to leave out: the median lies below the next
 * one with a probability of less than ALPHA. */
static int left_out(int n) {
    double term = 1, sum;
    int k = 0;
    for (int i = 0; i < n; i++) term /= 2;
    sum = term;
    while (sum < ALPHA) {
        k++;
        term *= (double)(n - k + 1) / k;
        sum += term;
    }
    return k - 1;
}

/* Few repetitions prove nothing by the sign test; a factor that no noise explains does. */
static double factor(const racer_t *r) {
    if (r->n < 3) return 20;
    if (r->n < FEWEST) return 5;
    return r->visits == 1 ? 2 : r->visits == 2 ? 1.25 : 1.1;
}

static void update(racer_t *r) {
    float sorted[KEPT];
    memcpy(sorted, r->times, (size_t)r->n * sizeof *sorted);
    qsort(sorted, (size_t)r->n, sizeof *sorted, ascending);
    int out = r->n < FEWEST ? 0 : left_out(r->n);
    r->lower = sorted[out];
    r->upper = r->n < FEWEST ? INFINITY : sorted[r->n - 1 - out];
    r->sure = factor(r);
}

void racing_visit(int cell) {
    racer_t *r = racer(cell);
    r->visits++;
    r->in_visit = 0;
}

int racing_note(int cell, double seconds) {
    racer_t *r = racer(cell);
    int number = r->in_visit++;
    /* asked once: to count or not by each repetition's own time would favour the long ones */
    if (!number && r->visits == 1) r->slow = seconds > SLOW_SECONDS;
    if ((number < COLD && !r->slow) || number >= COLD + PER_VISIT) return 0;
    r->times[r->next] = (float)seconds;
    r->next = (r->next + 1) % KEPT;
    if (r->n < KEPT) r->n++;
    if (r->n > 8 && number % 8 != 7) return 0;
    update(r);
    return 1;
}

int racing_hopeless(int cell) {
    const racer_t *r = racer(cell);
    const cell_t *cells = plan.cells;
    double best = INFINITY;
    if (cells[cell].keep || !r->n) return 0;
    for (int i = cells[cell].first; i >= 0; i = cells[i].next)
        if (i != cell && racers[i] && racers[i]->upper < best) best = racers[i]->upper;
    return r->lower > r->sure * best;
}
