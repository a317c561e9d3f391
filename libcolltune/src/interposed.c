/* MPI's functions as programs call them: the beginning, the end, and the collectives. */
#include "calls.h"
#include "core.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_FIRST_CALLS = 3 };
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#ifdef CT_LATE
_Atomic unsigned ct_engaged = CT_ALL_COLLECTIVES; /* nothing is bound: see ct_astray */
#else
_Atomic unsigned ct_engaged;
#endif
static _Atomic unsigned engaged_by[CT_ENGAGERS];
static _Atomic int running; /* between MPI_Init and MPI_Finalize */
static _Atomic int tried;

static void narrow_what_lacks(void);

void ct_engage_bound(void) {
    unsigned all = ct_bound == CT_ALONE ? 0 : CT_ALL_COLLECTIVES;
    narrow_what_lacks();
    for (int i = 0; atomic_load(&running) && i < CT_ENGAGERS; i++) all |= atomic_load(&engaged_by[i]);
    atomic_store(&ct_engaged, all);
}

void ct_engage(ct_engager_t who, unsigned collectives) {
    atomic_store(&engaged_by[who], collectives);
    ct_engage_bound();
}

void ct_begin(void) {
    int begun = 0, ended = 0;
    if (!ct_is_ours && ct_bound != CT_UNBOUND && !atomic_exchange(&tried, 1)) ct_tell_foreign();
    if (!ct_is_ours) return;
    PMPI(Initialized)(&begun);
    PMPI(Finalized)(&ended);
    if (!begun || ended || atomic_exchange(&tried, 1)) return;
    if (PMPI(Comm_rank)(MPI_COMM_WORLD, &ct_world_rank) != MPI_SUCCESS ||
        PMPI(Comm_size)(MPI_COMM_WORLD, &ct_world_size) != MPI_SUCCESS ||
        !ct_all_present() || ct_objects_begin() != MPI_SUCCESS ||
        ct_communicators_begin() != MPI_SUCCESS)
        return;
    int configured = ct_settings_begin();
    if (ct_world_size == 1)
        ct_log(1, "MPI_COMM_WORLD has one process (or no launcher is known to the MPI library): the MPI"
               " library runs all calls");
    atomic_store(&running, 1);
    if (configured) {
        ct_first_calls = (int)ct_number("COLLTUNE_FIRST_CALLS", USUAL_FIRST_CALLS);
        ct_fault_tolerant = ct_is_fault_tolerant();
        if (ct_fault_tolerant)
            ct_log(0, "fault tolerance is on: the MPI library runs all calls");
        ct_spread_begin();
        ct_force_begin();
        ct_load_decisions();
        ct_profile_begin();
    }
    ct_engage(CT_BY_PROFILE, ct_profiling ? CT_ALL_COLLECTIVES : 0);
}

void ct_end(void) {
    if (!atomic_exchange(&running, 0)) return;
    atomic_store(&ct_engaged, 0);
    ct_profile_end();
    ct_feedback_end();
    ct_communicators_end();
    ct_objects_end();
    ct_steer_end();
    ct_end_decisions();
    ct_spread_end();
    ct_configurations_end();
    ct_settings_end();
}

CT_PUBLIC int MPI_Init(int *argc, char ***argv) {
    __typeof__(MPI_Init) *theirs = CT_THEIRS(PMPI_Init, "PMPI_Init");
    ct_announce();
    int error = theirs(argc, argv);
    if (error == MPI_SUCCESS) ct_begin();
    return error;
}

CT_PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    __typeof__(MPI_Init_thread) *theirs = CT_THEIRS(PMPI_Init_thread, "PMPI_Init_thread");
    ct_announce();
    int error = theirs(argc, argv, required, provided);
    if (error == MPI_SUCCESS) ct_begin();
    return error;
}

CT_PUBLIC int MPI_Finalize(void) {
    __typeof__(MPI_Finalize) *theirs = CT_THEIRS(PMPI_Finalize, "PMPI_Finalize");
    int is_bound = ct_bound != CT_SEVERAL || theirs == PMPI(Finalize);
    if (is_bound) ct_end();
    int error = theirs();
    if (is_bound) ct_unbind();
    return error;
}

/* ---- collectives ---- */

/* A handle as it comes: of a program of another MPI it may be wider than one of ours. */
typedef intptr_t handle_t;

#define TYPE_sendbuf(COUNT, PLACE) const void *
#define TYPE_sendcount(COUNT, PLACE) COUNT
#define TYPE_sendcounts(COUNT, PLACE) const COUNT *
#define TYPE_sdispls(COUNT, PLACE) const PLACE *
#define TYPE_sendtype(COUNT, PLACE) handle_t
#define TYPE_recvbuf(COUNT, PLACE) void *
#define TYPE_recvcount(COUNT, PLACE) COUNT
#define TYPE_recvcounts(COUNT, PLACE) const COUNT *
#define TYPE_rdispls(COUNT, PLACE) const PLACE *
#define TYPE_recvtype(COUNT, PLACE) handle_t
#define TYPE_op(COUNT, PLACE) handle_t
#define TYPE_root(COUNT, PLACE) int

#define COMMA() ,
#define SEMICOLON() ;
#define PLAIN(argument) TYPE_##argument(int, int) argument
#define LARGE(argument) TYPE_##argument(MPI_Count, MPI_Aint) argument
#define KEEP(argument) call.argument = (__typeof__(call.argument))argument
#define GIVE(argument) argument

#ifdef CT_LATE
#define BOUND(function) ((__typeof__(their_##function) *)(void (*)(void))ct_mpi.function)
#define SLOT(function) (&ct_mpi.function)
#else
#define BOUND(function) (&their_##function)
#define SLOT(function) NULL
#endif

/* Nothing is bound, or several libraries are: the function to be called instead; NULL: ours. */
static void *astray(const char *name, const void *slot, const void *caller) {
    void *bound;
    if (ct_bound == CT_UNBOUND) ct_bind();
    memcpy(&bound, slot, sizeof bound);
    if (ct_bound != CT_SEVERAL) return bound;
    void *theirs = ct_next(name, caller);
    return theirs == bound && atomic_load(&running) ? NULL : theirs;
}

/* Ours stands before MPI's function, theirs is the same of MPI's profiling layer. */
#define INTERPOSE(function, COLLECTIVE, LIST, TAKE, large, NAMED)                             \
    int their_##function(CT_##LIST(TAKE, TAKE, COMMA) handle_t comm)                          \
        __asm__("PMPI_" #function);                                                           \
    CT_PUBLIC int our_##function(CT_##LIST(TAKE, TAKE, COMMA) handle_t comm)                  \
        NAMED("MPI_" #function)                                                               \
    int our_##function(CT_##LIST(TAKE, TAKE, COMMA) handle_t comm) {                          \
        if (UNLIKELY(ct_is_engaged(CT_##COLLECTIVE))) {                                       \
            __typeof__(their_##function) *theirs = NULL;                                      \
            if (UNLIKELY(ct_bound != CT_ALONE))                                               \
                theirs = (__typeof__(their_##function) *)astray(                              \
                    "PMPI_" #function, SLOT(function), __builtin_return_address(0));          \
            if (theirs) return theirs(CT_##LIST(GIVE, GIVE, COMMA) comm);                     \
            ct_call_t call = ct_no_call;                                                      \
            call.collective = CT_##COLLECTIVE;                                                \
            call.is_large = large;                                                            \
            CT_##LIST(KEEP, KEEP, SEMICOLON) KEEP(comm);                                      \
            return ct_dispatch(&call);                                                        \
        }                                                                                     \
        return BOUND(function)(CT_##LIST(GIVE, GIVE, COMMA) comm);                            \
    }

#define SHOWN(name) __asm__(name);
#define WITH_INT(function, COLLECTIVE, LIST) \
    INTERPOSE(function, COLLECTIVE, LIST, PLAIN, 0, SHOWN)
CT_EACH_COLLECTIVE(WITH_INT)

#if MPI_VERSION >= 4
#define WITH_COUNT(function, COLLECTIVE, LIST) \
    INTERPOSE(function##_c, COLLECTIVE, LIST, LARGE, 1, CT_HIDDEN)
CT_EACH_WITH_COUNTS(WITH_COUNT)
#endif

/* ---- functions of large counts that the program's MPI lacks ---- */

#if defined CT_LATE && MPI_VERSION >= 4
/* Who refers to one weakly finds ours, when the library is of a newer MPI. The function whose counts
 * are ints runs the call if they fit. */
typedef struct {
    int processes, fits, n;
    int *copies[4 /* arrays of an alltoallv */];
} narrowing_t;

static narrowing_t narrowing(handle_t comm) {
    typedef int ask_t(handle_t, int *);
    narrowing_t w = {.fits = 1};
    int is_inter = 0;
    ((ask_t *)(void (*)(void))ct_mpi.Comm_test_inter)(comm, &is_inter);
    if (is_inter) ((ask_t *)(void (*)(void))ct_mpi.Comm_remote_size)(comm, &w.processes);
    else ((ask_t *)(void (*)(void))ct_mpi.Comm_size)(comm, &w.processes);
    return w;
}

static int narrow(narrowing_t *w, MPI_Count count) {
    w->fits &= count == (int)count;
    return (int)count;
}

/* Of MPI_Count or MPI_Aint. */
static int *narrow_all(narrowing_t *w, const void *counts, size_t width) {
    int *copy = counts ? malloc((size_t)w->processes * sizeof *copy) : NULL;
    if (counts && !copy) w->fits = 0;
    w->copies[w->n++] = copy;
    for (int i = 0; copy && i < w->processes; i++) {
        const char *at = (const char *)counts + (size_t)i * width;
        copy[i] = narrow(w, width == sizeof(int) ? *(const int *)(const void *)at
                                                 : *(const int64_t *)(const void *)at);
    }
    return copy;
}

/* The error of the call, and an end of what it was narrowed with. */
static int narrowed(narrowing_t *w, int error, handle_t comm) {
    typedef int call_t(handle_t, int);
    for (int i = 0; i < w->n; i++) free(w->copies[i]);
    if (!w->fits) ((call_t *)(void (*)(void))ct_mpi.Comm_call_errhandler)(comm, error);
    return error;
}

#define NARROW_sendbuf sendbuf
#define NARROW_sendcount narrow(&w, sendcount)
#define NARROW_sendtype sendtype
#define NARROW_recvbuf recvbuf
#define NARROW_recvcount narrow(&w, recvcount)
#define NARROW_recvtype recvtype
#define NARROW_op op
#define NARROW_root root
#define NARROW(argument) __typeof__(NARROW_##argument) n_##argument = NARROW_##argument;
#define NARROW_ALL(argument) int *n_##argument = narrow_all(&w, argument, sizeof *argument);
#define NARROWED(argument) n_##argument
#define SPACE()

#define NARROWING(function, COLLECTIVE, LIST)                                             \
    static int narrow_##function(CT_##LIST(LARGE, LARGE, COMMA) handle_t comm) {          \
        narrowing_t w = narrowing(comm);                                                  \
        CT_##LIST(NARROW, NARROW_ALL, SPACE)                                              \
        int error = MPI_ERR_COUNT;                                                        \
        if (w.fits) error = BOUND(function)(CT_##LIST(NARROWED, NARROWED, COMMA) comm);   \
        return narrowed(&w, error, comm);                                                 \
    }
CT_EACH_WITH_COUNTS(NARROWING)

static void narrow_what_lacks(void) {
#define FILL(function, COLLECTIVE, LIST)                                                      \
    if ((void (*)(void))ct_mpi.function##_c == (void (*)(void))ct_nothing)                    \
        ct_mpi.function##_c = (__typeof__(ct_mpi.function##_c))(void (*)(void))narrow_##function;
    CT_EACH_WITH_COUNTS(FILL)
}
#else
static void narrow_what_lacks(void) {}
#endif
