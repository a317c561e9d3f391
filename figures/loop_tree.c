/* A search that tells all processes what the first one found: broadcasts of 64 bytes and of 64 KiB.
 * usage: loop_tree STEPS */
#include "loop_programs.h"

enum { SMALL = 8, LARGE = 8192 };

int main(int argc, char **argv) {
    job_t job = begin(argc, argv, LARGE * sizeof(double));
    int wrong = 0;
    for (int s = 0; s < job.steps; s++) {
        int count = s % 2 ? LARGE : SMALL;
        work();
        if (!job.rank) job.in[count - 1] = s + 1;
        MPI_Bcast(job.in, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        wrong |= job.in[count - 1] != s + 1;
    }
    return end(&job, wrong);
}
