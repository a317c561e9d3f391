/* Fortran programs, as far as MPI libraries do not call MPI functions for them, which are ours.
 *
 * Open MPI's bindings of mpif.h and of the module mpi are functions ompi_NAME_f, under the names
 * that Fortran compilers give them; they call PMPI functions. Those of mpi_f08 call the same ones.
 * Of MPICH only mpi_f08's functions without a buffer call PMPI functions. The standard ABI has no
 * Fortran. */
#include "calls.h"
#include "core.h"

#ifdef OPEN_MPI
#include <stdint.h>
#include <stdlib.h>

/* Where Fortran's MPI_BOTTOM and MPI_IN_PLACE lie, under the name of the compiler that MPI was made
 * with; the others do not exist. The program's own are the first. */
enum { SPELLINGS = 4 };
static const char *const bottoms[SPELLINGS] = {"mpi_fortran_bottom", "mpi_fortran_bottom_",
                                               "mpi_fortran_bottom__", "MPI_FORTRAN_BOTTOM"};
static const char *const in_places[SPELLINGS] = {"mpi_fortran_in_place", "mpi_fortran_in_place_",
                                                 "mpi_fortran_in_place__", "MPI_FORTRAN_IN_PLACE"};
static const void *at_bottom[SPELLINGS], *at_in_place[SPELLINGS];

static void find_places(void) {
    for (int i = 0; i < SPELLINGS; i++) {
        at_bottom[i] = ct_defined(bottoms[i]);
        at_in_place[i] = ct_defined(in_places[i]);
    }
}

static void *buffer(void *address) {
    for (int i = 0; address && i < SPELLINGS; i++) {
        if (address == at_bottom[i]) return MPI_BOTTOM;
        if (address == at_in_place[i]) return MPI_IN_PLACE;
    }
    return address;
}

/* One number per process that is talked to. Fortran's integers may be longer than C's. */
static int *numbers(const MPI_Fint *given, MPI_Comm comm) {
    int n = 0, is_inter = 0;
    if (sizeof *given == sizeof(int)) return (int *)(uintptr_t)given;
    PMPI(Comm_test_inter)(comm, &is_inter);
    if (is_inter) PMPI(Comm_remote_size)(comm, &n);
    else PMPI(Comm_size)(comm, &n);
    int *copy = malloc((size_t)n * sizeof *copy);
    for (int i = 0; copy && given && i < n; i++) copy[i] = (int)given[i];
    return copy;
}

static void done_with(int *copy, const MPI_Fint *given) {
    if ((const void *)copy != (const void *)given) free(copy);
}

static void tell(MPI_Fint *ierr, int error) {
    if (ierr) *ierr = (MPI_Fint)error;
}

/* Of another library than the one that we were compiled for, its own function runs the call. */
#define PASS_ON(function, name, ...)                                              \
    if (__builtin_expect(!ct_is_ours, 0)) {                                       \
        __typeof__(function) *theirs;                                             \
        *(void **)&theirs = ct_next(name, __builtin_return_address(0));           \
        theirs(__VA_ARGS__);                                                      \
        return;                                                                   \
    }

/* The names by which compilers call the function before. */
#define NAMES(lower, UPPER, ...)                                                                  \
    CT_PUBLIC void mpi_##lower(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));          \
    CT_PUBLIC void mpi_##lower##_(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));       \
    CT_PUBLIC void mpi_##lower##__(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));      \
    CT_PUBLIC void MPI_##UPPER(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));

CT_PUBLIC void ompi_init_f(MPI_Fint *ierr) {
    ct_bind();
    PASS_ON(ompi_init_f, "mpi_init_", ierr)
    find_places();
    tell(ierr, MPI_Init(NULL, NULL));
}
NAMES(init, INIT, MPI_Fint *ierr)

CT_PUBLIC void ompi_init_thread_f(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierr) {
    ct_bind();
    PASS_ON(ompi_init_thread_f, "mpi_init_thread_", required, provided, ierr)
    find_places();
    int level = 0;
    tell(ierr, MPI_Init_thread(NULL, NULL, (int)*required, &level));
    *provided = (MPI_Fint)level;
}
NAMES(init_thread, INIT_THREAD, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierr)

CT_PUBLIC void ompi_finalize_f(MPI_Fint *ierr) {
    PASS_ON(ompi_finalize_f, "mpi_finalize_", ierr)
    tell(ierr, MPI_Finalize());
}
NAMES(finalize, FINALIZE, MPI_Fint *ierr)

/* ---- collectives ---- */

static MPI_Fint number(const void *at) { return *(const MPI_Fint *)at; }

#define COMMA() ,
#define SPACE()
#define NOTHING(argument)
/* Fortran passes addresses of everything. */
#define TAKE(argument) void *argument
#define COPY(argument) int *c_##argument = numbers(argument, c);
#define DONE(argument) done_with(c_##argument, argument);

#define GIVE(argument) GIVE_##argument
#define GIVE_COPY(argument) c_##argument
#define GIVE_sendbuf buffer(sendbuf)
#define GIVE_recvbuf buffer(recvbuf)
#define GIVE_sendcount (int)number(sendcount)
#define GIVE_recvcount (int)number(recvcount)
#define GIVE_sendtype PMPI(Type_f2c)(number(sendtype))
#define GIVE_recvtype PMPI(Type_f2c)(number(recvtype))
#define GIVE_op PMPI(Op_f2c)(number(op))
#define GIVE_root (int)number(root)

#define PASS(argument) argument
#define TAKEN(LIST) CT_##LIST(TAKE, TAKE, COMMA) MPI_Fint *comm, MPI_Fint *ierr
#define INTERPOSE(lower, UPPER, Function, LIST)                              \
    CT_PUBLIC void ompi_##lower##_f(TAKEN(LIST)) {                           \
        PASS_ON(ompi_##lower##_f, "mpi_" #lower "_",                         \
                CT_##LIST(PASS, PASS, COMMA) comm, ierr)                     \
        MPI_Comm c = PMPI(Comm_f2c)(*comm);                                   \
        CT_##LIST(NOTHING, COPY, SPACE)                                      \
        tell(ierr, MPI_##Function(CT_##LIST(GIVE, GIVE_COPY, COMMA) c));     \
        CT_##LIST(NOTHING, DONE, SPACE)                                      \
    }                                                                        \
    NAMES(lower, UPPER, TAKEN(LIST))

INTERPOSE(allgather, ALLGATHER, Allgather, EXCHANGE)
INTERPOSE(allgatherv, ALLGATHERV, Allgatherv, GATHERV)
INTERPOSE(allreduce, ALLREDUCE, Allreduce, REDUCTION)
INTERPOSE(alltoall, ALLTOALL, Alltoall, EXCHANGE)
INTERPOSE(alltoallv, ALLTOALLV, Alltoallv, EXCHANGEV)
INTERPOSE(barrier, BARRIER, Barrier, NOTHING)
INTERPOSE(bcast, BCAST, Bcast, BUFFER)
INTERPOSE(exscan, EXSCAN, Exscan, REDUCTION)
INTERPOSE(gather, GATHER, Gather, ROOTED_EXCHANGE)
INTERPOSE(reduce, REDUCE, Reduce, ROOTED_REDUCTION)
INTERPOSE(reduce_scatter, REDUCE_SCATTER, Reduce_scatter, REDUCTIONV)
INTERPOSE(reduce_scatter_block, REDUCE_SCATTER_BLOCK, Reduce_scatter_block, REDUCTION)
INTERPOSE(scan, SCAN, Scan, REDUCTION)
INTERPOSE(scatter, SCATTER, Scatter, ROOTED_EXCHANGE)
#elif !defined MPI_ABI
typedef void init_t(MPI_Fint *ierror);
typedef void barrier_t(const MPI_Fint *comm, MPI_Fint *ierror);
typedef void init_thread_t(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror);

#define NEXT(type, name) type *theirs = (type *)ct_next(name, __builtin_return_address(0))

/* MPICH's own find out where Fortran's constants lie. */
CT_PUBLIC void mpi_init_f08_(MPI_Fint *ierror) {
    NEXT(init_t, "mpi_init_f08_");
    ct_announce();
    theirs(ierror);
    ct_begin();
}

CT_PUBLIC void mpi_init_thread_f08_(const MPI_Fint *required, MPI_Fint *provided,
                                    MPI_Fint *ierror) {
    NEXT(init_thread_t, "mpi_init_thread_f08_");
    ct_announce();
    theirs(required, provided, ierror);
    ct_begin();
}

CT_PUBLIC void mpi_finalize_f08_(MPI_Fint *ierror) {
    NEXT(init_t, "mpi_finalize_f08_");
    ct_end();
    theirs(ierror);
    ct_unbind();
}

CT_PUBLIC void mpi_barrier_f08_(const MPI_Fint *comm, MPI_Fint *ierror) {
    NEXT(barrier_t, "mpi_barrier_f08_");
    if (!ct_is_ours) {
        theirs(comm, ierror);
        return;
    }
    int error = MPI_Barrier(PMPI_Comm_f2c(*comm));
    if (ierror) *ierror = (MPI_Fint)error;
}
#endif
