/* A time step of a simulation: parameters of 1 KiB from the first process, then how long a step may
 * be, from all (8 bytes), then a histogram of 4 KiB. usage: loop_mixed STEPS */
#include "loop_programs.h"

enum { PARAMETERS = 128, BINS = 512 };

int main(int argc, char **argv) {
    job_t job = begin(argc, argv, BINS * sizeof(double));
    int wrong = 0;
    for (int s = 0; s < job.steps; s++) {
        double mine = job.rank + 1, least = 0;
        work();
        if (!job.rank) job.in[0] = s;
        MPI_Bcast(job.in, PARAMETERS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        wrong |= job.in[0] != s;
        MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        wrong |= least != 1;
        for (int i = 0; i < BINS; i++) job.in[i] = 1;
        MPI_Allreduce(job.in, job.out, BINS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        wrong |= job.out[BINS - 1] != job.size;
    }
    return end(&job, wrong);
}
