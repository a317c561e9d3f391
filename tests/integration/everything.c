/* Calls collectives of all kinds with random counts, on the world, on its odd and even ranks, and
   between them, and checks every result: blocking, in place, non-blocking, persistent, with operations
   that do not commute, neighbours. The argument is the number of rounds; rank 0 tells what was wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 9000

static int rank, size, wrong;
static MPI_Comm comm;
static MPI_Op order;
static MPI_Datatype pair;
typedef struct { int scale, shift; } affine;

static void compose(void *in, void *inout, int *length, MPI_Datatype *type)
{
    affine *x = in, *y = inout;
    (void)type;
    for (int i = 0; i < *length; i++) {
        affine both = {x[i].scale * y[i].scale % 251, (x[i].shift * y[i].scale + y[i].shift) % 251};
        y[i] = both;
    }
}

static affine element(int of, int at)
{
    affine found = {(of * 7 + at) % 13 + 2, (of * 3 + at) % 17};
    return found;
}

static affine product(int ranks, int at)
{
    affine all = element(0, at);
    for (int r = 1; r < ranks; r++) {
        affine next = element(r, at), both = {all.scale * next.scale % 251, (all.shift * next.scale + next.shift) % 251};
        all = both;
    }
    return all;
}

static int value(int of, int to, int at) { return of * 1000003 + to * 97 + at; }
static void check(int right) { wrong += !right; }
static void finish(MPI_Request *request) { MPI_Wait(request, MPI_STATUS_IGNORE); }

static int *room(int count)
{
    int *memory = malloc(sizeof(int) * (size_t)(count + 1));
    if (!memory) MPI_Abort(MPI_COMM_WORLD, 3);
    for (int i = 0; i < count; i++) memory[i] = -1;
    return memory;
}

static int sum(int to, int at)
{
    int all = 0;
    for (int r = 0; r < size; r++) all += value(r, to, at);
    return all;
}

static void rooted(int n, int root, int how)
{
    int *mine = room(n), *all = room(n * size);
    MPI_Request request;
    for (int i = 0; i < n; i++) mine[i] = rank == root ? value(root, 0, i) : -1;
    if (how) { MPI_Ibcast(mine, n, MPI_INT, root, comm, &request); finish(&request); }
    else MPI_Bcast(mine, n, MPI_INT, root, comm);
    for (int i = 0; i < n; i++) check(mine[i] == value(root, 0, i));
    for (int i = 0; i < n; i++) mine[i] = value(rank, 0, i);
    if (how) { MPI_Ireduce(mine, all, n, MPI_INT, MPI_SUM, root, comm, &request); finish(&request); }
    else MPI_Reduce(mine, all, n, MPI_INT, MPI_SUM, root, comm);
    for (int i = 0; i < n && rank == root; i++) check(all[i] == sum(0, i));
    if (how) { MPI_Igather(mine, n, MPI_INT, all, n, MPI_INT, root, comm, &request); finish(&request); }
    else MPI_Gather(mine, n, MPI_INT, all, n, MPI_INT, root, comm);
    for (int r = 0; r < size && rank == root; r++)
        for (int i = 0; i < n; i++) check(all[r * n + i] == value(r, 0, i));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) all[r * n + i] = value(root, r, i);
    if (how) { MPI_Iscatter(all, n, MPI_INT, mine, n, MPI_INT, root, comm, &request); finish(&request); }
    else MPI_Scatter(all, n, MPI_INT, mine, n, MPI_INT, root, comm);
    for (int i = 0; i < n; i++) check(mine[i] == value(root, rank, i));
    free(mine);
    free(all);
}

static void symmetric(int n, int how)
{
    int *in = room(n * size), *out = room(n * size), *counts = room(size), *starts = room(size);
    MPI_Request request;
    for (int r = 0; r < size; r++) {
        counts[r] = n;
        starts[r] = r * n;
        for (int i = 0; i < n; i++) in[r * n + i] = value(rank, r, i);
    }
    if (how == 2) {
        MPI_Alltoall(in, n, MPI_INT, out, n, MPI_INT, comm);
        for (int i = 0; i < n * size; i++) out[i] = in[i];
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, n, MPI_INT, comm);
    } else if (how) { MPI_Ialltoall(in, n, MPI_INT, out, n, MPI_INT, comm, &request); finish(&request); }
    else MPI_Alltoall(in, n, MPI_INT, out, n, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) check(out[r * n + i] == value(r, rank, i));
    if (how) { MPI_Ialltoallv(in, counts, starts, MPI_INT, out, counts, starts, MPI_INT, comm, &request); finish(&request); }
    else MPI_Alltoallv(in, counts, starts, MPI_INT, out, counts, starts, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) check(out[r * n + i] == value(r, rank, i));
    if (how == 2) {
        for (int i = 0; i < n; i++) out[rank * n + i] = in[i];
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, n, MPI_INT, comm);
    } else if (how) { MPI_Iallgather(in, n, MPI_INT, out, n, MPI_INT, comm, &request); finish(&request); }
    else MPI_Allgather(in, n, MPI_INT, out, n, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) check(out[r * n + i] == value(r, 0, i));
    if (how) { MPI_Iallgatherv(in, n, MPI_INT, out, counts, starts, MPI_INT, comm, &request); finish(&request); }
    else MPI_Allgatherv(in, n, MPI_INT, out, counts, starts, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) check(out[r * n + i] == value(r, 0, i));
    if (how) { MPI_Ireduce_scatter_block(in, out, n, MPI_INT, MPI_SUM, comm, &request); finish(&request); }
    else MPI_Reduce_scatter_block(in, out, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++) check(out[i] == sum(rank, i));
    for (int r = 0; r < size; r++) counts[r] = r % 2 ? n : n / 2;
    int before = 0;
    for (int r = 0; r < rank; r++) before += counts[r];
    for (int i = 0; i < n * size; i++) in[i] = value(rank, 0, i);
    if (how) { MPI_Ireduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm, &request); finish(&request); }
    else MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < counts[rank]; i++) check(out[i] == sum(0, before + i));
    free(in);
    free(out);
    free(counts);
    free(starts);
}

static void reductions(int n, int how)
{
    int *in = room(n), *out = room(n);
    affine *mine = malloc(sizeof(affine) * (size_t)(n + 1)), *all = malloc(sizeof(affine) * (size_t)(n + 1));
    MPI_Request request;
    for (int i = 0; i < n; i++) {
        in[i] = out[i] = value(rank, 0, i);
        mine[i] = element(rank, i);
    }
    if (how == 2) MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_INT, MPI_SUM, comm);
    else if (how) { MPI_Iallreduce(in, out, n, MPI_INT, MPI_SUM, comm, &request); finish(&request); }
    else MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++) check(out[i] == sum(0, i));
    if (how) { MPI_Iallreduce(mine, all, n, pair, order, comm, &request); finish(&request); }
    else MPI_Allreduce(mine, all, n, pair, order, comm);
    for (int i = 0; i < n; i++) check(all[i].scale == product(size, i).scale && all[i].shift == product(size, i).shift);
    if (how) { MPI_Ireduce(mine, all, n, pair, order, 0, comm, &request); finish(&request); }
    else MPI_Reduce(mine, all, n, pair, order, 0, comm);
    for (int i = 0; i < n && !rank; i++) check(all[i].scale == product(size, i).scale && all[i].shift == product(size, i).shift);
    if (how) { MPI_Iscan(mine, all, n, pair, order, comm, &request); finish(&request); }
    else MPI_Scan(mine, all, n, pair, order, comm);
    for (int i = 0; i < n; i++) check(all[i].scale == product(rank + 1, i).scale && all[i].shift == product(rank + 1, i).shift);
    if (how) { MPI_Iexscan(mine, all, n, pair, order, comm, &request); finish(&request); }
    else MPI_Exscan(mine, all, n, pair, order, comm);
    for (int i = 0; i < n && rank; i++) check(all[i].scale == product(rank, i).scale && all[i].shift == product(rank, i).shift);
    if (how) { MPI_Ibarrier(comm, &request); finish(&request); }
    else MPI_Barrier(comm);
    free(in);
    free(out);
    free(mine);
    free(all);
}

static void persistent(int n)
{
#if MPI_VERSION >= 4
    int *in = room(n), *out = room(n);
    MPI_Request request;
    MPI_Allreduce_init(in, out, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) in[i] = value(rank, round, i);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++) check(out[i] == sum(round, i));
    }
    MPI_Request_free(&request);
    free(in);
    free(out);
#else
    (void)n;
#endif
}

static void neighbours(int n)
{
    int *in = room(2 * n), *out = room(2 * n), ring[1] = {size}, around[1] = {1};
    MPI_Comm circle;
    MPI_Request request;
    MPI_Cart_create(comm, 1, ring, around, 0, &circle);
    for (int i = 0; i < 2 * n; i++) in[i] = value(rank, 0, i);
    MPI_Neighbor_allgather(in, n, MPI_INT, out, n, MPI_INT, circle);
    for (int i = 0; i < n; i++) check(out[i] == value((rank + size - 1) % size, 0, i));
    MPI_Ineighbor_alltoall(in, n, MPI_INT, out, n, MPI_INT, circle, &request);
    finish(&request);
    if (size > 2) for (int i = 0; i < n; i++) check(out[i] == value((rank + size - 1) % size, 0, n + i));
    MPI_Comm_free(&circle);
    free(in);
    free(out);
}

/* between the odd and the even ranks */
static void between(MPI_Comm half, int n)
{
    int odd = rank % 2, other, *in = room(n), *out = room(n), expected = 0;
    MPI_Comm across;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !odd, 5, &across);
    MPI_Comm_remote_size(across, &other);
    for (int i = 0; i < n; i++) in[i] = rank + i;
    MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, across);
    for (int r = 0; r < other; r++) expected += 2 * r + !odd;
    for (int i = 0; i < n; i++) check(out[i] == expected + other * i);
    MPI_Barrier(across);
    MPI_Comm_free(&across);
    free(in);
    free(out);
}

static void all_of(MPI_Comm on, int n, int how)
{
    comm = on;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    rooted(n, n % size, how % 2);
    symmetric(n % 2000, how);
    reductions(n, how);
    persistent(n % 500);
    neighbours(n % 300);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1, total, world_rank, world_size;
    MPI_Comm half;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(compose, 0, &order);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
    srand(7);
    for (int round = 0; round < rounds; round++) {
        int n = rand() % (1 << (rand() % 14)) % MOST;
        all_of(MPI_COMM_WORLD, n, round % 3);
        all_of(half, n, round % 3);
        comm = MPI_COMM_WORLD;
        rank = world_rank;
        size = world_size;
        between(half, n % 1000);
    }
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world_rank == 0) printf("DONE %d rounds, %d wrong\n", rounds, total);
    MPI_Op_free(&order);
    MPI_Type_free(&pair);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
