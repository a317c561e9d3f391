/* MPI's functions as programs call them: the beginning, the end, and the collectives. */
#include "core.h"
#include "dispatch.h"

#include <stdatomic.h>

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
    if (PMPI_Comm_rank(MPI_COMM_WORLD, &ct_world_rank) != MPI_SUCCESS ||
        PMPI_Comm_size(MPI_COMM_WORLD, &ct_world_size) != MPI_SUCCESS ||
        !ct_all_present() || ct_objects_begin() != MPI_SUCCESS ||
        ct_communicators_begin() != MPI_SUCCESS)
        return;
    int configured = ct_settings_begin();
    atomic_store(&running, 1);
    if (configured) {
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
    int error = PMPI_Init(argc, argv);
    if (error == MPI_SUCCESS) ct_begin();
    return error;
}

CT_PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int error = PMPI_Init_thread(argc, argv, required, provided);
    if (error == MPI_SUCCESS) ct_begin();
    return error;
}

CT_PUBLIC int MPI_Finalize(void) {
    ct_end();
    return PMPI_Finalize();
}

/* ---- collectives ---- */

CT_PUBLIC int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                            int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_ALLGATHER))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_ALLGATHER;
        call.sendbuf = sendbuf;
        call.sendcount = sendcount;
        call.sendtype = sendtype;
        call.recvbuf = recvbuf;
        call.recvcount = recvcount;
        call.recvtype = recvtype;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

CT_PUBLIC int MPI_Allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                             void *recvbuf, const int recvcounts[], const int displs[],
                             MPI_Datatype recvtype, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_ALLGATHERV))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_ALLGATHERV;
        call.sendbuf = sendbuf;
        call.sendcount = sendcount;
        call.sendtype = sendtype;
        call.recvbuf = recvbuf;
        call.recvcounts = recvcounts;
        call.rdispls = displs;
        call.recvtype = recvtype;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
                           comm);
}

CT_PUBLIC int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                            MPI_Op op, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_ALLREDUCE))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_ALLREDUCE;
        call.sendbuf = sendbuf;
        call.recvbuf = recvbuf;
        call.recvcount = count;
        call.recvtype = datatype;
        call.op = op;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

CT_PUBLIC int MPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_ALLTOALL))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_ALLTOALL;
        call.sendbuf = sendbuf;
        call.sendcount = sendcount;
        call.sendtype = sendtype;
        call.recvbuf = recvbuf;
        call.recvcount = recvcount;
        call.recvtype = recvtype;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

CT_PUBLIC int MPI_Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[],
                            MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                            const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_ALLTOALLV))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_ALLTOALLV;
        call.sendbuf = sendbuf;
        call.sendcounts = sendcounts;
        call.sdispls = sdispls;
        call.sendtype = sendtype;
        call.recvbuf = recvbuf;
        call.recvcounts = recvcounts;
        call.rdispls = rdispls;
        call.recvtype = recvtype;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls,
                          recvtype, comm);
}

CT_PUBLIC int MPI_Barrier(MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_BARRIER))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_BARRIER;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Barrier(comm);
}

CT_PUBLIC int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_BCAST))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_BCAST;
        call.recvbuf = buffer;
        call.recvcount = count;
        call.recvtype = datatype;
        call.root = root;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Bcast(buffer, count, datatype, root, comm);
}

CT_PUBLIC int MPI_Exscan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_EXSCAN))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_EXSCAN;
        call.sendbuf = sendbuf;
        call.recvbuf = recvbuf;
        call.recvcount = count;
        call.recvtype = datatype;
        call.op = op;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Exscan(sendbuf, recvbuf, count, datatype, op, comm);
}

CT_PUBLIC int MPI_Gather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                         int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_GATHER))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_GATHER;
        call.sendbuf = sendbuf;
        call.sendcount = sendcount;
        call.sendtype = sendtype;
        call.recvbuf = recvbuf;
        call.recvcount = recvcount;
        call.recvtype = recvtype;
        call.root = root;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

CT_PUBLIC int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                         MPI_Op op, int root, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_REDUCE))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_REDUCE;
        call.sendbuf = sendbuf;
        call.recvbuf = recvbuf;
        call.recvcount = count;
        call.recvtype = datatype;
        call.op = op;
        call.root = root;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
}

CT_PUBLIC int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_REDUCE_SCATTER))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_REDUCE_SCATTER;
        call.sendbuf = sendbuf;
        call.recvbuf = recvbuf;
        call.recvcounts = recvcounts;
        call.recvtype = datatype;
        call.op = op;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm);
}

CT_PUBLIC int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_REDUCE_SCATTER_BLOCK))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_REDUCE_SCATTER_BLOCK;
        call.sendbuf = sendbuf;
        call.recvbuf = recvbuf;
        call.recvcount = recvcount;
        call.recvtype = datatype;
        call.op = op;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm);
}

CT_PUBLIC int MPI_Scan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_SCAN))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_SCAN;
        call.sendbuf = sendbuf;
        call.recvbuf = recvbuf;
        call.recvcount = count;
        call.recvtype = datatype;
        call.op = op;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Scan(sendbuf, recvbuf, count, datatype, op, comm);
}

CT_PUBLIC int MPI_Scatter(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                          int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
    if (UNLIKELY(ct_is_engaged(CT_SCATTER))) {
        ct_call_t call = ct_no_call;
        call.collective = CT_SCATTER;
        call.sendbuf = sendbuf;
        call.sendcount = sendcount;
        call.sendtype = sendtype;
        call.recvbuf = recvbuf;
        call.recvcount = recvcount;
        call.recvtype = recvtype;
        call.root = root;
        call.comm = comm;
        return ct_dispatch(&call);
    }
    return PMPI_Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}
