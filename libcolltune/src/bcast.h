/* What the broadcast in groups and its flat algorithms share. */
#ifndef CT_BCAST_H
#define CT_BCAST_H

#include "ct.h"

/* Who takes part in a flat broadcast, numbered from the one that has the message. */
typedef struct ct_team {
    int size, number; /* this process's number; 0 has the message */
    int (*rank_of)(const struct ct_team *team, int number); /* in the communicator */
    int first, root;       /* of a run of ranks: its lowest, and where number 0 is in it */
    const void *partition; /* of the leaders of groups: the groups, */
    int index;             /* which of a group's processes leads it, */
    int root_group, root_rank; /* and who leads the root's */
} ct_team_t;

/* The user's buffer, and where bytes are wanted of a datatype with gaps, a packed copy. Processes
 * may describe the same data by different datatypes: only the number of bytes is the same.
 *
 * Where another size comes than this process expects, the message becomes what came, nothing where it
 * is lost, and is passed on like that: nobody waits for ever, and who expects nothing else is served. */
typedef struct {
    MPI_Comm comm;
    int tag;
    void *buffer;
    int count;
    MPI_Datatype type;
    size_t msize;
    unsigned char *bytes;        /* NULL: not asked for yet; the buffer itself where that will do */
    int in_buffer, in_bytes;     /* where the message is, once it is here */
    long segsize;                /* of the pipeline */
    unsigned char *came;         /* memory for a message of another size; NULL: not needed */
} ct_message_t;

/* Have room for msize bytes, with the message in them if it is here. MPI error codes. */
int ct_message_bytes(ct_message_t *m);
/* Have the message in the buffer if it is here. */
int ct_message_buffer(ct_message_t *m);
void ct_message_end(ct_message_t *m);
/* Receive it whole as the user's datatype. */
int ct_bcast_receive(ct_message_t *m, int rank);

typedef int ct_flat_bcast_t(ct_message_t *m, const ct_team_t *team);
ct_flat_bcast_t ct_bcast_flat, ct_bcast_chain, ct_bcast_pipeline, ct_bcast_binary,
    ct_bcast_binomial, ct_bcast_scatter_ring_allgather;

#endif
