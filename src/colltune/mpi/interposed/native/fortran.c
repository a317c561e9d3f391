#define _GNU_SOURCE /* RTLD_NEXT */
/* Fortran programs, as far as MPI libraries do not call MPI functions for them, which are ours.
 *
 * Open MPI's bindings of mpif.h and of the module mpi are functions ompi_NAME_f, under the names
 * that Fortran compilers give them; they call PMPI functions. Those of mpi_f08 call the same ones.
 * Of MPICH only mpi_f08's functions without a buffer call PMPI functions. */
#include "core.h"

#ifdef OPEN_MPI
#include <stdint.h>
#include <stdlib.h>

/* Where Fortran's MPI_BOTTOM and MPI_IN_PLACE lie, under the name of the compiler that MPI was made
 * with; the others do not exist. */
#define LIES(name) extern int name __attribute__((weak, visibility("default")))
LIES(mpi_fortran_bottom);
LIES(mpi_fortran_bottom_);
LIES(mpi_fortran_bottom__);
LIES(MPI_FORTRAN_BOTTOM);
LIES(mpi_fortran_in_place);
LIES(mpi_fortran_in_place_);
LIES(mpi_fortran_in_place__);
LIES(MPI_FORTRAN_IN_PLACE);

static void *buffer(void *address) {
    const int *at = address;
    if (!at) return address;
    if (at == &mpi_fortran_bottom || at == &mpi_fortran_bottom_ || at == &mpi_fortran_bottom__ ||
        at == &MPI_FORTRAN_BOTTOM)
        return MPI_BOTTOM;
    if (at == &mpi_fortran_in_place || at == &mpi_fortran_in_place_ ||
        at == &mpi_fortran_in_place__ || at == &MPI_FORTRAN_IN_PLACE)
        return MPI_IN_PLACE;
    return address;
}

/* One number per process that is talked to. Fortran's integers may be longer than C's. */
static int *numbers(const MPI_Fint *given, MPI_Comm comm) {
    int n = 0, is_inter = 0;
    if (sizeof *given == sizeof(int)) return (int *)(uintptr_t)given;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter) PMPI_Comm_remote_size(comm, &n);
    else PMPI_Comm_size(comm, &n);
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

/* The names by which compilers call the function before. */
#define NAMES(lower, UPPER, ...)                                                                  \
    CT_PUBLIC void mpi_##lower(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));          \
    CT_PUBLIC void mpi_##lower##_(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));       \
    CT_PUBLIC void mpi_##lower##__(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));      \
    CT_PUBLIC void MPI_##UPPER(__VA_ARGS__) __attribute__((alias("ompi_" #lower "_f")));

CT_PUBLIC void ompi_init_f(MPI_Fint *ierr) {
    tell(ierr, MPI_Init(NULL, NULL));
}
NAMES(init, INIT, MPI_Fint *ierr)

CT_PUBLIC void ompi_init_thread_f(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierr) {
    int level = 0;
    tell(ierr, MPI_Init_thread(NULL, NULL, (int)*required, &level));
    *provided = (MPI_Fint)level;
}
NAMES(init_thread, INIT_THREAD, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierr)

CT_PUBLIC void ompi_finalize_f(MPI_Fint *ierr) {
    tell(ierr, MPI_Finalize());
}
NAMES(finalize, FINALIZE, MPI_Fint *ierr)

CT_PUBLIC void ompi_allgather_f(void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype,
                                void *recvbuf, MPI_Fint *recvcount, MPI_Fint *recvtype,
                                MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Allgather(buffer(sendbuf), (int)*sendcount, PMPI_Type_f2c(*sendtype),
                             buffer(recvbuf), (int)*recvcount, PMPI_Type_f2c(*recvtype),
                             PMPI_Comm_f2c(*comm)));
}
NAMES(allgather, ALLGATHER, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, void *recvbuf,
      MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_allgatherv_f(void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype,
                                 void *recvbuf, MPI_Fint *recvcounts, MPI_Fint *displs,
                                 MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *ierr) {
    MPI_Comm c = PMPI_Comm_f2c(*comm);
    int *counts = numbers(recvcounts, c), *places = numbers(displs, c);
    tell(ierr, MPI_Allgatherv(buffer(sendbuf), (int)*sendcount, PMPI_Type_f2c(*sendtype),
                              buffer(recvbuf), counts, places, PMPI_Type_f2c(*recvtype), c));
    done_with(counts, recvcounts);
    done_with(places, displs);
}
NAMES(allgatherv, ALLGATHERV, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype,
      void *recvbuf, MPI_Fint *recvcounts, MPI_Fint *displs, MPI_Fint *recvtype, MPI_Fint *comm,
      MPI_Fint *ierr)

CT_PUBLIC void ompi_allreduce_f(void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type,
                                MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Allreduce(buffer(sendbuf), buffer(recvbuf), (int)*count, PMPI_Type_f2c(*type),
                             PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}
NAMES(allreduce, ALLREDUCE, void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type,
      MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_alltoall_f(void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype,
                               void *recvbuf, MPI_Fint *recvcount, MPI_Fint *recvtype,
                               MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Alltoall(buffer(sendbuf), (int)*sendcount, PMPI_Type_f2c(*sendtype),
                            buffer(recvbuf), (int)*recvcount, PMPI_Type_f2c(*recvtype),
                            PMPI_Comm_f2c(*comm)));
}
NAMES(alltoall, ALLTOALL, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, void *recvbuf,
      MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_alltoallv_f(void *sendbuf, MPI_Fint *sendcounts, MPI_Fint *sdispls,
                                MPI_Fint *sendtype, void *recvbuf, MPI_Fint *recvcounts,
                                MPI_Fint *rdispls, MPI_Fint *recvtype, MPI_Fint *comm,
                                MPI_Fint *ierr) {
    MPI_Comm c = PMPI_Comm_f2c(*comm);
    int *sent = numbers(sendcounts, c), *from = numbers(sdispls, c), *got = numbers(recvcounts, c),
        *to = numbers(rdispls, c);
    tell(ierr, MPI_Alltoallv(buffer(sendbuf), sent, from, PMPI_Type_f2c(*sendtype),
                             buffer(recvbuf), got, to, PMPI_Type_f2c(*recvtype), c));
    done_with(sent, sendcounts);
    done_with(from, sdispls);
    done_with(got, recvcounts);
    done_with(to, rdispls);
}
NAMES(alltoallv, ALLTOALLV, void *sendbuf, MPI_Fint *sendcounts, MPI_Fint *sdispls,
      MPI_Fint *sendtype, void *recvbuf, MPI_Fint *recvcounts, MPI_Fint *rdispls,
      MPI_Fint *recvtype, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_barrier_f(MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Barrier(PMPI_Comm_f2c(*comm)));
}
NAMES(barrier, BARRIER, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_bcast_f(void *address, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root,
                            MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Bcast(buffer(address), (int)*count, PMPI_Type_f2c(*type), (int)*root,
                         PMPI_Comm_f2c(*comm)));
}
NAMES(bcast, BCAST, void *address, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root, MPI_Fint *comm,
      MPI_Fint *ierr)

CT_PUBLIC void ompi_exscan_f(void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type,
                             MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Exscan(buffer(sendbuf), buffer(recvbuf), (int)*count, PMPI_Type_f2c(*type),
                          PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}
NAMES(exscan, EXSCAN, void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
      MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_gather_f(void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, void *recvbuf,
                             MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *root,
                             MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Gather(buffer(sendbuf), (int)*sendcount, PMPI_Type_f2c(*sendtype),
                          buffer(recvbuf), (int)*recvcount, PMPI_Type_f2c(*recvtype), (int)*root,
                          PMPI_Comm_f2c(*comm)));
}
NAMES(gather, GATHER, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, void *recvbuf,
      MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_reduce_f(void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type,
                             MPI_Fint *op, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Reduce(buffer(sendbuf), buffer(recvbuf), (int)*count, PMPI_Type_f2c(*type),
                          PMPI_Op_f2c(*op), (int)*root, PMPI_Comm_f2c(*comm)));
}
NAMES(reduce, REDUCE, void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
      MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_reduce_scatter_f(void *sendbuf, void *recvbuf, MPI_Fint *recvcounts,
                                     MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr) {
    MPI_Comm c = PMPI_Comm_f2c(*comm);
    int *counts = numbers(recvcounts, c);
    tell(ierr, MPI_Reduce_scatter(buffer(sendbuf), buffer(recvbuf), counts, PMPI_Type_f2c(*type),
                                  PMPI_Op_f2c(*op), c));
    done_with(counts, recvcounts);
}
NAMES(reduce_scatter, REDUCE_SCATTER, void *sendbuf, void *recvbuf, MPI_Fint *recvcounts,
      MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_reduce_scatter_block_f(void *sendbuf, void *recvbuf, MPI_Fint *count,
                                           MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm,
                                           MPI_Fint *ierr) {
    tell(ierr, MPI_Reduce_scatter_block(buffer(sendbuf), buffer(recvbuf), (int)*count,
                                        PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
                                        PMPI_Comm_f2c(*comm)));
}
NAMES(reduce_scatter_block, REDUCE_SCATTER_BLOCK, void *sendbuf, void *recvbuf, MPI_Fint *count,
      MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_scan_f(void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type,
                           MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Scan(buffer(sendbuf), buffer(recvbuf), (int)*count, PMPI_Type_f2c(*type),
                        PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}
NAMES(scan, SCAN, void *sendbuf, void *recvbuf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op,
      MPI_Fint *comm, MPI_Fint *ierr)

CT_PUBLIC void ompi_scatter_f(void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype,
                              void *recvbuf, MPI_Fint *recvcount, MPI_Fint *recvtype,
                              MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr) {
    tell(ierr, MPI_Scatter(buffer(sendbuf), (int)*sendcount, PMPI_Type_f2c(*sendtype),
                           buffer(recvbuf), (int)*recvcount, PMPI_Type_f2c(*recvtype), (int)*root,
                           PMPI_Comm_f2c(*comm)));
}
NAMES(scatter, SCATTER, void *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, void *recvbuf,
      MPI_Fint *recvcount, MPI_Fint *recvtype, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr)
#else
#include <dlfcn.h>

typedef void init_t(MPI_Fint *ierror);
typedef void init_thread_t(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror);

/* MPICH's own find out where Fortran's constants lie. */
CT_PUBLIC void mpi_init_f08_(MPI_Fint *ierror) {
    init_t *theirs;
    *(void **)&theirs = dlsym(RTLD_NEXT, "mpi_init_f08_");
    ct_announce();
    theirs(ierror);
    ct_begin();
}

CT_PUBLIC void mpi_init_thread_f08_(const MPI_Fint *required, MPI_Fint *provided,
                                    MPI_Fint *ierror) {
    init_thread_t *theirs;
    *(void **)&theirs = dlsym(RTLD_NEXT, "mpi_init_thread_f08_");
    ct_announce();
    theirs(required, provided, ierror);
    ct_begin();
}

CT_PUBLIC void mpi_finalize_f08_(MPI_Fint *ierror) {
    init_t *theirs;
    *(void **)&theirs = dlsym(RTLD_NEXT, "mpi_finalize_f08_");
    ct_end();
    theirs(ierror);
}

CT_PUBLIC void mpi_barrier_f08_(const MPI_Fint *comm, MPI_Fint *ierror) {
    int error = MPI_Barrier(PMPI_Comm_f2c(*comm));
    if (ierror) *ierror = (MPI_Fint)error;
}
#endif
