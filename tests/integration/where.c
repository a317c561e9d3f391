/* Each rank tells where it is and what one variable says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;
    char host[256] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host - 1);
    const char *told = getenv("COLLTUNE_TOLD");
    printf("rank %d of %d on %s, told %s\n", rank, size, host, told ? told : "nothing");
    MPI_Finalize();
    return 0;
}
