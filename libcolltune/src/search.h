/* The search for the threshold of alltoallv between eager and pairwise messages, without MPI: only
 * rank 0 of a communicator searches, with times that are those of the slowest process. */
#ifndef CT_SEARCH_H
#define CT_SEARCH_H

/* Messages are told apart by powers of two: bin b has those of 2^b up to 2^(b+1)-1 bytes. Rung 0 of
 * the ladder is the threshold 0, rung b+1 the threshold 2^(b+1), which sends bins 0..b eagerly. */
enum { CT_BINS = 48, CT_RUNGS = CT_BINS + 1, CT_SAMPLES = 15 };

typedef enum {
    CT_GOES_ON,   /* nothing is decided yet, or nothing was tested */
    CT_KEPT,      /* the value tested is now the best */
    CT_REJECTED,  /* it rests for a while */
    CT_RESTARTED, /* the workload has changed: all values may be tried again */
} ct_verdict_t;

/* What all processes do next. */
typedef struct {
    long best;      /* the threshold of ordinary iterations, bytes */
    long candidate; /* the one to be tested; negative: none */
    long wait;      /* how many periods nothing is measured before that */
} ct_plan_t;

typedef struct {
    double times[CT_SAMPLES]; /* the newest, in a ring */
    int n, next;
} ct_samples_t;

typedef struct {
    ct_plan_t plan;
    int tests;                /* samples that a verdict needs at least */
    int direction;            /* of the last step that was an improvement */
    long period;              /* the clock of rests */
    long seen[CT_BINS];       /* the period in which such a message was last seen; 0: never */
    long rest[CT_RUNGS];      /* the period from which on it may be tried again */
    int strikes[CT_RUNGS];    /* how often it was rejected since the restart */
    ct_samples_t references;  /* times with the best value since it is that */
    ct_samples_t trials;      /* times with the candidate */
    double usual;             /* what the references were at first; 0: not known yet */
} ct_search_t;

/* Begin at `threshold` bytes; also to begin anew, with the ladder kept. */
void ct_search_begin(ct_search_t *s, long threshold, int tests);
/* After a period that was measured: the time with the best value, the time with the candidate (not
 * looked at if there was none), and which bins messages were in. The plan is then the next one. */
ct_verdict_t ct_search_step(ct_search_t *s, double reference, double trial, const double *bins);
/* The bin of messages of `bytes` > 0. */
int ct_search_bin(long long bytes);

#endif
