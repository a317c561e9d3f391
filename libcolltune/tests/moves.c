/* Collectives that move data: every byte of the receivers' memory is as it must be, gaps and all. */
#include "conformance.h"

#include <stdlib.h>

static int rank, size;

static void place(MPI_Comm comm) {
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
}

void check_bcast(MPI_Comm comm, const named_type_t *t, int count) {
    place(comm);
    for (int root = 0; root < size; root++) {
        area_t got = new_area(t->type, count), wanted = new_area(t->type, count);
        put(&wanted, t->type, 0, count, root + 1);
        if (rank == root) put(&got, t->type, 0, count, root + 1);
        int code = MPI_Bcast(got.base, count, t->type, root, comm);
        expect(code == MPI_SUCCESS, "bcast's result", t->name, count);
        expect_same(&got, &wanted, "bcast", t->name, count);
        free_area(&got), free_area(&wanted);
    }
}

static void gathered(const area_t *area, const named_type_t *t, int count) {
    for (int r = 0; r < size; r++) put(area, t->type, (long)r * count, count, r + 1);
}

static void check_allgatherv(MPI_Comm comm, const named_type_t *t, int count, int in_place) {
    int *counts = malloc((size_t)size * sizeof *counts), *at = malloc((size_t)size * sizeof *at);
    long total = 1;
    for (int r = size - 1; r >= 0; r--) { /* backwards and with gaps */
        counts[r] = r % 3 == 1 ? 0 : count + r;
        at[r] = (int)total;
        total += counts[r] + 1;
    }
    area_t sent = new_area(t->type, counts[rank]);
    area_t got = new_area(t->type, total), wanted = new_area(t->type, total);
    for (int r = 0; r < size; r++) put(&wanted, t->type, at[r], counts[r], r + 1);
    put(in_place ? &got : &sent, t->type, in_place ? at[rank] : 0, counts[rank], rank + 1);
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : sent.base, counts[rank], t->type, got.base, counts, at,
                   t->type, comm);
    expect_same(&got, &wanted, in_place ? "allgatherv in place" : "allgatherv", t->name, count);
    free_area(&sent), free_area(&got), free_area(&wanted);
    free(counts), free(at);
}

void check_allgather(MPI_Comm comm, const named_type_t *t, int count) {
    place(comm);
    MPI_Datatype whole; /* the same signature by another type */
    MPI_Type_contiguous(count, t->type, &whole);
    MPI_Type_commit(&whole);
    for (int way = 0; way < 3; way++) {
        area_t sent = new_area(t->type, count);
        area_t got = new_area(t->type, (long)size * count);
        area_t wanted = new_area(t->type, (long)size * count);
        MPI_Aint lower, extent;
        MPI_Type_get_extent(t->type, &lower, &extent);
        gathered(&wanted, t, count);
        if (way == 2) put(&got, t->type, (long)rank * count, count, rank + 1);
        else put(&sent, t->type, 0, count, rank + 1);
        if (way == 0) MPI_Allgather(sent.base, count, t->type, got.base, count, t->type, comm);
        if (way == 1) MPI_Allgather(sent.base, 1, whole, got.base, count, t->type, comm);
        if (way == 2)
            MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got.base, count, t->type, comm);
        expect_same(&got, &wanted, way == 2 ? "allgather in place" : "allgather", t->name, count);
        free_area(&sent), free_area(&got), free_area(&wanted);
    }
    MPI_Type_free(&whole);
    if (ours_only) return;
    for (int in_place = 0; in_place < 2; in_place++) check_allgatherv(comm, t, count, in_place);
}

static long seed_of(int from, int to) { return 1000L * from + to + 7; }

void check_alltoall(MPI_Comm comm, const named_type_t *t, int count) {
    place(comm);
    for (int in_place = 0; in_place < 2; in_place++) {
        long total = (long)size * count;
        area_t sent = new_area(t->type, total);
        area_t got = new_area(t->type, total), wanted = new_area(t->type, total);
        for (int r = 0; r < size; r++) {
            put(&wanted, t->type, (long)r * count, count, seed_of(r, rank));
            put(in_place ? &got : &sent, t->type, (long)r * count, count, seed_of(rank, r));
        }
        MPI_Alltoall(in_place ? MPI_IN_PLACE : sent.base, count, t->type, got.base, count, t->type,
                     comm);
        expect_same(&got, &wanted, in_place ? "alltoall in place" : "alltoall", t->name, count);
        free_area(&sent), free_area(&got), free_area(&wanted);
    }
}

/* ---- alltoallv ---- */

/* Uneven, with empty messages; the same both ways, as in place demands it. */
static int even_count(int from, int to, int count) {
    int low = from < to ? from : to, high = from < to ? to : from;
    return (low + 2 * high) % 5 == 3 ? 0 : count * (1 + (low * 3 + high) % 4);
}

static int uneven_count(int from, int to, int count) {
    return (from + 2 * to) % 5 == 3 ? 0 : count * (1 + (from * 3 + to * 7) % 6);
}

typedef struct {
    int *counts, *at;
    long total;
} blocks_t;

/* Blocks with a gap of one element between them, the highest peer's first. */
static blocks_t blocks_of(int count, int (*rule)(int, int, int), int sends) {
    size_t bytes = (size_t)size * sizeof(int);
    blocks_t b = {.counts = malloc(bytes), .at = malloc(bytes), .total = 1};
    for (int r = size - 1; r >= 0; r--) {
        b.counts[r] = sends ? rule(rank, r, count) : rule(r, rank, count);
        b.at[r] = (int)b.total;
        b.total += b.counts[r] + 1;
    }
    return b;
}

static void free_blocks(blocks_t *b) { free(b->counts), free(b->at); }

static void check_apart(MPI_Comm comm, const named_type_t *t, int count) {
    blocks_t out = blocks_of(count, uneven_count, 1), in = blocks_of(count, uneven_count, 0);
    area_t sent = new_area(t->type, out.total);
    area_t got = new_area(t->type, in.total), wanted = new_area(t->type, in.total);
    for (int r = 0; r < size; r++) {
        put(&sent, t->type, out.at[r], out.counts[r], seed_of(rank, r));
        put(&wanted, t->type, in.at[r], in.counts[r], seed_of(r, rank));
    }
    int code = MPI_Alltoallv(sent.base, out.counts, out.at, t->type, got.base, in.counts, in.at,
                             t->type, comm);
    expect(code == MPI_SUCCESS, "alltoallv's result", t->name, count);
    expect_same(&got, &wanted, "alltoallv", t->name, count);
    free_area(&sent), free_area(&got), free_area(&wanted);
    free_blocks(&out), free_blocks(&in);
}

/* Elements of pairs are sent, single ones received. */
static void check_other_types(MPI_Comm comm, const named_type_t *t, int count) {
    blocks_t out = blocks_of(count, uneven_count, 1), in = blocks_of(2 * count, uneven_count, 0);
    MPI_Datatype pair;
    MPI_Type_vector(2, 1, 2, t->type, &pair);
    MPI_Type_commit(&pair);
    area_t sent = new_area(pair, out.total);
    area_t got = new_area(t->type, in.total), wanted = new_area(t->type, in.total);
    for (int r = 0; r < size; r++) {
        put(&sent, pair, out.at[r], out.counts[r], seed_of(rank, r));
        put(&wanted, t->type, in.at[r], in.counts[r], seed_of(r, rank));
    }
    MPI_Alltoallv(sent.base, out.counts, out.at, pair, got.base, in.counts, in.at, t->type, comm);
    expect_same(&got, &wanted, "alltoallv with two types", t->name, count);
    MPI_Type_free(&pair);
    free_area(&sent), free_area(&got), free_area(&wanted);
    free_blocks(&out), free_blocks(&in);
}

static void check_in_place(MPI_Comm comm, const named_type_t *t, int count) {
    blocks_t b = blocks_of(count, even_count, 1);
    area_t got = new_area(t->type, b.total), wanted = new_area(t->type, b.total);
    for (int r = 0; r < size; r++) {
        put(&got, t->type, b.at[r], b.counts[r], seed_of(rank, r));
        put(&wanted, t->type, b.at[r], b.counts[r], seed_of(r, rank));
    }
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, got.base, b.counts, b.at, t->type,
                  comm);
    expect_same(&got, &wanted, "alltoallv in place", t->name, count);
    free_area(&got), free_area(&wanted);
    free_blocks(&b);
}

void check_alltoallv(MPI_Comm comm, const named_type_t *t, int count) {
    place(comm);
    check_apart(comm, t, count);
    if (!has_padding(t->type)) check_other_types(comm, t, count);
    check_in_place(comm, t, count);
}

/* ---- with a root ---- */

static void check_gather(MPI_Comm comm, const named_type_t *t, int count, int root, int in_place) {
    long total = (long)size * count;
    int mine = in_place && rank == root;
    area_t sent = new_area(t->type, count);
    area_t got = new_area(t->type, total), wanted = new_area(t->type, total);
    put(&sent, t->type, 0, count, rank + 1);
    if (rank == root) gathered(&wanted, t, count);
    if (mine) put(&got, t->type, (long)rank * count, count, rank + 1);
    MPI_Gather(mine ? MPI_IN_PLACE : sent.base, count, t->type, got.base, count, t->type, root,
               comm);
    expect_same(&got, &wanted, "gather", t->name, count);
    free_area(&sent), free_area(&got), free_area(&wanted);
}

static void check_scatter(MPI_Comm comm, const named_type_t *t, int count, int root, int in_place) {
    int mine = in_place && rank == root;
    area_t sent = new_area(t->type, (long)size * count);
    area_t got = new_area(t->type, count), wanted = new_area(t->type, count);
    if (rank == root) gathered(&sent, t, count);
    if (!mine) put(&wanted, t->type, 0, count, rank + 1);
    MPI_Scatter(sent.base, count, t->type, mine ? MPI_IN_PLACE : got.base, count, t->type, root,
                comm);
    expect_same(&got, &wanted, "scatter", t->name, count);
    free_area(&sent), free_area(&got), free_area(&wanted);
}

void check_gather_scatter(MPI_Comm comm, const named_type_t *t, int count) {
    place(comm);
    for (int root = 0; root < size; root++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            check_gather(comm, t, count, root, in_place);
            check_scatter(comm, t, count, root, in_place);
        }
    }
}
