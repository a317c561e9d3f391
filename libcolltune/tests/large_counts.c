/* Calls each collective's function of large counts once and checks what comes; MPI 4 and later.
 *
 * Rank 0 prints for each what ran it, as libcolltune tells. Elements without data are counted by more
 * than an int holds; `large_counts huge` broadcasts more bytes than that. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, MOST = 8 };

#if MPI_VERSION >= 4
static int rank, size, wrong;
static int a[MOST * N], b[MOST * N];
static const char *(*last_choice)(const char *collective);

static void fill(void) {
    for (int i = 0; i < size * N; i++) a[i] = rank * 7 + i, b[i] = -1;
}

static void tell(const char *collective) {
    const char *ran = last_choice ? last_choice(collective) : "";
    if (rank == 0) printf("%s: %s\n", collective, *ran ? ran : "library");
}

static void check(int right) { wrong += !right; }
/* The sum over ranks from 0 to before `end` of element i. */
static int sum(int end, int i) { return 7 * end * (end - 1) / 2 + end * i; }

static void exchanges(void) {
    MPI_Count n[MOST], ints = N;
    MPI_Aint at[MOST];
    for (int r = 0; r < size; r++) n[r] = N, at[r] = r * N;
    fill(), MPI_Allgather_c(a, ints, MPI_INT, b, ints, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size * N; i++) check(b[i] == i / N * 7 + i % N);
    tell("allgather");
    fill(), MPI_Allgatherv_c(a, ints, MPI_INT, b, n, at, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size * N; i++) check(b[i] == i / N * 7 + i % N);
    tell("allgatherv");
    fill(), MPI_Alltoall_c(a, ints, MPI_INT, b, ints, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size * N; i++) check(b[i] == i / N * 7 + rank * N + i % N);
    tell("alltoall");
    fill(), MPI_Alltoallv_c(a, n, at, MPI_INT, b, n, at, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size * N; i++) check(b[i] == i / N * 7 + rank * N + i % N);
    tell("alltoallv");
    fill(), MPI_Gather_c(a, ints, MPI_INT, b, ints, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; i < size * N && rank == 1; i++) check(b[i] == i / N * 7 + i % N);
    tell("gather");
    fill(), MPI_Scatter_c(a, ints, MPI_INT, b, ints, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) check(b[i] == 7 + rank * N + i);
    tell("scatter");
    fill(), MPI_Bcast_c(a, ints, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) check(a[i] == 7 + i);
    tell("bcast");
}

static void reductions(void) {
    MPI_Count n[MOST], ints = N;
    for (int r = 0; r < size; r++) n[r] = N;
    fill(), MPI_Allreduce_c(a, b, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) check(b[i] == sum(size, i));
    tell("allreduce");
    fill(), MPI_Reduce_c(a, b, ints, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
    for (int i = 0; i < N && rank == 1; i++) check(b[i] == sum(size, i));
    tell("reduce");
    fill(), MPI_Reduce_scatter_c(a, b, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) check(b[i] == sum(size, rank * N + i));
    tell("reduce_scatter");
    fill(), MPI_Reduce_scatter_block_c(a, b, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) check(b[i] == sum(size, rank * N + i));
    tell("reduce_scatter_block");
    fill(), MPI_Scan_c(a, b, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) check(b[i] == sum(rank + 1, i));
    tell("scan");
    fill(), MPI_Exscan_c(a, b, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N && rank; i++) check(b[i] == sum(rank, i));
    tell("exscan");
}

static void nothing(void) {
    MPI_Datatype empty;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    MPI_Bcast_c(a, 5000000000, empty, 0, MPI_COMM_WORLD);
    MPI_Allgather_c(a, 5000000000, empty, b, 5000000000, empty, MPI_COMM_WORLD);
    MPI_Type_free(&empty);
}

/* One process counts bytes, another pieces of many bytes. */
static void huge(void) {
    MPI_Count bytes = (MPI_Count)INT_MAX + 4097;
    MPI_Datatype piece;
    char *data = calloc(1, (size_t)bytes);
    if (!data) MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0) data[bytes - 1] = data[0] = 'x';
    MPI_Type_contiguous(4096, MPI_CHAR, &piece);
    MPI_Type_commit(&piece);
    if (rank) MPI_Bcast_c(data, bytes / 4096, piece, 0, MPI_COMM_WORLD);
    else MPI_Bcast_c(data, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    check(data[bytes - 1] == 'x' && data[0] == 'x' && bytes % 4096 == 0);
    MPI_Type_free(&piece);
    free(data);
    tell("bcast");
}
#endif

int main(int count, char **arguments) {
#if MPI_VERSION >= 4
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    *(void **)&last_choice = dlsym(RTLD_DEFAULT, "colltune_last_choice");
    if (count > 1 && !strcmp(arguments[1], "huge")) huge();
    else exchanges(), reductions(), nothing();
    PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d wrong\n", wrong);
    MPI_Finalize();
    return wrong != 0;
#else
    (void)count, (void)arguments;
    printf("before MPI 4\n");
    return 0;
#endif
}
