/* An iterative solver as MPI sees it: a scalar product of 8 bytes after each step, and now and then
 * a vector of 16 KiB is summed. usage: loop_solver STEPS */
#include "loop_programs.h"

enum { VECTOR = 2048 };

int main(int argc, char **argv) {
    job_t job = begin(argc, argv, VECTOR * sizeof(double));
    int wrong = 0;
    for (int s = 0; s < job.steps; s++) {
        double mine = s, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        wrong |= sum != (double)s * job.size;
        if (s % 4) continue;
        for (int i = 0; i < VECTOR; i++) job.in[i] = job.rank;
        MPI_Allreduce(job.in, job.out, VECTOR, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        wrong |= job.out[VECTOR - 1] != job.size * (job.size - 1) / 2.;
    }
    return end(&job, wrong);
}
