/* Calls MPI by the names that Fortran compilers give its functions, as an Open MPI without Fortran
   lets nobody else: broadcasts, and sums in place. Prints "right N", N messages of this process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

extern int mpi_fortran_in_place_, mpi_fortran_bottom_;
void mpi_init_(MPI_Fint *), mpi_finalize_(MPI_Fint *), mpi_barrier__(MPI_Fint *, MPI_Fint *);
void mpi_bcast_(void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void ompi_allreduce_f(void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
void MPI_ALLGATHERV(void *, MPI_Fint *, MPI_Fint *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
                    MPI_Fint *, MPI_Fint *);

static int messages;

int PMPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request) {
    static int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Isend");
    messages++;
    return real(buffer, count, type, to, tag, comm, request);
}

int main(void) {
    MPI_Fint error = 9, one = 1, root = 1, rank, size, sum, got[8], counts[8], places[8];
    mpi_init_(&error);
    MPI_Fint world = PMPI_Comm_c2f(MPI_COMM_WORLD), integer = PMPI_Type_c2f(MPI_INT);
    MPI_Fint add = PMPI_Op_c2f(MPI_SUM);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    int number = rank == 1 ? 42 : 0, right = error == MPI_SUCCESS;
    mpi_bcast_(&number, &one, &integer, &root, &world, &error);
    right &= number == 42 && error == MPI_SUCCESS;
    MPI_Aint at;
    MPI_Datatype absolute;
    MPI_Get_address(&number, &at);
    MPI_Type_create_hindexed(1, &one, &at, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Fint type = PMPI_Type_c2f(absolute);
    number = rank == 1 ? 43 : 0;
    mpi_bcast_(&mpi_fortran_bottom_, &one, &type, &root, &world, &error);
    right &= number == 43;
    MPI_Type_free(&absolute);
    sum = rank + 1;
    ompi_allreduce_f(&mpi_fortran_in_place_, &sum, &one, &integer, &add, &world, &error);
    right &= sum == size * (size + 1) / 2;
    for (int r = 0; r < size; r++) counts[r] = 1, places[r] = size - 1 - r;
    MPI_ALLGATHERV(&rank, &one, &integer, got, counts, places, &integer, &world, &error);
    for (int r = 0; r < size; r++) right &= got[size - 1 - r] == r;
    mpi_barrier__(&world, &error);
    int all[2] = {right, messages};
    PMPI_Reduce(rank ? all : MPI_IN_PLACE, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank) printf("%d right, %d messages\n", all[0], all[1]);
    mpi_finalize_(&error);
    return 0;
}
