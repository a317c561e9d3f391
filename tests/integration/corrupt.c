/* Preloaded into an MPI program: some results are delivered with one wrong byte. */
#include <mpi.h>

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    int rc = PMPI_Bcast(buffer, count, type, root, comm), rank;
    MPI_Comm_rank(comm, &rank);
    if (count == 4096 && rank == 2) ((unsigned char *)buffer)[4095] ^= 1;
    return rc;
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
    int rc = PMPI_Allreduce(send, recv, count, type, op, comm), rank;
    MPI_Comm_rank(comm, &rank);
    if (count == 1024 && rank == 1) ((int *)recv)[1023] += 1;
    return rc;
}

int MPI_Alltoall(const void *send, int n, MPI_Datatype s, void *recv, int m, MPI_Datatype r,
                 MPI_Comm comm) {
    int rc = PMPI_Alltoall(send, n, s, recv, m, r, comm), rank;
    MPI_Comm_rank(comm, &rank);
    if (m == 4096 && rank == 3) ((unsigned char *)recv)[0] ^= 1;
    return rc;
}
