/* The alltoallv with a threshold between messages that are sent at once and those that wait for
 * their turn in a pairwise exchange, and what a communicator keeps for it. */
#ifndef CT_EXCHANGE_H
#define CT_EXCHANGE_H

#include "ct.h"

typedef struct {
    MPI_Request *requests;      /* room for two per process */
    const ct_algorithm_t *runs; /* which algorithm ran last: the threshold is its */
    long threshold;             /* in force, bytes; users may write here (an MPI attribute) */
    long configured;            /* what the configuration of the fixed one said */
    long asked;                 /* by colltune_alltoallv_threshold_set, not yet in force; or -1 */
    struct ct_feedback *feedback; /* of the adaptive one (feedback.c) */
} ct_exchange_t;

/* What c keeps, made at the first call. An MPI error code. */
int ct_exchange_of(ct_comm_t *c, ct_exchange_t **exchange);
/* Whether this process's arguments are such that MPI would refuse them. */
int ct_exchange_refuses(const ct_comm_t *c, const ct_call_t *call);
/* Messages of fewer bytes than `threshold` at once, the others in pairs. An MPI error code. */
int ct_exchange_run(const ct_comm_t *c, ct_exchange_t *x, const ct_call_t *call, long threshold);
void ct_feedback_release(struct ct_feedback *feedback); /* feedback.c */
/* Whether c's processes can run it at all; the same on all of them. */
int ct_exchange_fits(const ct_comm_t *c, const ct_call_t *call, const long *values);

#endif
