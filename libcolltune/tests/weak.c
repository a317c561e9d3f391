/* Asks for functions of large counts as programs do that run with older MPI libraries, too: by weak
 * references, and by dlsym. Prints "right", and what dlsym finds. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

enum { MOST = 8 };
#define SUM const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm
#define EXCHANGE                                                                               \
    const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *, \
        const MPI_Aint *, MPI_Datatype, MPI_Comm
int MPI_Allreduce_c(SUM) __attribute__((weak));
int MPI_Alltoallv_c(EXCHANGE) __attribute__((weak));

int main(void) {
    int size, rank, one = 1, sum = 0, right = 1, sent[MOST], got[MOST];
    MPI_Count counts[MOST];
    MPI_Aint places[MOST];
    MPI_Init(NULL, NULL);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < size; i++) counts[i] = 1, places[i] = size - 1 - i, sent[size - 1 - i] = 10 * rank + i;
    if (MPI_Allreduce_c) {
        right &= !MPI_Allreduce_c(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) && sum == size;
        right &= !MPI_Alltoallv_c(sent, counts, places, MPI_INT, got, counts, places, MPI_INT,
                                  MPI_COMM_WORLD);
        for (int i = 0; i < size; i++) right &= got[size - 1 - i] == 10 * i + rank;
    }
    if (MPI_Allreduce_c && !dlsym(RTLD_DEFAULT, "MPI_Allreduce_c")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        right &= MPI_Allreduce_c(&one, &sum, (MPI_Count)1 << 40, MPI_INT, MPI_SUM, MPI_COMM_WORLD) ==
                 MPI_ERR_COUNT;
    }
    if (rank == 0)
        printf("%s %s %s\n", right ? "right" : "wrong",
               dlsym(RTLD_DEFAULT, "MPI_Allreduce_c") ? "has" : "lacks",
               dlsym(RTLD_DEFAULT, "MPI_Session_init") ? "has" : "lacks");
    MPI_Finalize();
    return 0;
}
