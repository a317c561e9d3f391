/* The memory that the processes of a node share: segment.c makes it, rounds.c uses its counters. */
#ifndef CT_SEGMENT_H
#define CT_SEGMENT_H

#include "hierarchy.h"

#include <assert.h>
#include <stdatomic.h>

enum { CT_LINE = 64, CT_SEGMENT_NAME = 64, CT_CHUNKS_BITS = 24 };

static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters are shared between processes");

/* What one process tells; each on lines of its own, since others poll them. What belongs to a round is
 * kept by the half that it uses. */
typedef struct {
    _Alignas(CT_LINE) atomic_ullong marks[2]; /* the last round in which it set them */
    atomic_ullong bytes[2];                /* of its call */
    atomic_int codes[2][2];                /* its error when it set a mark */
    _Alignas(CT_LINE) atomic_ullong done;     /* the last round that it left */
    _Alignas(CT_LINE) atomic_ullong arrived;  /* of a leader: round << CT_CHUNKS_BITS | chunks */
    atomic_int lost[2];                    /* its error by then */
} ct_line_t;

typedef struct {
    _Alignas(CT_LINE) atomic_ullong backed; /* bytes of each half that there is memory for */
    ct_line_t processes[];
} ct_shared_t;

struct ct_segment {
    ct_segment_t *next;
    ct_hierarchy_t *users;
    int ppn, *world; /* the processes, in their order */
    char name[CT_SEGMENT_NAME];
    int file;        /* of the first process; -1 of others */
    ct_shared_t *shared;
    char *halves;
    size_t half, mapped; /* bytes */
    unsigned long long round;
    int trim;            /* its users may need less than before */
};

/* The system gets back what no communicator will write to; in a round that is all done with. */
void ct_segment_trim(ct_segment_t *segment);

#endif
