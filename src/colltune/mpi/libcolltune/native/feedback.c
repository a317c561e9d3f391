/* Feedback control of alltoallv's threshold (Fagg et al. 2006, section 6.2): most iterations use the
 * best value known, the last one of a period tests another; rank 0 keeps or rejects it.
 *
 * A test is judged against the iteration just before it, both begun together and timed by the
 * slowest process. Only the periods that are measured cost more than the exchange itself. */
#include "exchange.h"
#include "feedback_trace.h"
#include "search.h"

#include <limits.h>
#include <stdlib.h>

enum { EVERY, START, TESTS };
enum { REFERENCE, TRIAL, BINS, TOLD = BINS + CT_BINS }; /* what rank 0 is told: maxima of all */

typedef struct ct_feedback {
    long known;           /* the threshold as we left it; another one is the user's wish */
    long position;        /* within the period */
    long iteration;       /* since the beginning */
    ct_plan_t plan;       /* the same on all processes; `wait` counts down */
    ct_search_t search;   /* of rank 0 */
    double told[TOLD];    /* of this process, until the period ends */
    ct_trace_t *trace;    /* of rank 0, if asked for */
} ct_feedback_t;

void ct_feedback_release(ct_feedback_t *feedback) { free(feedback); }

/* ---- the state ---- */

static ct_feedback_t *begin(const ct_comm_t *c, const long *values) {
    ct_feedback_t *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->known = values[START];
    ct_search_begin(&f->search, f->known, (int)values[TESTS]);
    f->plan = f->search.plan;
    if (c->rank == 0) f->trace = ct_trace_begin(c->size);
    return f;
}

/* All processes have it or none: they must agree about the iterations that are measured. */
static int find_feedback(const ct_comm_t *c, ct_exchange_t *x, const long *values) {
    if (x->feedback) return MPI_SUCCESS;
    ct_feedback_t *f = begin(c, values);
    int lacking = !f, any = 1;
    int code = PMPI_Allreduce(&lacking, &any, 1, MPI_INT, MPI_MAX, c->base);
    if (code == MPI_SUCCESS && any) code = MPI_ERR_NO_MEM;
    if (code == MPI_SUCCESS) x->feedback = f;
    else free(f);
    return code;
}

static void take_threshold(ct_exchange_t *x) {
    if (x->runs != &ct_alltoallv_adaptive) x->threshold = x->feedback->known;
    x->runs = &ct_alltoallv_adaptive;
    if (x->asked >= 0) x->threshold = x->asked;
    x->asked = -1;
}

/* ---- one iteration ---- */

/* The last iteration of a measured period is the test, the one before it the reference; with
 * nothing to test, the last is the reference. */
static ct_iteration_t kind_of(const ct_feedback_t *f, long every) {
    int tests = f->plan.candidate >= 0;
    if (f->plan.wait > 0) return CT_ORDINARY;
    if (tests && f->position == every - 1) return CT_TEST;
    return f->position == every - 1 - tests ? CT_REFERENCE : CT_ORDINARY;
}

static void note_sizes(ct_feedback_t *f, const ct_comm_t *c, const ct_call_t *call) {
    size_t size;
    if (ct_type_size(call->recvtype, &size)) return;
    for (int peer = 0; peer < c->size; peer++) {
        long long bytes = call->recvcounts[peer] * (long long)size;
        if (peer != c->rank && bytes > 0) f->told[BINS + ct_search_bin(bytes)] = 1;
    }
}

/* Begun together, so that waiting for late processes is not taken for the exchange's time. */
static int run_timed(const ct_comm_t *c, ct_exchange_t *x, const ct_call_t *call,
                     ct_iteration_t kind, int refuses) {
    ct_feedback_t *f = x->feedback;
    long threshold = kind == CT_TEST ? f->plan.candidate : x->threshold;
    int begun = kind == CT_ORDINARY ? MPI_SUCCESS : PMPI_Barrier(c->base);
    double seconds = -ct_now();
    int code = refuses ? MPI_SUCCESS : ct_exchange_run(c, x, call, threshold);
    seconds += ct_now();
    if (kind != CT_ORDINARY && !refuses) {
        f->told[kind == CT_TEST ? TRIAL : REFERENCE] = seconds;
        note_sizes(f, c, call);
    }
    ct_trace_add(f->trace, kind, f->iteration, threshold, seconds);
    return code == MPI_SUCCESS ? begun : code;
}

/* ---- the end of a measured period ---- */

static void decide(ct_exchange_t *x, const double *slowest) {
    ct_feedback_t *f = x->feedback;
    int tested = f->plan.candidate >= 0;
    ct_verdict_t verdict = CT_RESTARTED;
    if (x->threshold != f->known) ct_search_begin(&f->search, x->threshold, f->search.tests);
    else if (slowest[REFERENCE] <= 0 || (tested && slowest[TRIAL] <= 0)) return; /* cut short */
    else verdict = ct_search_step(&f->search, slowest[REFERENCE], slowest[TRIAL], slowest + BINS);
    ct_trace_amend(f->trace, f->iteration - tested, slowest[REFERENCE]);
    if (tested) ct_trace_amend(f->trace, f->iteration, slowest[TRIAL]);
    ct_trace_decide(f->trace, f->iteration, verdict);
}

static int end_period(const ct_comm_t *c, ct_exchange_t *x) {
    ct_feedback_t *f = x->feedback;
    double slowest[TOLD] = {0};
    int code = PMPI_Reduce(f->told, slowest, TOLD, MPI_DOUBLE, MPI_MAX, 0, c->base);
    if (c->rank == 0 && code == MPI_SUCCESS) decide(x, slowest);
    long plan[] = {f->search.plan.best, f->search.plan.candidate, f->search.plan.wait};
    int told = PMPI_Bcast(plan, 3, MPI_LONG, 0, c->base);
    if (code == MPI_SUCCESS) code = told;
    if (code != MPI_SUCCESS) return code;
    f->plan = (ct_plan_t){.best = plan[0], .candidate = plan[1], .wait = plan[2]};
    x->threshold = f->known = f->plan.best;
    for (int i = 0; i < TOLD; i++) f->told[i] = 0;
    return code;
}

static int run(ct_comm_t *c, const ct_call_t *call, const long *values) {
    ct_exchange_t *x;
    int code = ct_exchange_of(c, &x);
    if (code == MPI_SUCCESS) code = find_feedback(c, x, values);
    if (code != MPI_SUCCESS) return code;
    take_threshold(x);
    ct_feedback_t *f = x->feedback;
    int waits = f->plan.wait > 0, ends = f->position >= values[EVERY] - 1;
    int refuses = ct_exchange_refuses(c, call); /* others may go on, and count this call */
    code = run_timed(c, x, call, kind_of(f, values[EVERY]), refuses);
    if (ends && waits) f->plan.wait--;
    if (ends && !waits) {
        int decided = end_period(c, x);
        if (code == MPI_SUCCESS) code = decided;
    }
    f->position = ends ? 0 : f->position + 1;
    f->iteration++;
    return refuses ? ct_pass(call, call->comm) : code;
}

const ct_algorithm_t ct_alltoallv_adaptive = {
    .collective = CT_ALLTOALLV,
    .name = "adaptive",
    .parameters = {{.name = "every", .low = 2, .high = 1000000, .usual = 5},
                   {.name = "start", .low = 0, .high = LONG_MAX, .usual = 32768},
                   {.name = "tests", .low = 1, .high = CT_SAMPLES / 3, .usual = 3}},
    .fits = ct_exchange_fits,
    .run = run,
};
