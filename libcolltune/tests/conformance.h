/* Collectives compared with results that are computed here, not by MPI. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <mpi.h>
#include <stddef.h>

typedef struct {
    const char *name;
    MPI_Datatype type;
    int is_derived;
} named_type_t;

enum { MOST_TYPES = 64 };
extern named_type_t types[MOST_TYPES];
extern int n_types;
void make_types(void);
void free_types(void);

/* Memory for `count` elements with guards around; all bytes alike at first. */
typedef struct {
    char *memory, *base;
    size_t bytes;
} area_t;

area_t new_area(MPI_Datatype type, long count);
void free_area(area_t *area);
/* The message that `seed` stands for, `count` elements from element `at` on. */
void put(const area_t *area, MPI_Datatype type, long at, int count, long seed);

int has_padding(MPI_Datatype type);

/* Where we are, for what is told about a failure. */
extern const char *forced;
extern const char *communicator;
extern long checks;
extern int ours_only; /* leave out collectives that we have no algorithms for */

/* The two areas are the same to the last byte of the guards; else tell and abort. */
void expect_same(const area_t *got, const area_t *wanted, const char *what, const char *type,
                 long count);
void expect(int holds, const char *what, const char *type, long count);

/* Every function of a collective: all types or a few, on one communicator. */
void check_bcast(MPI_Comm comm, const named_type_t *t, int count);
void check_allgather(MPI_Comm comm, const named_type_t *t, int count);
void check_alltoall(MPI_Comm comm, const named_type_t *t, int count);
void check_alltoallv(MPI_Comm comm, const named_type_t *t, int count);
void check_gather_scatter(MPI_Comm comm, const named_type_t *t, int count);
void check_reductions(MPI_Comm comm, int count, int all_types);

#endif
