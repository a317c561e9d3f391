/* Datatypes and operations of all kinds, good and bad ones; prints what became of each call.
 *
 * Errors must come to the communicator's handler, which returns them, and to no other. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { N = 12, MOST = 16 };

static int rank, size, strayed;
static MPI_Comm comm;

static void stray(MPI_Comm *where, int *code, ...) {
    (void)where, (void)code;
    strayed++;
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type) {
    MPI_Count bytes;
    PMPI_Type_size_x(*type, &bytes);
    for (MPI_Count i = 0; i < *n * bytes / (MPI_Count)sizeof(int); i++) ((int *)inout)[i] += ((int *)in)[i];
}

static const char *outcome(int code) {
    int class;
    if (code == MPI_SUCCESS) return "done";
    MPI_Error_class(code, &class);
    return class == MPI_ERR_TYPE ? "bad type" : class == MPI_ERR_OP ? "bad operation" : "other error";
}

static void tell(const char *what, const char *type, int code, int right) {
    if (rank == 0)
        printf("%s %s: %s%s\n", what, type, outcome(code), code != MPI_SUCCESS || right ? "" : ", WRONG");
}

static void bcast(const char *name, MPI_Datatype type) {
    int data[N], right = 1;
    for (int i = 0; i < N; i++) data[i] = rank ? -1 : i;
    int code = MPI_Bcast(data, 1, type, 0, comm);
    for (int i = 0; i < N; i++) right &= data[i] == i;
    tell("bcast", name, code, right);
}

static void allgather(const char *name, MPI_Datatype type) {
    int mine[N], all[MOST * N], right = 1;
    for (int i = 0; i < N; i++) mine[i] = rank * 100 + i;
    int code = MPI_Allgather(mine, 1, type, all, N, MPI_INT, comm);
    for (int i = 0; i < size * N; i++) right &= all[i] == i / N * 100 + i % N;
    tell("allgather", name, code, right);
}

static void alltoallv(const char *name, MPI_Datatype type) {
    int out[MOST * N], in[MOST * N], ones[MOST], n[MOST], at[MOST], from[MOST], right = 1;
    for (int r = 0; r < size; r++) ones[r] = 1, n[r] = N, at[r] = r, from[r] = r * N;
    for (int i = 0; i < size * N; i++) out[i] = rank * 100 + i / N;
    int code = MPI_Alltoallv(out, ones, at, type, in, n, from, MPI_INT, comm);
    for (int i = 0; i < size * N; i++) right &= in[i] == i / N * 100 + rank;
    tell("alltoallv", name, code, right);
}

static void allreduce(const char *name, MPI_Datatype type, MPI_Op op) {
    int in[N], out[N], right = 1;
    for (int i = 0; i < N; i++) in[i] = rank + i;
    int code = MPI_Allreduce(in, out, 1, type, op, comm);
    for (int i = 0; i < N; i++) right &= out[i] == size * (size - 1) / 2 + size * i;
    tell("allreduce", name, code, right);
}

static void all(const char *name, MPI_Datatype type, MPI_Op op) {
    bcast(name, type);
    allgather(name, type);
    alltoallv(name, type);
    allreduce(name, type, op);
}

#if MPI_VERSION >= 4
static void large_types(MPI_Op op) {
    MPI_Count length = N / 2, lengths[2] = {N / 2, N / 2}, at[2] = {0, N / 2}, bytes[2];
    MPI_Datatype type, inner;
    for (int i = 0; i < 2; i++) bytes[i] = at[i] * (MPI_Count)sizeof(int);
#define TRY(name, make)                         \
    make, MPI_Type_commit(&type);               \
    all(name, type, op), MPI_Type_free(&type)
    TRY("contiguous_c", MPI_Type_contiguous_c(N, MPI_INT, &type));
    TRY("vector_c", MPI_Type_vector_c(2, length, length, MPI_INT, &type));
    TRY("indexed_c", MPI_Type_indexed_c(2, lengths, at, MPI_INT, &type));
    TRY("hindexed_c", MPI_Type_create_hindexed_c(2, lengths, bytes, MPI_INT, &type));
    MPI_Type_contiguous_c(length, MPI_INT, &inner);
    TRY("contiguous of contiguous_c", MPI_Type_contiguous(2, inner, &type));
    MPI_Type_free(&inner);
    MPI_Type_contiguous_c(N, MPI_INT, &inner);
    TRY("duplicate of contiguous_c", MPI_Type_dup(inner, &type));
    TRY("resized contiguous_c", MPI_Type_create_resized_c(inner, 0, N * (MPI_Count)sizeof(int), &type));
    MPI_Type_free(&inner);
}
#endif

/* MPICH refuses memory that is sent from and received into, on the process itself. */
static void aliased(MPI_Op op) {
    int data[MOST * N] = {0}, n[MOST], at[MOST];
    for (int r = 0; r < size; r++) n[r] = N, at[r] = r * N;
    tell("allgather", "aliased", MPI_Allgather(data + at[rank], N, MPI_INT, data, N, MPI_INT, comm), 1);
    tell("alltoallv", "aliased", MPI_Alltoallv(data, n, at, MPI_INT, data, n, at, MPI_INT, comm), 1);
    tell("allreduce", "aliased", MPI_Allreduce(data, data, N, MPI_INT, op, comm), 1);
    if (rank == 0) /* the others make no call */
        tell("gather", "aliased", MPI_Gather(data, N, MPI_INT, data, N, MPI_INT, 0, comm), 1);
}

int main(int count, char **arguments) {
    MPI_Errhandler elsewhere;
    MPI_Datatype type, bare;
    MPI_Op op;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_create_errhandler(stray, &elsewhere);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, elsewhere);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, elsewhere);
    MPI_Op_create(add, 1, &op);

    MPI_Type_contiguous(N, MPI_INT, &type);
    bare = type;
    all("uncommitted", bare, op);
    MPI_Type_commit(&type);
    all("contiguous", type, op);
    allreduce("contiguous by MPI_SUM", type, MPI_SUM);
#if MPI_VERSION >= 4
    large_types(op);
#endif
#ifndef OPEN_MPI /* whose handles are addresses: a wrong one is no error, but a crash */
    all("no type", (MPI_Datatype)0x12345, op);
    allreduce("contiguous by no operation", type, (MPI_Op)0x12345);
    aliased(MPI_SUM);
#endif
    all("null", MPI_DATATYPE_NULL, op);
    allreduce("contiguous by null", type, MPI_OP_NULL);
    PMPI_Allreduce(MPI_IN_PLACE, &strayed, 1, MPI_INT, MPI_SUM, comm);
    if (rank == 0) printf("%d errors went elsewhere\n", strayed);

    MPI_Type_free(&type);
    MPI_Op_free(&op);
    MPI_Comm_free(&comm);
    MPI_Errhandler_free(&elsewhere);
    MPI_Finalize();
    return 0;
}
