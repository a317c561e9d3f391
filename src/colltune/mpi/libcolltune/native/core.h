/* The beginnings and ends of the library's core, which interposed.c calls in their order. */
#ifndef CT_CORE_H
#define CT_CORE_H

#include "ct.h"

void ct_begin(void); /* after MPI_Init; nothing at a second call */
void ct_end(void);   /* before MPI_Finalize */

void ct_announce(void);   /* before MPI_Init: tell that this process has the library (launcher.c) */
int ct_all_present(void); /* after it: whether all did; the same on all that did */
/* Whether the program runs with an MPI library whose handles are not those of our header, which is
 * told in one line. No handle may be used before. (library.c) */
int ct_is_foreign(void);

/* A library that is made without a need of MPI's (CT_UNLINKED: its references are weak) has none of
 * MPI's functions where a program has no MPI, another MPI, or loads it later by itself. All calls
 * are then passed on, and nothing else is done. */
#ifndef CT_UNLINKED
#define ct_is_late() 0
#elif defined OPEN_MPI
#define ct_is_late() (!&ompi_mpi_comm_world)
#else
#define ct_is_late() (!PMPI_Init)
#endif
/* The function `name` behind ours, of the library that `caller` uses; NULL: there is none. */
void *ct_theirs(const char *name, void *caller);
/* Return from a function of ours what theirs, `name` of this type, makes of the same arguments. */
#define CT_PASS_LATE(type, name, ...)                                                     \
    if (__builtin_expect(ct_is_late(), 0)) {                                              \
        static type *theirs;                                                              \
        if (!theirs) *(void **)&theirs = ct_theirs(name, __builtin_return_address(0));    \
        return theirs(__VA_ARGS__);                                                       \
    }
/* Whether only the site wants something, to record: users are told nothing. (settings.c) */
int ct_is_quiet(void);
int ct_settings_begin(void); /* collective; 1: something is to be done, 0: all stays as it is */
void ct_settings_end(void);
int ct_objects_begin(void); /* an MPI error code */
void ct_objects_end(void);
int ct_communicators_begin(void); /* an MPI error code */
void ct_communicators_end(void);
void ct_spread_begin(void); /* collective */
void ct_spread_end(void);
int ct_world_ppn(void); /* processes of MPI_COMM_WORLD on this node; all of them where unknown */
void ct_force_begin(void);
void ct_configurations_end(void);

/* Whether the program is to survive the death of processes. Our communicators would not be revoked
 * with the user's, and so the MPI library runs all calls. */
extern int ct_fault_tolerant;
extern int ct_first_calls; /* of a communicator, which are left as they are (dispatch.c) */
int ct_is_fault_tolerant(void); /* library.c */

/* Ranks in MPI_COMM_WORLD of all processes of `comm`; the caller's. NULL: memory is out. */
int *ct_world_ranks(MPI_Comm comm, int size);

#endif
