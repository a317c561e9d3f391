/* Whether all processes of MPI_COMM_WORLD have this library.
 *
 * Some launchers hand LD_PRELOAD on to other hosts only when they are told to. The collective calls
 * with which settings are shared would then meet the program's own in processes that lack the
 * library. So each process reports to rank 0 first, and rank 0 answers those it heard: nothing is
 * sent to a process that lacks the library, unless that is rank 0. */
#include "core.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPORT_TAG = 32741, ANSWER_TAG = 32742 };
static const double usual_s = 20, patience = 4.5; /* who gave up must not be heard after that */

static double hearing_s(void) {
    const char *text = getenv("COLLTUNE_ROLL_S");
    double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : usual_s;
}

static int arrived(int source, int tag, double until, MPI_Status *status) {
    int flag = 0;
    while (PMPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, status) == MPI_SUCCESS && !flag) {
        if (ct_now() > until) break;
        sched_yield();
    }
    return flag;
}

static int receive(int source, int tag, int *value) {
    return PMPI_Recv(value, 1, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
           MPI_SUCCESS;
}

static int hear_all(void) {
    int heard = 1, all, rank, *ranks = malloc((size_t)ct_world_size * sizeof *ranks);
    double until = ct_now() + hearing_s();
    MPI_Status status;
    while (ranks && heard < ct_world_size && arrived(MPI_ANY_SOURCE, REPORT_TAG, until, &status))
        if (receive(status.MPI_SOURCE, REPORT_TAG, &rank)) ranks[heard++] = status.MPI_SOURCE;
    all = heard == ct_world_size;
    for (int i = 1; ranks && i < heard; i++)
        if (PMPI_Send(&all, 1, MPI_INT, ranks[i], ANSWER_TAG, MPI_COMM_WORLD) != MPI_SUCCESS) all = 0;
    free(ranks);
    if (!all)
        ct_log(0, "only %d of %d processes have libcolltune (mpirun: -x LD_PRELOAD): the MPI library"
                  " runs all calls", heard, ct_world_size);
    return all;
}

static int report(void) {
    int all = 0;
    MPI_Status status;
    if (PMPI_Send(&ct_world_rank, 1, MPI_INT, 0, REPORT_TAG, MPI_COMM_WORLD) != MPI_SUCCESS) return 0;
    if (arrived(0, ANSWER_TAG, ct_now() + patience * hearing_s(), &status))
        return receive(0, ANSWER_TAG, &all) && all;
    fprintf(stderr, "colltune: rank 0 does not have libcolltune (mpirun: -x LD_PRELOAD), rank %d has"
                    " it: the MPI library runs all calls\n", ct_world_rank);
    return 0;
}

int ct_all_present(void) {
    if (ct_world_size == 1) return 1;
    return ct_world_rank == 0 ? hear_all() : report();
}
