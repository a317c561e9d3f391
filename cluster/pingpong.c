/* What two processes see of the network between them: the time of a small message, half of there
 * and back, and the rate of a large one; the least of many.
 *
 *   pingpong MESSAGES LARGE_BYTES     prints: latency_us RATE_MBIT */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static char *buffer;

/* Half the time of `bytes` there and one byte back, or of as many back. */
static double there_and_back(int rank, int bytes, int back) {
    double start = MPI_Wtime();
    if (rank == 0) {
        MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, back, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, back, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - start;
}

static double least(int rank, int messages, int bytes, int back) {
    double found = there_and_back(rank, bytes, back);
    for (int i = 0; i < messages; i++) {
        double time = there_and_back(rank, bytes, back);
        found = time < found ? time : found;
    }
    return found;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, messages = argc > 1 ? atoi(argv[1]) : 0, bytes = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    buffer = calloc(1, bytes > 0 ? (size_t)bytes : 1);
    if (messages < 1 || bytes < 1 || !buffer) MPI_Abort(MPI_COMM_WORLD, 2);
    double latency = least(rank, messages, 1, 1) / 2;
    /* what both have in common, such as asking whether the receiver is ready, is not the rate */
    double half = least(rank, messages / 4, bytes / 2, 1);
    double whole = least(rank, messages / 4, bytes, 1);
    if (rank == 0)
        printf("%.3f %.3f\n", latency * 1e6, (bytes - bytes / 2) * 8e-6 / (whole - half));
    free(buffer);
    return MPI_Finalize();
}
