/* What the three programs of benchmarks/loop_slurm.py share: arguments, buffers, exit status. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

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
