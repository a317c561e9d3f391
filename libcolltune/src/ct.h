/* What the parts of libcolltune share.
 *
 * The library is preloaded and interposes MPI's profiling layer: MPI_Bcast here decides and calls
 * PMPI functions. Every decision is the same on all processes of a communicator: it rests on the
 * communicator's size and spread, the collective and the message size only. */
#ifndef CT_H
#define CT_H

#include "bound.h"
#include "why.h"

#include <signal.h>
#include <stddef.h>

/* In the order of their names, as in colltune.domain.Collective. */
typedef enum {
    CT_NONE = -1,
    CT_ALLGATHER,
    CT_ALLGATHERV,
    CT_ALLREDUCE,
    CT_ALLTOALL,
    CT_ALLTOALLV,
    CT_BARRIER,
    CT_BCAST,
    CT_EXSCAN,
    CT_GATHER,
    CT_REDUCE,
    CT_REDUCE_SCATTER,
    CT_REDUCE_SCATTER_BLOCK,
    CT_SCAN,
    CT_SCATTER,
    CT_COLLECTIVES
} ct_collective_t;

enum { CT_MAX_PARAMETERS = 4, CT_ID_LENGTH = 128 };

/* A call's arguments, as MPI's function has them; what a collective lacks is zero. Bcast's buffer is
 * recvbuf, recvcount, recvtype; so are count and datatype of reductions. `msize` is what colltune
 * calls msize_bytes: the whole buffer of bcast, reduce, allreduce, the block per peer of allgather,
 * alltoall, gather, scatter (allgatherv: the mean block); of alltoallv 0, since every process has
 * another. It is the same on all processes. */
typedef struct {
    ct_collective_t collective;
    const void *sendbuf;
    void *recvbuf;
    MPI_Count sendcount, recvcount;
    const int *sendcounts, *sdispls, *recvcounts, *rdispls; /* is_large: read by ct_count_at */
    int is_large; /* it was a function of large counts, MPI_Bcast_c: they are MPI_Count and MPI_Aint */
    MPI_Datatype sendtype, recvtype;
    MPI_Op op;
    int root;
    MPI_Comm comm;
    size_t msize;
} ct_call_t;

typedef struct ct_comm ct_comm_t;
typedef struct ct_algorithm ct_algorithm_t;

/* What may run a call: the MPI library by its own decision, an algorithm of ours, or an algorithm
 * of the MPI library that control variables (MPI_T) choose. */
typedef enum { CT_LIBRARY, CT_OWN, CT_STEERED } ct_kind_t;

typedef struct {
    char *name, *value;
} ct_setting_t;

typedef struct {
    ct_kind_t kind;
    ct_collective_t collective;
    char id[CT_ID_LENGTH];           /* colltune.bcast.hierarchical:groups=16,inner=binomial */
    const ct_algorithm_t *algorithm; /* of CT_OWN */
    long values[CT_MAX_PARAMETERS];  /* in the order of its parameters; a word is its index */
    int n_settings;                  /* of CT_STEERED */
    ct_setting_t *settings;
} ct_configuration_t;

/* A number from `low` to `high`, or one of `words` (ends with NULL). */
typedef struct {
    const char *name;
    long low, high, usual;
    const char *const *words;
} ct_parameter_t;

struct ct_algorithm {
    ct_collective_t collective;
    const char *name;
    ct_parameter_t parameters[CT_MAX_PARAMETERS];
    /* Whether it can run this call; the same answer on all processes. */
    int (*fits)(const ct_comm_t *, const ct_call_t *, const long *values);
    /* Run it; an MPI error code. */
    int (*run)(ct_comm_t *, const ct_call_t *, const long *values);
    int is_of_a_node; /* it runs on communicators within one node alone */
};

/* Something that an algorithm keeps with a communicator, under its own `key` and `number`; in a list
 * whose first one was used last. */
typedef struct ct_kept {
    const void *key;
    long number;
    void *data;
    void (*release)(void *data);
    struct ct_kept *next;
} ct_kept_t;

/* What is known of a communicator; lives as its attribute. Only intracommunicators of two or more
 * processes of this MPI_COMM_WORLD have one. */
struct ct_comm {
    MPI_Comm comm;
    MPI_Comm base; /* one of ours for messages; errors are returned on it. See ct_base */
    struct ct_base *of_base;
    int size, rank, is_inter; /* is_inter: always 0 */
    int nodes;     /* 0 until ct_spread was called */
    int ppn;       /* processes of each node; 0 if they differ */
    int *node_of;  /* the node of each rank, nodes numbered by their lowest rank */
    unsigned long calls; /* looked at so far, that under way included: the same everywhere */
    ct_kept_t *kept;
    const void *decisions[CT_COLLECTIVES]; /* the part of the table that holds here (decide.c) */
    int has_decisions;
    const void *ruled[CT_COLLECTIVES]; /* what the rules say here, of this change of them (rules.c) */
    unsigned long ruled_by;
    void *profile; /* its numbers (profile.c); NULL at first */
    int refused, left_out;      /* communicator.c: no base can be had; not one of ours to change */
    int chosen;                 /* calls that were to be changed, before there was a base */
    struct ct_comm *older, *newer;
};

/* ---- communicators (communicator.c, spread.c) ---- */

/* The state of a communicator; NULL where we stay out. Local, a few ns for the one used last. */
ct_comm_t *ct_comm(MPI_Comm comm);
/* Make c->base. Collective at the first call, the same answer everywhere; done before `run` of any
 * CT_OWN is called. An MPI error code. */
int ct_base(ct_comm_t *c);
/* Find out nodes, ppn, node_of. Local if anything was configured in MPI_Init, else collective over c
 * at the first call; an MPI error code. COLLTUNE_NODES=by-rank:PPN lays rank r of MPI_COMM_WORLD on
 * node r / PPN, for tests on one host. */
int ct_spread(ct_comm_t *c);
/* A communicator of our own of the processes with the same colour, ordered by `order`; collective
 * over c, an MPI error code. MPI_UNDEFINED: in none. Errors are returned on it. There is a limit to
 * how many we have, of which all processes of c make the same. */
int ct_split(ct_comm_t *c, int colour, int order, MPI_Comm *part);
void ct_give_back(MPI_Comm *own);
/* What was kept under key and number, which is now the one used last; or NULL. */
void *ct_find(ct_comm_t *c, const void *key, long number);
/* Keep `data` with c; replaces nothing. `release` is called when the communicator is freed and else in
 * MPI_Finalize while MPI still works. It may free communicators, but must not wait for other
 * processes. Returns data; NULL if there is none, or no memory: data is released then. */
void *ct_keep(ct_comm_t *c, const void *key, long number, void *data, void (*release)(void *));
/* For attributes of ours: they are not copied; nothing is to be done when they go. */
int ct_no_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag);
int ct_no_deletion(MPI_Comm comm, int key, void *value, void *extra);
/* Release all that is kept under key but the `most` that were used last. */
void ct_limit(ct_comm_t *c, const void *key, int most);

/* ---- the user's datatypes and operations (objects.c) ---- */

/* Bytes of an element; 1 if the MPI library does not take the type: calls with it are passed on as
 * they are. Nothing else is asked about a type before: see objects.c. */
int ct_type_size(MPI_Datatype type, size_t *bytes);
/* Of a type that has a size: whether its elements lie in memory as they are sent, one after another
 * and in order. 0 if that is not to be known. Other types may be so, too, but their bytes need not
 * be in the order of the peer's type. */
int ct_type_is_plain(MPI_Datatype type);
/* Whether an operation of the user's may be applied in any order. */
int ct_op_commutes(MPI_Op op, MPI_Datatype type);
/* MPI_Pack and MPI_Unpack, of buffers at MPI_BOTTOM, too. */
int ct_pack_from(const void *buffer, int count, MPI_Datatype type, void *bytes, int room, int *at,
                 MPI_Comm comm);
int ct_unpack_to(const void *bytes, int length, int *at, void *buffer, int count, MPI_Datatype type,
                 MPI_Comm comm);

/* ---- which calls are looked at (interposed.c) ---- */

/* Calls of a collective cost one untaken branch unless somebody has engaged it. `collectives` has
 * bit 1 << c for each collective c and replaces what `who` engaged before. */
typedef enum { CT_BY_FORCE, CT_BY_TABLE, CT_BY_RULES, CT_BY_PROFILE, CT_ENGAGERS } ct_engager_t;
#define CT_ALL_COLLECTIVES ((1u << CT_COLLECTIVES) - 1)
void ct_engage(ct_engager_t who, unsigned collectives);

/* ---- settings (settings.c) ---- */

/* Value of an environment variable on rank 0 of MPI_COMM_WORLD, the same on all processes from
 * MPI_Init on; NULL if it is unset or empty. Only for the names listed in settings.c. */
const char *ct_setting(const char *name);
/* One that is a whole number; `usual` if it is unset. */
long ct_number(const char *name, long usual);
/* Give all processes of comm rank 0's `bytes` of `length` (others: ignored); collective. A copy that
 * ends with a NUL and is the caller's; NULL if rank 0 has none or memory is out. */
char *ct_share(MPI_Comm comm, const char *bytes, size_t *length);
extern int ct_world_rank, ct_world_size;

/* ---- configurations (configuration.c) ---- */

extern const ct_algorithm_t *const ct_algorithms[]; /* ends with NULL */
extern const char *const ct_collective_names[CT_COLLECTIVES];
ct_collective_t ct_collective_named(const char *name);
/* Read `ID [NAME=VALUE ...]`, an id and the control variables that choose it: with variables it is
 * CT_STEERED, colltune.… is CT_OWN, LIBRARY.COLLECTIVE.default CT_LIBRARY. The same text gives the
 * same pointer, valid until MPI_Finalize. NULL, with `why` written, if it names nothing that we can
 * run. */
const ct_configuration_t *ct_configuration(const char *text, ct_why_t *why);
/* Make `id` (or `ID NAME=VALUE ...`) the choice for its collective on every communicator, whatever
 * the table says; an empty or NULL id: no longer. All processes between the same two calls. Public:
 * benchmarks look it up. 0 if done. */
int colltune_force(const char *collective, const char *id);
const ct_configuration_t *ct_forced(ct_collective_t collective); /* NULL: nothing is */
/* Id of what ran this thread's last call of a collective since it was last asked for; empty where the
 * MPI library decided. Public: whoever proves that a table is obeyed looks it up (dispatch.c). */
const char *colltune_last_choice(const char *collective);
/* LIBCOLLTUNE_VERSION. Public: also to programs without MPI. (library.c) */
const char *colltune_version(void);
/* `ct_algorithms`. Public: compared with colltune.mpi.libcolltune.algorithms. */
const ct_algorithm_t *const *colltune_algorithms(void);

/* ---- deciding (decide.c, table.c, rules.c), steering (steer.c) ---- */

void ct_load_decisions(void);                     /* in MPI_Init; collective over MPI_COMM_WORLD */
void ct_end_decisions(void);                      /* in MPI_Finalize, MPI still works */
const ct_configuration_t *ct_decide(ct_comm_t *c, const ct_call_t *call); /* NULL: the library */
/* Make ready to run a CT_STEERED; collective at its first call on c. 0: it cannot be, on all. */
int ct_steerable(ct_comm_t *c, const ct_configuration_t *configuration);
void ct_steer_end(void);                          /* in MPI_Finalize, communicators are freed */
int ct_run_steered(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *configuration);

/* ---- profile (profile.c) ---- */

extern int ct_profiling;       /* whether calls are to be noted at all */
void ct_profile_begin(void);   /* in MPI_Init; collective over MPI_COMM_WORLD */
/* Before a call is run: whether it is to be timed. May communicate over c at the first call. */
int ct_profile_wants(ct_comm_t *c, const ct_call_t *call);
/* After it: `configuration` is what ran it (NULL: the MPI library by its own decision), `seconds`
 * how long it took, negative if it was not timed. Every call is noted. */
void ct_profile_note(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *configuration,
                     double seconds);
void ct_profile_end(void);     /* in MPI_Finalize, MPI still works; collective */

/* ---- feedback (feedback.c) ---- */

void ct_feedback_end(void); /* in MPI_Finalize: writes the traces of COLLTUNE_FEEDBACK */
/* The threshold of alltoallv on `comm`, in bytes, and its change, which all processes of comm must
 * make alike between the same two calls; MPI_ERR_COMM where there is none. Its address (long *) is an
 * attribute of comm under the keyval, from the first call on. All three are public. */
int colltune_alltoallv_threshold_get(MPI_Comm comm, long *bytes);
int colltune_alltoallv_threshold_set(MPI_Comm comm, long bytes);
int colltune_alltoallv_threshold_keyval(void);

/* ---- messages of our own algorithms (exchange.c) ---- */

/* An algorithm sends and receives all that it would without errors, and keeps the first error: so
 * no process waits for ever, and nothing is left for a later call. */
static inline int ct_first(int code, int next) { return code == MPI_SUCCESS ? next : code; }
/* The tag of the call under way: what an erroneous call leaves behind is not received by another. */
int ct_tag(const ct_comm_t *c);
/* Wait for each of them. The first error: of the request, never MPI_ERR_IN_STATUS. */
int ct_wait_all(int n, MPI_Request *requests);

/* ---- the rest ---- */

/* The count for process i in one of the call's arrays of counts. */
static inline MPI_Count ct_count_at(const ct_call_t *call, const int *counts, int i) {
    return call->is_large ? ((const MPI_Count *)(const void *)counts)[i] : counts[i];
}

/* Call the MPI library as the user did, on `comm` instead of the call's communicator. */
int ct_pass(const ct_call_t *call, MPI_Comm comm);
#define CT_PUBLIC __attribute__((visibility("default"))) /* all else is hidden */
/* One line on standard error, of rank 0 of MPI_COMM_WORLD; level 0: always, 1 with COLLTUNE_LOG=1 and
 * so on. */
void ct_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
double ct_now(void); /* seconds, monotonic */
/* Between these two, a file that grows beyond the process's limit (ulimit -f) is an error of the
 * call, and ends no program. (settings.c) */
void ct_hold_limit(sigset_t *before);
void ct_release_limit(const sigset_t *before);
/* The MPI library and its release, as colltune names them (openmpi, 5.0.11); unknown, -
 * (library.c). */
void ct_library(char *name, char *release, size_t length);

extern const ct_algorithm_t ct_bcast_hierarchical;      /* bcast.c */
extern const ct_algorithm_t ct_allgather_hierarchical;  /* allgather.c */
extern const ct_algorithm_t ct_allreduce_ring;          /* allreduce.c */
extern const ct_algorithm_t ct_allreduce_doubling;      /* allreduce.c */
extern const ct_algorithm_t ct_alltoallv_eager_pairwise; /* alltoallv.c */
extern const ct_algorithm_t ct_alltoallv_adaptive;      /* feedback.c */

#endif
