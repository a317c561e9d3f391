/* The beginnings and ends of the library's core, which interposed.c calls in their order. */
#ifndef CT_CORE_H
#define CT_CORE_H

#include "ct.h"

void ct_begin(void); /* after MPI_Init; nothing at a second call */
void ct_end(void);   /* before MPI_Finalize */

void ct_announce(void);   /* before MPI_Init: tell that this process has the library (launcher.c) */
int ct_all_present(void); /* after it: whether all did; the same on all that did */
/* Whether the MPI library that is bound is the one that we were compiled for: no other handles may
 * be used. `ct_tell_foreign` tells in one line why not. (library.c) */
int ct_is_made_for_it(void);
void ct_tell_foreign(void);
/* Libraries with the standard ABI have two numbers for it, and what returns errors by one of them
 * aborts by the other: that of the library that is bound. (library.c) */
#ifdef MPI_ABI
extern MPI_Errhandler ct_errors_return;
#define CT_ERRORS_RETURN ct_errors_return
#else
#define CT_ERRORS_RETURN MPI_ERRORS_RETURN
#endif
/* What is bound has changed: which calls are looked at may, too. (interposed.c) */
void ct_engage_bound(void);

/* The function behind ours, of the type of `their`, for whom ours returns to. */
#ifdef CT_LATE
#define CT_THEIRS(their, name) \
    ((__typeof__(their) *)ct_next(name, __builtin_return_address(0)))
#else
#define CT_THEIRS(their, name) (&(their))
#endif
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
