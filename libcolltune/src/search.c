/* The search for the threshold: hill climbing over the sizes that messages have, with medians of
 * interleaved iterations, rests for what was rejected, and a restart when the workload changes. */
#include "search.h"

#include <string.h>

enum { IDLE = 8, FORGET = 64, REST = 16, LONGEST_REST = 5, PATIENCE = 3 }; /* periods; samples */
enum { RECENT = 5, ESTABLISHED = 9 };                                       /* samples */
static const double LEAST_GAIN = 0.02, HOPELESS = 1.25, DRIFT = 1.5, NORMAL = 1.4826;

/* ---- samples ---- */

static void push(ct_samples_t *s, double time) {
    s->times[s->next] = time;
    s->next = (s->next + 1) % CT_SAMPLES;
    if (s->n < CT_SAMPLES) s->n++;
}

/* The newest `n` of them, sorted; how many there are. */
static int newest(const ct_samples_t *s, int n, double *sorted) {
    if (n > s->n) n = s->n;
    for (int i = 0; i < n; i++) {
        double time = s->times[(s->next - 1 - i + 2 * CT_SAMPLES) % CT_SAMPLES];
        int at = i;
        for (; at > 0 && sorted[at - 1] > time; at--) sorted[at] = sorted[at - 1];
        sorted[at] = time;
    }
    return n;
}

static double median(const ct_samples_t *s, int n) {
    double sorted[CT_SAMPLES];
    n = newest(s, n, sorted);
    return n ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : 0;
}

/* The variance of the median, from the median absolute deviation. */
static double variance(const ct_samples_t *s) {
    ct_samples_t deviations = {.n = s->n, .next = s->n % CT_SAMPLES};
    double middle = median(s, s->n);
    for (int i = 0; i < s->n; i++)
        deviations.times[i] = s->times[i] > middle ? s->times[i] - middle : middle - s->times[i];
    double error = 1.2533 * NORMAL * median(&deviations, s->n);
    return s->n ? error * error / s->n : 0;
}

static int below(const ct_samples_t *s, double limit) {
    int n = 0;
    for (int i = 0; i < s->n; i++) n += s->times[i] < limit;
    return n;
}

/* ---- the ladder ---- */

int ct_search_bin(long long bytes) {
    int bin = 0;
    while (bin < CT_BINS - 1 && bytes >> (bin + 1)) bin++;
    return bin;
}

static long threshold_of(int rung) { return rung ? 1L << rung : 0; }

/* Whether the threshold of this rung sends other messages eagerly than the rung below. */
static int is_rung(const ct_search_t *s, int rung) {
    if (rung == 0) return 1;
    long seen = s->seen[rung - 1];
    return seen && s->period - seen <= FORGET;
}

/* The rung that does the same as `threshold`, or the next one below it. */
static int rung_of(const ct_search_t *s, long threshold) {
    int rung = 0;
    for (int r = 1; r < CT_RUNGS && threshold_of(r) <= threshold; r++)
        if (is_rung(s, r)) rung = r;
    return rung;
}

static int next_rung(const ct_search_t *s, int rung, int step) {
    for (int r = rung + step; r >= 0 && r < CT_RUNGS; r += step)
        if (is_rung(s, r)) return r;
    return -1;
}

/* ---- which value is tested next ---- */

static int is_awake(const ct_search_t *s, int rung) { return s->rest[rung] <= s->period; }

/* One of those never tried: the ends of the ladder, then those between. */
static int untried(const ct_search_t *s, int best) {
    int top = next_rung(s, CT_RUNGS, -1);
    if (top != best && !s->strikes[top]) return top;
    for (int r = 0; r >= 0; r = next_rung(s, r, 1))
        if (r != best && !s->strikes[r]) return r;
    return -1;
}

/* Neighbours first, the way that led uphill before the other; then what has rested longest. */
static int choose(const ct_search_t *s) {
    int best = rung_of(s, s->plan.best), chosen = -1;
    for (int side = 1; side >= -1; side -= 2) {
        int r = next_rung(s, best, side * s->direction);
        if (r >= 0 && is_awake(s, r)) return r;
    }
    int fresh = untried(s, best);
    if (fresh >= 0) return fresh;
    for (int r = 0; r >= 0; r = next_rung(s, r, 1))
        if (r != best && is_awake(s, r) && (chosen < 0 || s->rest[r] < s->rest[chosen])) chosen = r;
    return chosen;
}

static long until_one_wakes(const ct_search_t *s) {
    long wait = IDLE;
    for (int r = 0; r >= 0; r = next_rung(s, r, 1))
        if (!is_awake(s, r) && s->rest[r] - s->period < wait) wait = s->rest[r] - s->period;
    return wait - 1;
}

static void plan_next(ct_search_t *s) {
    int rung = choose(s);
    s->trials = (ct_samples_t){0};
    s->plan.candidate = rung < 0 ? -1 : threshold_of(rung);
    s->plan.wait = rung < 0 ? until_one_wakes(s) : 0;
}

/* ---- verdicts ---- */

/* Longer each time, and longer still after `strikes` at once. */
static void put_to_rest(ct_search_t *s, int rung, int strikes) {
    int doublings = s->strikes[rung] + strikes - 1;
    s->strikes[rung] += strikes;
    s->rest[rung] = s->period + (REST << (doublings < LONGEST_REST ? doublings : LONGEST_REST));
}

static int is_hopeless(const ct_search_t *s, const ct_samples_t *t) {
    return below(t, HOPELESS * median(&s->references, CT_SAMPLES)) == 0;
}

static ct_verdict_t judge(const ct_search_t *s, int rung) {
    const ct_samples_t *t = &s->trials;
    double usual = median(&s->references, CT_SAMPLES), now = median(t, CT_SAMPLES);
    double gain = usual - now, noise = variance(&s->references) + variance(t);
    if (is_hopeless(s, t) && (t->n > 1 || s->strikes[rung])) return CT_REJECTED;
    if (t->n < s->tests || s->references.n < s->tests) return CT_GOES_ON;
    if (gain < LEAST_GAIN * usual) return CT_REJECTED;
    /* a few outliers among the trials do not hinder, nor can they feign a gain */
    if (gain * gain > 4 * noise && below(t, usual) >= t->n - t->n / 4) return CT_KEPT;
    return t->n >= PATIENCE * s->tests || t->n == CT_SAMPLES ? CT_REJECTED : CT_GOES_ON;
}

static ct_verdict_t try_candidate(ct_search_t *s, double trial) {
    int best = rung_of(s, s->plan.best), rung = rung_of(s, s->plan.candidate);
    push(&s->trials, trial);
    ct_verdict_t verdict = judge(s, rung);
    if (verdict == CT_REJECTED) put_to_rest(s, rung, is_hopeless(s, &s->trials) ? 2 : 1);
    if (verdict != CT_KEPT) return verdict;
    put_to_rest(s, best, 1);
    s->direction = rung > best ? 1 : -1;
    s->plan.best = s->plan.candidate;
    s->references = s->trials;
    s->usual = 0;
    return verdict;
}

static ct_samples_t newest_alone(const ct_samples_t *s, int n) {
    double sorted[CT_SAMPLES];
    ct_samples_t alone = {0};
    n = newest(s, n, sorted);
    for (int i = 0; i < n; i++) push(&alone, sorted[i]);
    return alone;
}

/* Whether the best value's times are no longer what they were: an established change of the
 * workload or the machine, not outliers nor noise. */
static int has_drifted(ct_search_t *s) {
    if (s->usual == 0) {
        if (s->references.n < ESTABLISHED) return 0;
        s->usual = median(&s->references, CT_SAMPLES);
    }
    ct_samples_t now = newest_alone(&s->references, RECENT);
    double middle = median(&now, RECENT), change = middle - s->usual;
    int is_large = middle > DRIFT * s->usual || middle * DRIFT < s->usual;
    return is_large && change * change > 9 * variance(&now);
}

static void forget_verdicts(ct_search_t *s) {
    memset(s->rest, 0, sizeof s->rest);
    memset(s->strikes, 0, sizeof s->strikes);
    s->usual = 0;
    s->direction = 1;
}

/* The newest times alone are of the workload as it is now. */
static void restart(ct_search_t *s) {
    s->references = newest_alone(&s->references, RECENT / 2 + 1);
    forget_verdicts(s);
}

void ct_search_begin(ct_search_t *s, long threshold, int tests) {
    forget_verdicts(s);
    s->references = s->trials = (ct_samples_t){0};
    s->tests = tests < CT_SAMPLES ? tests : CT_SAMPLES;
    s->plan = (ct_plan_t){.best = threshold, .candidate = -1};
}

ct_verdict_t ct_search_step(ct_search_t *s, double reference, double trial, const double *bins) {
    ct_verdict_t verdict = CT_GOES_ON;
    s->period += 1 + s->plan.wait;
    for (int b = 0; b < CT_BINS; b++)
        if (bins[b] > 0) s->seen[b] = s->period;
    push(&s->references, reference);
    if (has_drifted(s)) {
        restart(s);
        verdict = CT_RESTARTED;
    } else if (s->plan.candidate >= 0) {
        verdict = try_candidate(s, trial);
    }
    if (verdict == CT_GOES_ON && s->plan.candidate >= 0) s->plan.wait = 0;
    else plan_next(s);
    return verdict;
}
