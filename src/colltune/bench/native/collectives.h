/* The collectives that collbench can call, and how their results are checked. */
#ifndef COLLTUNE_COLLECTIVES_H
#define COLLTUNE_COLLECTIVES_H

#include <mpi.h>
#include <stddef.h>

/* One call's arguments. Sizes follow colltune's convention: `msize` is the whole buffer for bcast,
 * reduce, allreduce, reduce_scatter, scan and exscan, the block per peer for the others. */
typedef struct {
    MPI_Comm comm;
    int rank, size;
    size_t msize;
    unsigned char *send, *recv;
    int *counts, *displs; /* per rank, in units of `type` */
    MPI_Datatype type;    /* MPI_INT with MPI_SUM where 4 divides msize, else MPI_BYTE with MPI_BOR */
    MPI_Op op;
    int count; /* elements of `type` in msize */
} call_t;

/* What a reduction leaves on a rank: `n` elements, from `first` on, of those of ranks low..high-1. */
typedef struct { int low, high; size_t first, n; } left_t;

typedef struct {
    const char *name;
    int (*run)(call_t *);
    void (*fill)(call_t *);
    int (*wrong)(const call_t *); /* 1 if the result is wrong on this rank */
    int send_blocks, recv_blocks; /* buffer lengths in msize: 0 none, 1 one, -1 one per rank */
    left_t (*left)(const call_t *); /* of reductions; NULL for the others */
} collective_t;

const collective_t *find_collective(const char *name);

/* Print on stderr that the call was made, and before it what libcolltune chose, if that is preloaded
 * and chose anything. */
void mark_call(const collective_t *collective, const call_t *call);

/* Complete `call` for msize and its communicator; allocates nothing but counts and displs. */
void prepare_call(call_t *call, const collective_t *collective);

/* The same for elements of a type, `width` bytes each, and an operation, of which the call has as
 * many as its msize holds. */
void prepare_typed_call(call_t *call, const collective_t *collective, MPI_Datatype type, MPI_Op op,
                        size_t width);

/* Fill the send buffer, and the receive buffer with what no right result holds. */
void prepare_check(call_t *call, const collective_t *collective);

/* Does MPI_Barrier let processes go before all have entered? 1 yes, 0 not seen, -1 it is refused.
 * Messages go over `base`. Collective. */
int barrier_leaks(call_t *call, MPI_Comm base);

#endif
