/* MPI in a library that a program loads while it runs, as Python does: 20 sums, exchanged and checked.
 * Called by loads.c; 0 if all is right. */
#include <mpi.h>

int run(void) {
    int size, rank, wrong = 0;
    if (MPI_Init(0, 0) != MPI_SUCCESS) return 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 20; i++) {
        int mine = rank + i, sum = 0, first = rank ? -1 : i;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
        wrong |= sum != size * (size - 1) / 2 + size * i || first != i;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize() != MPI_SUCCESS || wrong;
}
