/* Preloaded into an MPI program: on rank COLLTUNE_CORRUPT, collectives of 4096 bytes (whole buffer,
 * or block per peer) deliver one wrong bit; with COLLTUNE_STALE set they deliver nothing from their
 * second call on, and what the buffer held before stays in it. That rank leaves every barrier
 * before the others have entered. With COLLTUNE_TROUBLE=crash or hang, it dies in an all-to-all of
 * 4096 bytes, or never comes back from it. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 4096 };
typedef struct { unsigned char *buffer, *old; long length; int wrong; } delivery_t;

static int is_bad(MPI_Comm comm) {
    const char *bad = getenv("COLLTUNE_CORRUPT");
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return bad && atoi(bad) == rank;
}

/* A delivery of `blocks` blocks of `count` elements; `calls` counts those of its collective. */
static delivery_t begin(MPI_Comm comm, void *buffer, long count, MPI_Datatype type, int blocks,
                        int *calls) {
    delivery_t d = {buffer, NULL, 0, 0};
    int width;
    PMPI_Type_size(type, &width);
    if (!is_bad(comm) || count * width != SIZE) return d;
    d.length = (long)SIZE * blocks;
    d.wrong = 1;
    if (!getenv("COLLTUNE_STALE")) return d;
    d.wrong = ++*calls > 1;
    d.old = malloc((size_t)d.length);
    memcpy(d.old, buffer, (size_t)d.length);
    return d;
}

static int end(delivery_t d, int rc) {
    if (d.wrong && d.old) memcpy(d.buffer, d.old, (size_t)d.length);
    else if (d.wrong) d.buffer[d.length - 1] ^= 1;
    free(d.old);
    return rc;
}

static int size_of(MPI_Comm comm) {
    int size;
    PMPI_Comm_size(comm, &size);
    return size;
}

static int is_root(int root, MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank == root;
}

static long sum(const int *counts, int n) {
    long total = 0;
    for (int i = 0; i < n; i++) total += counts[i];
    return total;
}

#define DELIVER(comm, buffer, count, type, blocks, call) \
    static int calls;                                    \
    delivery_t d = begin(comm, buffer, count, type, blocks, &calls); \
    return end(d, call)

typedef MPI_Datatype T;
typedef MPI_Comm C;

int MPI_Bcast(void *b, int n, T t, int root, C c) {
    DELIVER(c, b, n, t, 1, PMPI_Bcast(b, n, t, root, c));
}
int MPI_Allreduce(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    DELIVER(c, r, n, t, 1, PMPI_Allreduce(s, r, n, t, op, c));
}
int MPI_Scan(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    DELIVER(c, r, n, t, 1, PMPI_Scan(s, r, n, t, op, c));
}
int MPI_Exscan(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    DELIVER(c, r, n, t, 1, PMPI_Exscan(s, r, n, t, op, c));
}
int MPI_Reduce(const void *s, void *r, int n, T t, MPI_Op op, int root, C c) {
    DELIVER(c, r, is_root(root, c) ? n : 0, t, 1, PMPI_Reduce(s, r, n, t, op, root, c));
}
int MPI_Reduce_scatter_block(const void *s, void *r, int n, T t, MPI_Op op, C c) {
    DELIVER(c, r, n, t, 1, PMPI_Reduce_scatter_block(s, r, n, t, op, c));
}
int MPI_Reduce_scatter(const void *s, void *r, const int n[], T t, MPI_Op op, C c) {
    int size = size_of(c);
    static int calls;
    delivery_t d = begin(c, r, sum(n, size), t, 1, &calls);
    d.length /= size; /* this rank's part; counts are equal in the test */
    return end(d, PMPI_Reduce_scatter(s, r, n, t, op, c));
}
int MPI_Allgather(const void *s, int n, T t, void *r, int m, T u, C c) {
    DELIVER(c, r, m, u, size_of(c), PMPI_Allgather(s, n, t, r, m, u, c));
}
int MPI_Allgatherv(const void *s, int n, T t, void *r, const int m[], const int at[], T u, C c) {
    DELIVER(c, r, m[0], u, size_of(c), PMPI_Allgatherv(s, n, t, r, m, at, u, c));
}
int MPI_Alltoall(const void *s, int n, T t, void *r, int m, T u, C c) {
    const char *trouble = getenv("COLLTUNE_TROUBLE");
    if (trouble && m == SIZE && is_bad(c)) {
        if (!strcmp(trouble, "crash")) raise(SIGSEGV);
        for (;;) pause();
    }
    DELIVER(c, r, m, u, size_of(c), PMPI_Alltoall(s, n, t, r, m, u, c));
}
int MPI_Alltoallv(const void *s, const int n[], const int from[], T t, void *r, const int m[],
                  const int at[], T u, C c) {
    DELIVER(c, r, m[0], u, size_of(c), PMPI_Alltoallv(s, n, from, t, r, m, at, u, c));
}
int MPI_Gather(const void *s, int n, T t, void *r, int m, T u, int root, C c) {
    DELIVER(c, r, is_root(root, c) ? m : 0, u, size_of(c), PMPI_Gather(s, n, t, r, m, u, root, c));
}
int MPI_Scatter(const void *s, int n, T t, void *r, int m, T u, int root, C c) {
    DELIVER(c, r, m, u, 1, PMPI_Scatter(s, n, t, r, m, u, root, c));
}

int MPI_Barrier(C c) {
    static MPI_Request left = MPI_REQUEST_NULL;
    MPI_Request request;
    if (size_of(c) < 2 || !getenv("COLLTUNE_CORRUPT")) return PMPI_Barrier(c);
    PMPI_Wait(&left, MPI_STATUS_IGNORE);
    int rc = PMPI_Ibarrier(c, &request);
    if (is_bad(c)) left = request;
    else PMPI_Wait(&request, MPI_STATUS_IGNORE);
    return rc;
}
