/* Whether all processes of MPI_COMM_WORLD have this library.
 *
 * Some launchers hand LD_PRELOAD on to other hosts only when they are told to. The collective calls
 * with which settings are shared would then meet the program's own in processes that lack the
 * library. So each process leaves a key with the launcher, and looks for those of its neighbours in
 * a tree. Messages are sent between neighbours that both have one, and so are both still in
 * MPI_Init: a program cannot receive them. */
#include "core.h"

#include <stdio.h>

enum { TAG = 32741, CHILDREN = 2 };
static const char without[] = "the MPI library runs all calls";

static void pass_on(int all, int rank) {
    PMPI_Send(&all, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD);
}

static int answer_of(int rank) {
    int all = 0, error = PMPI_Recv(&all, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return error == MPI_SUCCESS && all;
}

/* Parts of the tree that are cut off from each other all know of it at the cut. */
static int agree(void) {
    int all = 1, parent = (ct_world_rank - 1) / CHILDREN, first = CHILDREN * ct_world_rank + 1;
    int has_parent = ct_world_rank && ct_announced(parent), has[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        has[i] = first + i < ct_world_size && ct_announced(first + i);
        if (first + i < ct_world_size && !(has[i] && answer_of(first + i))) all = 0;
    }
    if (has_parent) {
        pass_on(all, parent);
        all = answer_of(parent);
    } else if (ct_world_rank) all = 0;
    for (int i = 0; i < CHILDREN; i++)
        if (has[i]) pass_on(all, first + i);
    return all;
}

/* One process tells, the first that has the library. */
static void tell(void) {
    int n = 1;
    for (int rank = ct_world_rank; rank--;)
        if (ct_announced(rank)) return;
    for (int rank = ct_world_rank + 1; rank < ct_world_size; rank++) n += ct_announced(rank);
    fprintf(stderr, "colltune: only %d of %d processes have libcolltune (mpirun: -x LD_PRELOAD): %s\n",
            n, ct_world_size, without);
}

int ct_all_present(void) {
    if (ct_world_size == 1) return 1;
    if (!ct_announced(ct_world_rank)) {
        ct_log(0, "this launcher does not tell whether all processes have libcolltune: %s", without);
        return 0;
    }
    int all = agree();
    if (!all) tell();
    return all;
}
