/* What all parts need: who and when we are, memory, how to give up, and barriers. */
#include "collbench.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int world_rank, world_size;
double started;

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void pause_for(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

void die(const char *what, const char *detail) {
    fprintf(stderr, "collbench: %s%s\n", what, detail);
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

void *grown(void *array, int n, size_t item) {
    if (n & (n - 1)) return array; /* capacity is the next power of two */
    void *bigger = realloc(array, (size_t)(n ? 2 * n : 1) * item);
    if (!bigger) die("out of memory", "");
    return bigger;
}

int owner_is_gone(void) {
    static enum { UNASKED, UNKNOWN, SEEN } state;
    char host[NAME_LENGTH] = "";
    if (state == UNKNOWN || world_rank || !plan.owner) return 0;
    if (state == UNASKED) {
        /* an owner on another node, or in another name space, cannot be watched */
        int here = !gethostname(host, sizeof host - 1) && !strcmp(host, plan.owner_host);
        state = here && !kill((pid_t)plan.owner, 0) ? SEEN : UNKNOWN;
        return 0;
    }
    return kill((pid_t)plan.owner, 0) && errno == ESRCH;
}

/* Let all nodes' clocks count from the moment that rank 0 started. */
void agree_on_start(double mine) {
    double elapsed;
    MPI_Barrier(MPI_COMM_WORLD);
    elapsed = now() - mine;
    MPI_Bcast(&elapsed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    started = world_rank ? now() - elapsed : mine;
}

char *read_shared_text(const char *path) {
    long length = -1;
    char *text = NULL;
    if (world_rank == 0) {
        FILE *file = fopen(path, "rb");
        if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) < 0) die("cannot read ", path);
        if (length >= INT_MAX) die("too long: ", path);
        rewind(file);
        text = malloc((size_t)length + 1);
        if (!text || fread(text, 1, (size_t)length, file) != (size_t)length) die("cannot read ", path);
        fclose(file);
    }
    MPI_Bcast(&length, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (world_rank) text = malloc((size_t)length + 1);
    if (!text) die("out of memory", "");
    MPI_Bcast(text, (int)length, MPI_CHAR, 0, MPI_COMM_WORLD);
    text[length] = '\0';
    return text;
}

/* ---- barriers that carry a little knowledge ---- */

enum { MOST_VALUES = 8 };

/* A dissemination barrier made of point-to-point messages, so that no collective under test is part
 * of it. The maximum is idempotent: that a value arrives on several ways does no harm. */
void exchange(const group_t *group, double *values, int n) {
    double arrived[MOST_VALUES];
    int rank = group->rank, size = group->size;
    for (int distance = 1; distance < size; distance *= 2) {
        MPI_Sendrecv(values, n, MPI_DOUBLE, (rank + distance) % size, SYNC_TAG, arrived, n,
                     MPI_DOUBLE, (rank - distance + size) % size, SYNC_TAG, group->base,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            if (arrived[i] > values[i]) values[i] = arrived[i];
    }
}

/* Processes that have nothing to measure wait here, for seconds: they must not take cores or memory
 * bandwidth from those that do. */
double polite_maximum(double value) {
    double maximum, wait = 1e-6;
    MPI_Request request;
    MPI_Iallreduce(&value, &maximum, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    for (int done = 0;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) return maximum;
        pause_for(wait);
        wait = wait < 5e-4 ? 2 * wait : 1e-3;
    }
}
