/* Times series of tasks: repetitions from a common start, until the tasks in the middle are steady.
 *
 * A steady task is one whose cost has settled because the pipeline is full (Luo et al., CLUSTER
 * 2020, sec. III-A.2, figure 3): a series begins short and is doubled until it is. */
#include "tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLACK_START 1e-3 /* seconds from the agreement on a start to the start */
#define SLACK_LEAST 1e-5
#define SLACK_MOST 0.5
#define SLACK_DECAY 0.95
#define SHORTEST 1e-9 /* what the clock can tell */
#define TOO_SHORT 0.02 /* seconds of a repetition that tells little of what is steady: bursts */
#define LONG_ENOUGH 0.1
enum { MOST_LATE_IN_A_ROW = 40, TIMES_TAG = 11, CHECKED = 2,
       WIDEST = 16 }; /* bytes of an element */

/* What the processes tell each other before each repetition; the maximum counts. */
enum { LATE, ORDER, START, MESSAGE_LENGTH };
enum { REPEAT, LOOK, SYNCHRONISE, STOP }; /* orders of the root; LOOK: know the last one first */
enum { REFUSED, WRONG, TROUBLE_LENGTH };

static double slack = SLACK_START;

typedef struct {
    int index;
    const series_t *series;
    group_t *group;
    pipeline_t pipeline;
    double *ends; /* of this process: tasks + 1 for each repetition */
    double *all;  /* the root's: the same of every process */
    int filled, late_in_a_row, failed;
} visit_t;

static int stride(const visit_t *v) { return tasks_of(v->series, v->pipeline.segments) + 1; }

static void set_segments(visit_t *v, int segments) {
    pipeline_t *p = &v->pipeline;
    p->segments = segments;
    p->segment = v->series->segment;
    p->call.msize = p->segment * (size_t)segments;
    prepare_call(&p->call, v->series->collective);
    p->count = p->call.count / segments;
    v->filled = 0;
}

static void close_series(const visit_t *v, const char *status, const char *text) {
    if (v->group->rank == 0) output_problem(v->index, status, text);
}

/* ---- one series of repetitions ---- */

static int order(const visit_t *v, int pending, int wanted) {
    if (now() - started >= plan.budget || owner_is_gone()) {
        cut_short = 1;
        return STOP;
    }
    if (v->filled >= wanted || v->late_in_a_row >= MOST_LATE_IN_A_ROW) return STOP;
    if (v->filled + pending >= wanted) return LOOK;
    return clocks_are_stale(v->group) ? SYNCHRONISE : REPEAT;
}

static void judge(visit_t *v, int late) {
    slack *= late ? 2 : SLACK_DECAY;
    slack = fmin(fmax(slack, SLACK_LEAST), SLACK_MOST);
    v->late_in_a_row = late ? v->late_in_a_row + 1 : 0;
    v->filled += !late;
}

/* Take repetitions until `wanted` of them began together. */
static void repeat(visit_t *v, int wanted) {
    double late = 0;
    int pending = 0;
    for (;;) {
        double message[MESSAGE_LENGTH] = {late, 0, 0};
        if (v->group->rank == 0) {
            message[ORDER] = order(v, pending, wanted);
            if (v->group->clock) message[START] = global_now(v->group) + slack;
        }
        exchange(v->group, message, MESSAGE_LENGTH);
        if (pending) judge(v, message[LATE] > 0);
        late = pending = 0;
        if (message[ORDER] == STOP) return;
        if (message[ORDER] == SYNCHRONISE) synchronise_clocks(v->group);
        if (message[ORDER] != REPEAT) continue;
        double *ends = v->ends + (size_t)v->filled * (size_t)stride(v);
        late = !wait_until(v->group, message[START]);
        if (run_pipeline(&v->pipeline, v->series, v->group, ends) != MPI_SUCCESS)
            die("a task fails that did not before: ", v->series->collective->name);
        ends[0] = message[START];
        pending = 1;
    }
}

/* The root learns the times of all processes. */
static void gather(visit_t *v) {
    int n = v->filled * stride(v);
    const group_t *group = v->group;
    if (group->rank) {
        MPI_Send(v->ends, n, MPI_DOUBLE, 0, TIMES_TAG, group->base);
        return;
    }
    memcpy(v->all, v->ends, (size_t)n * sizeof *v->all);
    for (int r = 1; r < group->size; r++)
        MPI_Recv(v->all + (size_t)r * (size_t)n, n, MPI_DOUBLE, r, TIMES_TAG, group->base,
                 MPI_STATUS_IGNORE);
}

/* Seconds of each task of a leader. The last one, within a node, is over when all there have it. */
static void durations(const visit_t *v, int rep, int leader, double *seconds) {
    int length = stride(v), n = length - 1;
    size_t of_process = (size_t)v->filled * (size_t)length, at = (size_t)rep * (size_t)length;
    const double *first = v->all + (size_t)(leader * v->group->ppn) * of_process + at;
    double last = first[n];
    for (int slot = 1; slot < v->group->ppn; slot++)
        last = fmax(last, first[(size_t)slot * of_process + (size_t)n]);
    for (int i = 0; i < n; i++)
        seconds[i] = fmax((i == n - 1 ? last : first[i + 1]) - first[i], SHORTEST);
}

static void record(const visit_t *v) {
    int n = stride(v) - 1;
    double *seconds = malloc((size_t)n * sizeof *seconds);
    if (!seconds) die("out of memory", "");
    for (int rep = 0; rep < v->filled; rep++)
        for (int leader = 0; leader < v->group->nodes; leader++) {
            durations(v, rep, leader, seconds);
            output_task(v->index, v->pipeline.segments, rep, leader, seconds, n);
        }
    free(seconds);
}

/* ---- steadiness ---- */

static double mean(const double *values, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    return sum / n;
}

/* Do the last quarter of the steady tasks and the one before cost the same on every leader? What
 * counts is the difference beside the slowest leader's cost. */
static int is_steady(const visit_t *v) {
    int first = first_steady(v->series), n = v->pipeline.segments - first, quarter = n / 4;
    double slowest = 0, difference = 0;
    double *seconds = malloc((size_t)(stride(v) - 1) * sizeof *seconds);
    if (!seconds) die("out of memory", "");
    if (quarter < 1) quarter = 1;
    for (int leader = 0; leader < v->group->nodes && n >= 2 * quarter; leader++) {
        durations(v, 0, leader, seconds);
        const double *end = seconds + first + n;
        double last = mean(end - quarter, quarter), before = mean(end - 2 * quarter, quarter);
        slowest = fmax(slowest, fmax(last, before));
        difference = fmax(difference, fabs(last - before));
    }
    free(seconds);
    return difference <= v->series->tolerance * slowest;
}

/* Seconds of the first repetition on the slowest leader. */
static double whole(const visit_t *v) {
    int n = stride(v) - 1;
    double slowest = 0;
    for (int r = 0; r < v->group->size; r++) {
        const double *ends = v->all + (size_t)r * (size_t)v->filled * (size_t)(n + 1);
        slowest = fmax(slowest, ends[n] - ends[0]);
    }
    return slowest;
}

static int is_long_enough(const visit_t *v) {
    double seconds = whole(v);
    if (v->pipeline.segments >= v->series->most || seconds >= LONG_ENOUGH) return 1;
    return seconds >= TOO_SHORT && is_steady(v);
}

/* One repetition of each length, until it is long enough; leaves the last one's times. */
static int lengthen(visit_t *v) {
    const series_t *s = v->series;
    for (int segments = s->least;; segments = segments > s->most ? s->most : segments) {
        double enough;
        set_segments(v, segments);
        repeat(v, 1);
        if (!v->filled) return 0;
        gather(v);
        enough = v->group->rank == 0 && is_long_enough(v);
        if (v->group->rank == 0 && !enough) record(v);
        exchange(v->group, &enough, 1);
        if (enough > 0) return 1;
        segments = first_steady(s) + 2 * (segments - first_steady(s));
    }
}

/* ---- one visit ---- */

/* A call of other elements, in the pipeline's segments. */
static int run_typed(call_t *call, void *with) {
    const visit_t *v = with;
    pipeline_t pipeline = v->pipeline;
    pipeline.call = *call;
    pipeline.count = call->count / pipeline.segments;
    return run_pipeline(&pipeline, v->series, v->group, NULL);
}

/* First calls, of few segments: is the library able, and are the data right? Numbers are tried where
 * all of their kinds fill the segments. */
static int check(visit_t *v) {
    call_t *call = &v->pipeline.call;
    const char *status = "wrong_result", *wrong = "the received data are wrong";
    double trouble[TROUBLE_LENGTH] = {0};
    set_segments(v, v->series->most < CHECKED ? v->series->most : CHECKED);
    prepare_check(call, v->series->collective);
    if (run_pipeline(&v->pipeline, v->series, v->group, NULL) != MPI_SUCCESS) trouble[REFUSED] = 1;
    else trouble[WRONG] = v->series->collective->wrong(call);
    exchange(v->group, trouble, TROUBLE_LENGTH);
    if (trouble[REFUSED] > 0) {
        close_series(v, "not_applicable", "the library refused a call");
        return 0;
    }
    if (!(trouble[WRONG] > 0)) {
        int fill = v->pipeline.segment % WIDEST == 0;
        wrong = fill ? check_numbers(call, v->series->collective, v->group, run_typed, v, &status)
                     : NULL;
    }
    if (wrong) close_series(v, status, wrong);
    return !wrong;
}

static void allocate(visit_t *v) {
    size_t longest = (size_t)tasks_of(v->series, v->series->most) + 1;
    size_t n = longest * (size_t)v->series->reps;
    v->ends = malloc(n * sizeof *v->ends);
    if (v->group->rank == 0) v->all = malloc(n * (size_t)v->group->size * sizeof *v->all);
    if (!v->ends || (v->group->rank == 0 && !v->all)) die("out of memory", "");
}

static const char *manner(const visit_t *v) {
    if (v->series->least == v->series->most) return "exact";
    return is_steady(v) ? "steady" : "bounded";
}

static void measure(visit_t *v) {
    if (!v->group->clock) synchronise_clocks(v->group);
    allocate(v);
    if (lengthen(v)) {
        repeat(v, v->series->reps);
        gather(v);
        if (v->group->rank == 0) record(v);
    } else if (v->late_in_a_row >= MOST_LATE_IN_A_ROW) {
        close_series(v, "not_applicable", "the processes cannot start together");
    }
}

void time_series(int index, group_t *group, const call_t *buffers) {
    visit_t v = {.index = index, .series = &series[index], .group = group};
    double began = now(), failed;
    const char *culprit = "";
    if (group->rank == 0) output_begin(index);
    v.pipeline.call = placed(buffers);
    v.pipeline.call.rank = group->rank;
    v.pipeline.call.size = group->size;
    v.pipeline.call.comm = group->base;
    if (!levels_of(v.series, group, &v.pipeline.levels, &culprit)) {
        close_series(&v, "not_applicable", culprit);
    } else {
        culprit = "a control variable cannot be written everywhere";
        failed = apply_settings(&plan.configs[v.series->config], &culprit);
        exchange(group, &failed, 1);
        if (failed > 0) close_series(&v, "not_applicable", culprit);
        else if (check(&v)) measure(&v);
        withdraw();
    }
    if (group->rank == 0)
        output_end(index, " %s %.6f", v.all && v.filled ? manner(&v) : "none", now() - began);
    free(v.ends);
    free(v.all);
}
