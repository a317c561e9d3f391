/* MPI's functions as programs call them: the beginning, the end, and the collectives. */
#include "calls.h"
#include "core.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { USUAL_FIRST_CALLS = 3 };
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

_Atomic unsigned ct_engaged;
static _Atomic unsigned engaged_by[CT_ENGAGERS];
static _Atomic int running; /* between MPI_Init and MPI_Finalize */
static _Atomic int tried;

void ct_engage(ct_engager_t who, unsigned collectives) {
    unsigned all = 0;
    atomic_store(&engaged_by[who], collectives);
    for (int i = 0; i < CT_ENGAGERS; i++) all |= atomic_load(&engaged_by[i]);
    atomic_store(&ct_engaged, atomic_load(&running) ? all : 0);
}

void ct_begin(void) {
    int begun = 0, ended = 0;
    PMPI_Initialized(&begun);
    PMPI_Finalized(&ended);
    if (!begun || ended || atomic_exchange(&tried, 1)) return;
    if (ct_is_foreign() || PMPI_Comm_rank(MPI_COMM_WORLD, &ct_world_rank) != MPI_SUCCESS ||
        PMPI_Comm_size(MPI_COMM_WORLD, &ct_world_size) != MPI_SUCCESS ||
        !ct_all_present() || ct_objects_begin() != MPI_SUCCESS ||
        ct_communicators_begin() != MPI_SUCCESS)
        return;
    int configured = ct_settings_begin();
    atomic_store(&running, 1);
    if (configured) {
        const char *first = ct_setting("COLLTUNE_FIRST_CALLS");
        ct_first_calls = first ? atoi(first) : USUAL_FIRST_CALLS;
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

#ifdef CT_UNLINKED
__attribute__((constructor)) static void engage_late(void) {
    if (ct_is_late()) atomic_store(&ct_engaged, CT_ALL_COLLECTIVES); /* so that calls are passed on */
}
#endif

CT_PUBLIC int MPI_Init(int *argc, char ***argv) {
    CT_PASS_LATE(__typeof__(MPI_Init), "PMPI_Init", argc, argv)
    ct_announce();
    int error = PMPI_Init(argc, argv);
    if (error == MPI_SUCCESS) ct_begin();
    return error;
}

CT_PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    CT_PASS_LATE(__typeof__(MPI_Init_thread), "PMPI_Init_thread", argc, argv, required, provided)
    ct_announce();
    int error = PMPI_Init_thread(argc, argv, required, provided);
    if (error == MPI_SUCCESS) ct_begin();
    return error;
}

CT_PUBLIC int MPI_Finalize(void) {
    CT_PASS_LATE(__typeof__(MPI_Finalize), "PMPI_Finalize")
    ct_end();
    return PMPI_Finalize();
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

/* Ours stands before MPI's function, theirs is the same of MPI's profiling layer. */
#define INTERPOSE(function, COLLECTIVE, LIST, TAKE, large)                                    \
    int their_##function(CT_##LIST(TAKE, TAKE, COMMA) handle_t comm)                          \
        __asm__("PMPI_" #function) __attribute__((weak));                                     \
    CT_PUBLIC int our_##function(CT_##LIST(TAKE, TAKE, COMMA) handle_t comm)                  \
        __asm__("MPI_" #function);                                                            \
    int our_##function(CT_##LIST(TAKE, TAKE, COMMA) handle_t comm) {                          \
        if (UNLIKELY(ct_is_engaged(CT_##COLLECTIVE))) {                                       \
            CT_PASS_LATE(__typeof__(their_##function), "PMPI_" #function,                     \
                         CT_##LIST(GIVE, GIVE, COMMA) comm)                                   \
            ct_call_t call = ct_no_call;                                                      \
            call.collective = CT_##COLLECTIVE;                                                \
            call.is_large = large;                                                            \
            CT_##LIST(KEEP, KEEP, SEMICOLON) KEEP(comm);                                      \
            return ct_dispatch(&call);                                                        \
        }                                                                                     \
        return their_##function(CT_##LIST(GIVE, GIVE, COMMA) comm);                           \
    }

#define WITH_INT(function, COLLECTIVE, LIST) INTERPOSE(function, COLLECTIVE, LIST, PLAIN, 0)
CT_EACH_COLLECTIVE(WITH_INT)

#if MPI_VERSION >= 4
#define WITH_COUNT(function, COLLECTIVE, LIST) INTERPOSE(function##_c, COLLECTIVE, LIST, LARGE, 1)
CT_EACH_WITH_COUNTS(WITH_COUNT)
#endif
