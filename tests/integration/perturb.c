/* Preloaded into an MPI program: reductions of the type that COLLTUNE_PERTURB names (double, float,
 * complex or long) go wrong. On rank COLLTUNE_PERTURBED the last bit of the first element is another
 * one; without that variable, each first element is half as large again on all ranks alike. Nothing
 * happens unless the variable that COLLTUNE_PERTURB_IF names is set, if it names one. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int is_meant(MPI_Datatype type) {
    const char *name = getenv("COLLTUNE_PERTURB"), *condition = getenv("COLLTUNE_PERTURB_IF");
    if (!name || (condition && !getenv(condition))) return 0;
    if (!strcmp(name, "double")) return type == MPI_DOUBLE;
    if (!strcmp(name, "float")) return type == MPI_FLOAT;
    if (!strcmp(name, "complex")) return type == MPI_C_DOUBLE_COMPLEX;
    return type == MPI_LONG_DOUBLE;
}

static int spoilt(int code, void *received, int count, MPI_Datatype type, MPI_Comm comm) {
    const char *one = getenv("COLLTUNE_PERTURBED");
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (!is_meant(type) || !count) return code;
    if (!one) *(double *)received *= 1.5;
    else if (atoi(one) == rank) *(unsigned char *)received ^= 1;
    return code;
}

static int own_count(const int counts[], MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return counts[rank];
}

static int at_root(int count, int root, MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank == root ? count : 0;
}

typedef MPI_Datatype T;
typedef MPI_Comm C;

int MPI_Allreduce(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    return spoilt(PMPI_Allreduce(s, r, n, t, op, c), r, n, t, c);
}
int MPI_Scan(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    return spoilt(PMPI_Scan(s, r, n, t, op, c), r, n, t, c);
}
int MPI_Exscan(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    return spoilt(PMPI_Exscan(s, r, n, t, op, c), r, n, t, c);
}
int MPI_Reduce(const void *s, void *r, int n, T t, MPI_Op op, int root, C c) {
    return spoilt(PMPI_Reduce(s, r, n, t, op, root, c), r, at_root(n, root, c), t, c);
}
int MPI_Reduce_scatter(const void *s, void *r, const int n[], T t, MPI_Op op, C c) {
    return spoilt(PMPI_Reduce_scatter(s, r, n, t, op, c), r, own_count(n, c), t, c);
}
int MPI_Reduce_scatter_block(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    return spoilt(PMPI_Reduce_scatter_block(s, r, n, t, op, c), r, n, t, c);
}
