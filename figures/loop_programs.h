/* What the three programs of figures/loop_slurm.py share: arguments, buffers, exit status, work. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* longer than a few messages take, so that all processes know the time before it has come */
#define WORK_S 0.012

typedef struct {
    int rank, size, steps;
    double *in, *out;
} job_t;

/* usage: PROGRAM STEPS; every process gets two buffers of `bytes` */
static job_t begin(int argc, char **argv, size_t bytes) {
    job_t job = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    job.steps = argc > 1 ? atoi(argv[1]) : 0;
    job.in = calloc(1, bytes);
    job.out = calloc(1, bytes);
    if (job.steps < 1 || !job.in || !job.out) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    return job;
}

/* Work that is balanced: all processes are ready at the same time, by the clock that the emulated nodes
 * share. Without it who is late would have waited in the collective before. */
static inline void work(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double mine[2] = {(double)t.tv_sec + (double)t.tv_nsec * 1e-9, 0}, last[2];
    MPI_Allreduce(mine, last, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double until = last[0] + WORK_S;
    t.tv_sec = (time_t)until;
    t.tv_nsec = (long)((until - (double)t.tv_sec) * 1e9);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* prints whether all results were right; the exit status says it, too */
static int end(job_t *job, int wrong) {
    int any = 0;
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!job->rank) puts(any ? "wrong" : "right");
    free(job->in);
    free(job->out);
    MPI_Finalize();
    return any;
}
