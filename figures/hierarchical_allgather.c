/* Times MPI_Allgather or MPI_Allreduce under several configurations in turn:
 * hierarchical_allgather allgather|allreduce BYTES ROUNDS ID...
 *
 * BYTES are of a block, or of the vector of doubles. "-" stands for the MPI library's own. Each round
 * prints one line, the seconds of each configuration: from a common start (all hosts have one clock)
 * until the last process is done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AHEAD_SECONDS 0.04 /* longer than telling all processes when to start */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until(double start) {
    struct timespec t = {(time_t)start, (long)(1e9 * (start - (double)(time_t)start))};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int is_reduced;

static double timed(const double *sent, double *received, int count) {
    double start, took, longest;
    PMPI_Barrier(MPI_COMM_WORLD);
    start = now() + AHEAD_SECONDS;
    PMPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    sleep_until(start);
    if (is_reduced) MPI_Allreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else MPI_Allgather(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD);
    took = now() - start;
    PMPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

static void check(const double *received, int count, int size) {
    for (int r = 0; r < (is_reduced ? 1 : size); r++)
        for (int i = 0; i < count; i++)
            if (received[r * count + i] != (is_reduced ? size * (size + 1) / 2 : r + 1)) {
                fprintf(stderr, "WRONG element %d of block %d\n", i, r);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
}

int main(int argc, char **argv) {
    int rank, size, count = atoi(argv[2]) / 8, rounds = atoi(argv[3]);
    int (*force)(const char *, const char *);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    is_reduced = !strcmp(argv[1], "allreduce");
    *(void **)&force = dlsym(RTLD_DEFAULT, "colltune_force");
    size_t bytes = (size_t)count * sizeof(double), all = bytes * (size_t)size;
    double *sent = malloc(bytes), *received = malloc(all);
    if (!force || !sent || !received) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < count; i++) sent[i] = rank + 1;
    for (int round = -1; round < rounds; round++) { /* the first one warms up */
        for (int c = 4; c < argc; c++) {
            if (force(argv[1], strcmp(argv[c], "-") ? argv[c] : "")) MPI_Abort(MPI_COMM_WORLD, 1);
            memset(received, 0, all);
            double seconds = timed(sent, received, count);
            check(received, count, size);
            if (!rank && round >= 0) printf("%.9f%s", seconds, c + 1 < argc ? " " : "\n");
        }
    }
    free(sent);
    free(received);
    MPI_Finalize();
    return 0;
}
