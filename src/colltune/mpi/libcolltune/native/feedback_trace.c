/* Traces of the adaptation, kept until MPI_Finalize; one file per process that led a communicator. */
#include "feedback_trace.h"

#include "ct.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ROWS = 1 << 20, PATH_LENGTH = 4096 };

typedef struct {
    long iteration, threshold;
    double seconds;
    unsigned char kind, verdict;
} row_t;

struct ct_trace {
    int size, n, room;
    row_t *rows;
    struct ct_trace *next; /* in the order in which they began */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ct_trace_t *traces;
static const char *const kinds[] = {"ordinary", "reference", "test"};
static const char *const verdicts[] = {"", "kept", "rejected", "restarted"};

static const char *folder(void) {
    return ct_setting("COLLTUNE_FEEDBACK");
}

ct_trace_t *ct_trace_begin(int size) {
    ct_trace_t *trace = folder() ? calloc(1, sizeof *trace) : NULL;
    if (!trace) return NULL;
    trace->size = size;
    pthread_mutex_lock(&lock);
    ct_trace_t **end = &traces;
    while (*end) end = &(*end)->next;
    *end = trace;
    pthread_mutex_unlock(&lock);
    return trace;
}

static int has_room(ct_trace_t *trace) {
    if (trace->n < trace->room) return 1;
    if (trace->n >= MOST_ROWS) return 0;
    int room = trace->room ? 2 * trace->room : 256;
    row_t *rows = realloc(trace->rows, (size_t)room * sizeof *rows);
    if (!rows) return 0;
    trace->rows = rows;
    trace->room = room;
    return 1;
}

void ct_trace_add(ct_trace_t *trace, ct_iteration_t kind, long iteration, long threshold,
                  double seconds) {
    if (!trace || !has_room(trace)) return;
    trace->rows[trace->n++] = (row_t){.iteration = iteration,
                                      .threshold = threshold,
                                      .seconds = seconds,
                                      .kind = (unsigned char)kind};
}

static row_t *newest(ct_trace_t *trace, long iteration) {
    for (int back = 1; trace && back <= trace->n && back <= 2; back++)
        if (trace->rows[trace->n - back].iteration == iteration)
            return &trace->rows[trace->n - back];
    return NULL;
}

void ct_trace_amend(ct_trace_t *trace, long iteration, double seconds) {
    row_t *row = newest(trace, iteration);
    if (row) row->seconds = seconds;
}

void ct_trace_decide(ct_trace_t *trace, long iteration, ct_verdict_t verdict) {
    row_t *row = newest(trace, iteration);
    if (row) row->verdict = (unsigned char)verdict;
}

/* ---- the file ---- */

static void write_rows(FILE *file, const ct_trace_t *trace, int number) {
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
    for (const ct_trace_t *trace = traces; trace; trace = trace->next)
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
    snprintf(work, sizeof work, "%s.part", path);
    make_folders(path);
    if (write_traces(work) && rename(work, path) == 0) return;
    ct_log(0, "cannot write %s: %s; the feedback's trace is lost", path, strerror(errno));
    remove(work);
}

static void forget(void) {
    while (traces) {
        ct_trace_t *next = traces->next;
        free(traces->rows);
        free(traces);
        traces = next;
    }
}

void ct_feedback_end(void) {
    char path[PATH_LENGTH];
    int rank;
    pthread_mutex_lock(&lock);
    if (traces && PMPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS) {
        int length = snprintf(path, sizeof path, "%s/feedback-%d.csv", folder(), rank);
        if (length > 0 && length < PATH_LENGTH) write_whole(path);
        else ct_log(0, "COLLTUNE_FEEDBACK: the folder's name is too long");
    }
    forget();
    pthread_mutex_unlock(&lock);
}
