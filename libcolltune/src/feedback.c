/* Feedback control of alltoallv's threshold (Fagg et al. 2006, section 6.2): most iterations use the
 * best value known, the last one of a period tests another; rank 0 keeps or rejects it.
 *
 * A test is judged against the iteration just before it, both begun together and timed by the
 * slowest process. Only the periods that are measured cost more than the exchange itself. */
#include "exchange.h"
#include "search.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the trace, kept until MPI_Finalize; one file per process that led a communicator ---- */

enum { MOST_ROWS = 1 << 20, PATH_LENGTH = 4096 };

typedef enum {
    ORDINARY_CALL,  /* with the best value; this process's own time */
    REFERENCE_CALL, /* with the best value; the slowest process's time */
    TEST_CALL,      /* with the candidate; the slowest process's time */
} iteration_t;

typedef struct {
    long iteration, threshold;
    double seconds;
    unsigned char kind, verdict;
} row_t;

typedef struct trace {
    int size, n, room; /* size: of the communicator */
    row_t *rows;
    struct trace *next; /* in the order in which they began */
} trace_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static trace_t *traces;
static const char *const kinds[] = {"ordinary", "reference", "test"};
static const char *const verdicts[] = {"", "kept", "rejected", "restarted"};

static const char *folder(void) {
    return ct_setting("COLLTUNE_FEEDBACK");
}

/* A new trace; NULL if none is wanted. */
static trace_t *begin_trace(int size) {
    trace_t *trace = folder() ? calloc(1, sizeof *trace) : NULL;
    if (!trace) return NULL;
    trace->size = size;
    pthread_mutex_lock(&lock);
    trace_t **end = &traces;
    while (*end) end = &(*end)->next;
    *end = trace;
    pthread_mutex_unlock(&lock);
    return trace;
}

static int has_room(trace_t *trace) {
    if (trace->n < trace->room) return 1;
    if (trace->n >= MOST_ROWS) return 0;
    int room = trace->room ? 2 * trace->room : 256;
    row_t *rows = realloc(trace->rows, (size_t)room * sizeof *rows);
    if (!rows) return 0;
    trace->rows = rows;
    trace->room = room;
    return 1;
}

static void add_row(trace_t *trace, iteration_t kind, long iteration, long threshold, double seconds) {
    if (!trace || !has_room(trace)) return;
    trace->rows[trace->n++] = (row_t){.iteration = iteration,
                                      .threshold = threshold,
                                      .seconds = seconds,
                                      .kind = (unsigned char)kind};
}

static row_t *newest(trace_t *trace, long iteration) {
    for (int back = 1; trace && back <= trace->n && back <= 2; back++)
        if (trace->rows[trace->n - back].iteration == iteration)
            return &trace->rows[trace->n - back];
    return NULL;
}

/* The seconds of an iteration added lately, now that the slowest process's are known. */
static void amend(trace_t *trace, long iteration, double seconds) {
    row_t *row = newest(trace, iteration);
    if (row) row->seconds = seconds;
}

/* What was decided after an iteration added lately. */
static void note_verdict(trace_t *trace, long iteration, ct_verdict_t verdict) {
    row_t *row = newest(trace, iteration);
    if (row) row->verdict = (unsigned char)verdict;
}

enum { EVERY, START, TESTS };
enum { REFERENCE, TRIAL, BINS, TOLD = BINS + CT_BINS }; /* what rank 0 is told: maxima of all */

typedef struct ct_feedback {
    long known;           /* the threshold as we left it; another one is the user's wish */
    long position;        /* within the period */
    long iteration;       /* since the beginning */
    ct_plan_t plan;       /* the same on all processes; `wait` counts down */
    ct_search_t search;   /* of rank 0 */
    double told[TOLD];    /* of this process, until the period ends */
    trace_t *trace;    /* of rank 0, if asked for */
} ct_feedback_t;

void ct_feedback_release(ct_feedback_t *feedback) { free(feedback); }

/* ---- the state ---- */

static ct_feedback_t *begin(const ct_comm_t *c, const long *values) {
    ct_feedback_t *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->known = values[START];
    ct_search_begin(&f->search, f->known, (int)values[TESTS]);
    f->plan = f->search.plan;
    if (c->rank == 0) f->trace = begin_trace(c->size);
    return f;
}

/* All processes have it or none: they must agree about the iterations that are measured. */
static int find_feedback(const ct_comm_t *c, ct_exchange_t *x, const long *values) {
    if (x->feedback) return MPI_SUCCESS;
    ct_feedback_t *f = begin(c, values);
    int lacking = !f, any = 1;
    int code = PMPI(Allreduce)(&lacking, &any, 1, MPI_INT, MPI_MAX, c->base);
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
static iteration_t kind_of(const ct_feedback_t *f, long every) {
    int tests = f->plan.candidate >= 0;
    if (f->plan.wait > 0) return ORDINARY_CALL;
    if (tests && f->position == every - 1) return TEST_CALL;
    return f->position == every - 1 - tests ? REFERENCE_CALL : ORDINARY_CALL;
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
                     iteration_t kind, int refuses) {
    ct_feedback_t *f = x->feedback;
    long threshold = kind == TEST_CALL ? f->plan.candidate : x->threshold;
    int begun = kind == ORDINARY_CALL ? MPI_SUCCESS : PMPI(Barrier)(c->base);
    double seconds = -ct_now();
    int code = refuses ? MPI_SUCCESS : ct_exchange_run(c, x, call, threshold);
    seconds += ct_now();
    if (kind != ORDINARY_CALL && !refuses) {
        f->told[kind == TEST_CALL ? TRIAL : REFERENCE] = seconds;
        note_sizes(f, c, call);
    }
    add_row(f->trace, kind, f->iteration, threshold, seconds);
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
    amend(f->trace, f->iteration - tested, slowest[REFERENCE]);
    if (tested) amend(f->trace, f->iteration, slowest[TRIAL]);
    note_verdict(f->trace, f->iteration, verdict);
}

static int end_period(const ct_comm_t *c, ct_exchange_t *x) {
    ct_feedback_t *f = x->feedback;
    double slowest[TOLD] = {0};
    int code = PMPI(Reduce)(f->told, slowest, TOLD, MPI_DOUBLE, MPI_MAX, 0, c->base);
    if (c->rank == 0 && code == MPI_SUCCESS) decide(x, slowest);
    long plan[] = {f->search.plan.best, f->search.plan.candidate, f->search.plan.wait};
    int told = PMPI(Bcast)(plan, 3, MPI_LONG, 0, c->base);
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

/* ---- the trace's file ---- */

static void write_rows(FILE *file, const trace_t *trace, int number) {
    for (int i = 0; i < trace->n; i++) {
        const row_t *row = &trace->rows[i];
        fprintf(file, "%d,%d,%ld,%ld,%.9f,%s,%s\n", number, trace->size, row->iteration,
                row->threshold, row->seconds, kinds[row->kind], verdicts[row->verdict]);
    }
}

static int write_traces(const char *path) {
    FILE *file = fopen(path, "w");
    int number = 0;
    if (!file) return 0;
    fprintf(file, "# colltune feedback 1\n"
                  "communicator,size,iteration,threshold_bytes,time_s,kind,verdict\n");
    for (const trace_t *trace = traces; trace; trace = trace->next)
        write_rows(file, trace, number++);
    int failed = ferror(file);
    return fclose(file) == 0 && !failed;
}

/* The folders above `path`, as far as they are missing; who cannot write will say so. */
static void make_folders(const char *path) {
    char folder[PATH_LENGTH];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        memcpy(folder, path, (size_t)(at - path));
        folder[at - path] = '\0';
        mkdir(folder, 0777);
    }
}

/* A reader sees the whole file or none. */
static void write_whole(const char *path) {
    char work[PATH_LENGTH + 8];
    sigset_t before;
    snprintf(work, sizeof work, "%s.part", path);
    make_folders(path);
    ct_hold_limit(&before);
    int is_there = write_traces(work);
    ct_release_limit(&before);
    if (is_there && rename(work, path) == 0) return;
    ct_log(0, "cannot write %s: %s; the feedback's trace is lost", path, strerror(errno));
    remove(work);
}

static void forget(void) {
    while (traces) {
        trace_t *next = traces->next;
        free(traces->rows);
        free(traces);
        traces = next;
    }
}

void ct_feedback_end(void) {
    char path[PATH_LENGTH];
    int rank;
    pthread_mutex_lock(&lock);
    if (traces && PMPI(Comm_rank)(MPI_COMM_WORLD, &rank) == MPI_SUCCESS) {
        int length = snprintf(path, sizeof path, "%s/feedback-%d.csv", folder(), rank);
        if (length > 0 && length < PATH_LENGTH) write_whole(path);
        else ct_log(0, "COLLTUNE_FEEDBACK: the folder's name is too long");
    }
    forget();
    pthread_mutex_unlock(&lock);
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
