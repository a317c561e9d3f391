/* Nanoseconds of a broadcast of nothing, which needs no message: as MPI_Bcast, which a preloaded
   library may have taken over, and as PMPI_Bcast, in turn; medians over rounds.
   usage: interposition ROUNDS CALLS
   prints: MPI PMPI DIFFERENCE */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int n) {
    qsort(times, (size_t)n, sizeof *times, ascending);
    return times[n / 2];
}

int main(int argc, char **argv) {
    int rank, number = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int rounds = argc > 2 ? atoi(argv[1]) : 0, calls = argc > 2 ? atoi(argv[2]) : 0;
    if (rounds < 1 || calls < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    double *with = malloc((size_t)rounds * sizeof *with);
    double *without = malloc((size_t)rounds * sizeof *without);
    double *difference = malloc((size_t)rounds * sizeof *difference);
    if (!with || !without || !difference) MPI_Abort(MPI_COMM_WORLD, 2);
    /* one process measures, the others sleep in the first call that has something to do */
    for (int r = rank ? rounds : -1; r < rounds; r++) {
        double start = now_ns();
        for (int i = 0; i < calls; i++) MPI_Bcast(&number, 0, MPI_INT, 0, MPI_COMM_WORLD);
        double middle = now_ns();
        for (int i = 0; i < calls; i++) PMPI_Bcast(&number, 0, MPI_INT, 0, MPI_COMM_WORLD);
        if (r < 0) continue; /* to warm up */
        without[r] = (now_ns() - middle) / calls;
        with[r] = (middle - start) / calls;
        difference[r] = with[r] - without[r];
    }
    if (!rank) printf("%.3f %.3f %.3f\n", median(with, rounds), median(without, rounds),
                      median(difference, rounds));
    MPI_Barrier(MPI_COMM_WORLD);
    free(with);
    free(without);
    free(difference);
    MPI_Finalize();
    return 0;
}
