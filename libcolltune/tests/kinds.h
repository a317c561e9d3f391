/* Datatypes of ints, in different orders and with different gaps. */
#ifndef KINDS_H
#define KINDS_H

#include <mpi.h>
#include <stddef.h>

enum { KINDS = 8, AROUND = 64 }; /* AROUND: bytes kept free around buffers */

typedef struct { int ints; MPI_Datatype type; } kind_t;

static kind_t kinds[KINDS];

static MPI_Datatype committed(MPI_Datatype type) {
    MPI_Type_commit(&type);
    return type;
}

static void make_kinds(void) {
    MPI_Datatype t, u;
    const int backwards[] = {3, 1, 0}, lengths[] = {1, 1, 1};
    const MPI_Aint apart[] = {-8, 12};
    kinds[0] = (kind_t){1, MPI_INT};
    MPI_Type_contiguous(3, MPI_INT, &t);
    kinds[1] = (kind_t){3, committed(t)};
    MPI_Type_vector(3, 1, 2, MPI_INT, &t);
    kinds[2] = (kind_t){3, committed(t)};
    MPI_Type_indexed(3, lengths, backwards, MPI_INT, &t);
    kinds[3] = (kind_t){3, committed(t)};
    MPI_Type_create_hindexed(2, lengths, apart, MPI_INT, &t);
    MPI_Type_create_resized(t, -8, 40, &u);
    MPI_Type_free(&t);
    kinds[4] = (kind_t){2, committed(u)};
    MPI_Type_create_indexed_block(2, 1, (const int[]){1, 0}, MPI_INT, &t); /* no gap, other order */
    kinds[5] = (kind_t){2, committed(t)};
    MPI_Type_vector(2, 1, 4, MPI_INT, &t); /* elements lie in each other's gaps */
    MPI_Type_create_resized(t, 0, 4, &u);
    MPI_Type_free(&t);
    MPI_Type_contiguous(4, u, &t);
    MPI_Type_free(&u);
    MPI_Type_create_resized(t, 0, 32, &u);
    MPI_Type_free(&t);
    kinds[6] = (kind_t){8, committed(u)};
    MPI_Type_dup(MPI_INT, &kinds[7].type);
    kinds[7].ints = 1;
}

/* Bytes that `count` elements reach over; `origin` from the first of them to element 0. */
static size_t reach(MPI_Datatype type, size_t count, size_t *origin) {
    MPI_Aint lb, extent, true_lb, true_extent;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    *origin = AROUND + (size_t)(true_lb < 0 ? -true_lb : 0);
    size_t most = true_lb > 0 ? (size_t)true_lb : 0;
    return *origin + most + (size_t)true_extent + count * (size_t)extent + AROUND;
}

#endif
