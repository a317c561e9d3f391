/* The search for alltoallv's threshold on made-up times.
 *
 *   search_simulation SEED PERIODS START TESTS NOISE OUTLIERS COSTS [COSTS-OF-THE-SECOND-HALF]
 *
 * COSTS are those of the ladder's rungs, with messages in bins 4, 5, …; NOISE is the relative spread,
 * OUTLIERS the share of times that are ten times as long. One line per measured period:
 * period, best, candidate, verdict (threshold values in bytes; the candidate before the verdict). */
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOWEST_BIN = 4, MOST = 40 };
static unsigned long long state;

static double uniform(void) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (double)((state * 2685821657736338717ULL) >> 11) / 9007199254740992.0;
}

static int read_costs(char *text, double *costs) {
    int n = 0;
    for (char *part = strtok(text, ","); part && n < MOST; part = strtok(NULL, ","))
        costs[n++] = atof(part);
    return n;
}

static double timed(const double *costs, int n, long threshold, double noise, double outliers) {
    int rung = 0;
    while (rung + 1 < n && 1L << (LOWEST_BIN + 1 + rung) <= threshold) rung++;
    double spread = uniform() + uniform() + uniform() + uniform() - 2; /* variance 1/3 */
    double time = costs[rung] * (1 + noise * 1.732 * spread);
    return uniform() < outliers ? 10 * time : time;
}

int main(int count, char **arguments) {
    static const char *const words[] = {"", "kept", "rejected", "restarted"};
    double early[MOST], late[MOST], bins[CT_BINS] = {0};
    if (count < 8) return 2;
    state = strtoull(arguments[1], NULL, 10) * 7919 + 12345;
    long periods = atol(arguments[2]);
    double noise = atof(arguments[5]), outliers = atof(arguments[6]);
    int n = read_costs(arguments[7], early);
    if (count < 9) memcpy(late, early, sizeof late);
    else if (read_costs(arguments[8], late) != n) return 2;
    for (int b = 0; b < n - 1; b++) bins[LOWEST_BIN + b] = 1;
    ct_search_t *s = calloc(1, sizeof *s);
    if (!s) return 1;
    ct_search_begin(s, atol(arguments[3]), atoi(arguments[4]));
    while (s->period + s->plan.wait < periods) {
        const double *costs = s->period + s->plan.wait < periods / 2 ? early : late;
        ct_plan_t plan = s->plan;
        double reference = timed(costs, n, plan.best, noise, outliers);
        double trial = timed(costs, n, plan.candidate, noise, outliers);
        ct_verdict_t verdict = ct_search_step(s, reference, trial, bins);
        printf("%ld %ld %ld %s\n", s->period, s->plan.best, plan.candidate, words[verdict]);
    }
    free(s);
    return 0;
}
