/* What the hierarchical allgather and the ring allreduce share: nodes and their leaders, memory
 * that the processes of a node share, the plan of an exchange between leaders, and the exchange
 * itself, overlapped with the distribution on the node.
 *
 * Tran et al., "Accelerating communication with multi-HCA aware collectives in MPI", Concurrency
 * Computat. Pract. Exper. 2023, sec. 3.2.
 *
 * The memory has two halves which rounds use in turn, so that a round need not wait until all have
 * copied out of the round before. A round writes nothing until all of the node are done with the
 * last round of its half. */
#ifndef CT_HIERARCHY_H
#define CT_HIERARCHY_H

#include "ct.h"

#include <limits.h>
#include <stdint.h>

typedef struct ct_segment ct_segment_t;
typedef struct ct_hierarchy ct_hierarchy_t;

/* Kept with a communicator. */
struct ct_hierarchy {
    MPI_Comm work; /* for messages: ct_comm_t's base */
    int tag;       /* of the call under way */
    unsigned long calls;
    int size, rank;
    int nodes, node;  /* how many; this process's */
    int ppn, local;   /* processes of this node; which of them this one is */
    int least, most;  /* the smallest and largest number of processes of a node */
    int *first;       /* where a node's processes begin in `ranks`; nodes + 1 */
    int *ranks;       /* all ranks, by node and then by rank */
    int *world;       /* this node's processes, in MPI_COMM_WORLD */
    ct_segment_t *segment;
    size_t half;      /* bytes of a half that all nodes have; 0: there is none */
    size_t limit;     /* bytes of a half that could not be had; 0 if none failed */
    size_t needed;    /* the most bytes of a half that were asked for of late */
    ct_hierarchy_t *next; /* that uses the same segment */
};

/* The words of the parameter `exchange`, and of `overlap`. */
enum { CT_RING, CT_RECURSIVE_DOUBLING };
extern const char *const ct_exchange_words[], *const ct_overlap_words[];
enum { CT_EXCHANGE, CT_LEADERS, CT_CHUNK, CT_OVERLAP }; /* places of the parameters */
enum { CT_MOST_LEADERS = 64 };
#define CT_NODE_PARAMETERS                                            \
    {[CT_EXCHANGE] = {"exchange", 0, 1, CT_RING, ct_exchange_words},  \
     [CT_LEADERS] = {"leaders", 1, CT_MOST_LEADERS, 1, NULL},         \
     [CT_CHUNK] = {"chunk", 0, INT_MAX, 0, NULL},                     \
     [CT_OVERLAP] = {"overlap", 0, 1, 1, ct_overlap_words}}

/* ---- nodes and leaders (hierarchy.c) ---- */

/* The hierarchy of c for the call that begins; collective at the first call. An MPI error code. */
int ct_hierarchy(ct_comm_t *c, ct_hierarchy_t **hierarchy);
/* How many leaders each node has when `wanted` are asked for: no more than its processes. */
int ct_leaders(const ct_hierarchy_t *h, long wanted);
/* The processes of leader k of `leaders` on a node of `ppn`: from this one to the next one's. */
int ct_led_from(int ppn, int leaders, int k);
/* Which leader this process is; -1 if none. */
int ct_leader(const ct_hierarchy_t *h, int leaders);
int ct_rank_of_leader(const ct_hierarchy_t *h, int node, int k, int leaders);

/* ---- memory of a node (segment.c) ---- */

/* What a call of several rounds, or one that needs more memory, sends first: whether all processes'
 * blocks or vectors are as large. Seldom the size of a call; such a call does so as well. */
enum { CT_COMPARED_WORDS = 11, CT_COMPARED_BYTES = CT_COMPARED_WORDS * 8 };

/* See to the little that every call needs; h->half is 0 where it cannot be had. Collective at the
 * first call, and now and then to give back what is not used; `calls` are those of the communicator,
 * the same on all processes. An MPI error code. */
int ct_segment(ct_hierarchy_t *h, unsigned long calls);
/* Whether halves of `bytes` are there. */
int ct_segment_has(ct_hierarchy_t *h, size_t bytes);
/* Have halves of `bytes`, or of as many as can be had, in h->half. Collective: after all processes
 * have found that they ask alike. An MPI error code. */
int ct_segment_grow(ct_hierarchy_t *h, size_t bytes);
size_t ct_segment_most(void); /* bytes of a half worth asking for */
void ct_segment_release(ct_hierarchy_t *h);

/* ---- rounds in it, and waiting (rounds.c) ---- */

/* Begin a round: wait until its half is free; `half` becomes its address. */
int ct_round_begin(ct_hierarchy_t *h, char **half);
void ct_round_end(ct_hierarchy_t *h);

/* Counters of a round, each with the MPI error that its process had until then. `written`: of the
 * node's process `local`, its input is there; `reduced`: its part of the node's reduction is.
 * `arrived`: chunks that leader k has for its node. */
typedef enum { CT_WRITTEN, CT_REDUCED } ct_mark_t;
void ct_mark(ct_hierarchy_t *h, ct_mark_t mark, int code);
/* Wait until the processes from `first` to before `end` of the node have set `mark`; their error. */
int ct_await(ct_hierarchy_t *h, ct_mark_t mark, int first, int end);
/* The same for CT_WRITTEN. Processes tell the size of their call's block or vector: where it is not
 * the same, MPI_ERR_TRUNCATE. */
void ct_written(ct_hierarchy_t *h, size_t bytes, int code);
int ct_await_written(ct_hierarchy_t *h, int first, int end);
/* MPI_ERR_TRUNCATE if that process, which has written, told another size than this one. */
int ct_same_size(ct_hierarchy_t *h, int local);
void ct_arrive(ct_hierarchy_t *h, int k, int chunks, int code);
int ct_arrived(ct_hierarchy_t *h, int k, int *code);

/* One turn of a loop that waits: lets MPI progress and others have the processor. Start with
 * zeros. For counters; who waits for messages must not sleep, since MPI moves them. */
typedef struct {
    unsigned turns;
    int is_long;
    double since;
} ct_wait_t;
int ct_wait_turn(const ct_hierarchy_t *h, ct_wait_t *wait);

/* ---- exchange (exchange.c) ---- */

/* What a leader passes on: the parts of the nodes from `first` to before `end`. A send begins when
 * `after` receives are complete. */
typedef struct {
    int peer, first, end, after;
} ct_move_t;

/* What a node's leaders do in phase 2, in order. */
typedef struct {
    int n_receives, n_sends;
    ct_move_t *receives, *sends;
    MPI_Request *requests; /* room for all of them */
} ct_plan_t;

/* The plan of this process's node; NULL without memory. Kept with c. */
const ct_plan_t *ct_plan(ct_comm_t *c, const ct_hierarchy_t *h, int exchange);
/* The same into arrays that are there and large enough. */
void ct_plan_of(int exchange, int nodes, int node, ct_plan_t *plan);

/* A call over nodes, in rounds; the first member of what an algorithm has of it. Leader k's parts of
 * all nodes lie one after another. */
typedef struct ct_node_call ct_node_call_t;
struct ct_node_call {
    ct_hierarchy_t *h;
    const ct_plan_t *plan;
    int leaders, overlap;
    int code;   /* the first error of this process */
    char *base; /* of this round's data */
    /* Phase 1: bring this node's parts together; `code` and what went wrong by then. */
    int (*bring)(ct_node_call_t *call);
    size_t (*begin)(const ct_node_call_t *call, int k, int node); /* of a part, in bytes from base */
    /* Copy about `budget` bytes of leader k's parts of the nodes `first` to before `end` to the
     * user, from *at on (0 at first), and move *at; to SIZE_MAX when all is copied. */
    int (*copy)(const ct_node_call_t *call, int k, int first, int end, size_t budget, size_t *at);
};

/* Begin a call on c as parameters have it; an MPI error code. h->half is 0 where there is no memory. */
int ct_node_call(ct_comm_t *c, const long *values, ct_node_call_t *call);
/* One round, in the memory of the node or in the place that is given. (hierarchy.c) */
void ct_node_round(ct_node_call_t *call, char *in_place);

/* MPI_SUCCESS if the message has so many bytes: other counts elsewhere would else go unnoticed. */
int ct_check_length(const MPI_Status *status, size_t bytes);

/* Phases 2 and 3: exchange between leaders and distribution. Leaders call it when their node's part is
 * whole; after an error, who waits for its data is told by a message of another length. */
int ct_exchange(ct_node_call_t *call);
/* Bytes of a message for `bytes`, or for none of them after an error. */
static inline int ct_length(size_t bytes, int code) {
    return code == MPI_SUCCESS ? (int)bytes : !bytes;
}

/* ---- elements and their reduction (elements.c) ---- */

typedef struct {
    MPI_Datatype type;
    size_t size;
    MPI_Aint lb, extent, true_lb, true_extent;
    int dense; /* its bytes lie one after another in the order of its signature */
} ct_elements_t;

int ct_elements(MPI_Datatype type, ct_elements_t *elements);
/* The address of element i of a buffer. */
char *ct_element(const ct_elements_t *e, const void *buffer, size_t i);
/* Between `count` elements from `buffer` on and count * size contiguous bytes. */
int ct_pack(const ct_elements_t *e, const void *buffer, size_t count, void *bytes, MPI_Comm comm);
int ct_unpack(const ct_elements_t *e, const void *bytes, void *buffer, size_t count,
              MPI_Comm comm);

/* How elements are combined that lie as contiguous bytes. */
typedef struct {
    ct_elements_t elements;
    MPI_Op op;
    MPI_Comm comm;
    size_t most;       /* elements combined at a time */
    char *left, *right; /* room for so many, where they are not dense */
} ct_reduction_t;

/* Whether the operation may be applied in any order and is defined for the datatype. */
int ct_is_reducible(MPI_Op op, MPI_Datatype type);
int ct_reduction(ct_reduction_t *r, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
void ct_reduction_release(ct_reduction_t *r);
/* inout = in op inout, `count` elements. An MPI error code. */
int ct_reduce(const ct_reduction_t *r, const char *in, char *inout, size_t count);

#endif
