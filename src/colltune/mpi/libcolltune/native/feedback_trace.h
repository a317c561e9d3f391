/* What the adaptation of alltoallv's threshold did, for the folder that COLLTUNE_FEEDBACK names. */
#ifndef CT_FEEDBACK_TRACE_H
#define CT_FEEDBACK_TRACE_H

#include "search.h"

typedef struct ct_trace ct_trace_t;

typedef enum {
    CT_ORDINARY,  /* with the best value; this process's own time */
    CT_REFERENCE, /* with the best value; the slowest process's time */
    CT_TEST,      /* with the candidate; the slowest process's time */
} ct_iteration_t;

/* A new trace, of a communicator of `size` processes; NULL if none is wanted. Thread-safe. */
ct_trace_t *ct_trace_begin(int size);
void ct_trace_add(ct_trace_t *trace, ct_iteration_t kind, long iteration, long threshold,
                  double seconds);
/* What was decided after an iteration added lately. */
void ct_trace_decide(ct_trace_t *trace, long iteration, ct_verdict_t verdict);
/* The seconds of an iteration added lately, now that the slowest process's are known. */
void ct_trace_amend(ct_trace_t *trace, long iteration, double seconds);

#endif
