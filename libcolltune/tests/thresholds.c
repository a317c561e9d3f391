/* The threshold of alltoallv as programs see and change it; ITERATIONS of the adaptive one.
 *
 *   thresholds ITERATIONS
 *
 * Prints `thresholds held`, or which expectation did not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, ROOM = 4096 };
static int rank, size;
static int (*force)(const char *, const char *);
static int (*get)(MPI_Comm, long *), (*set)(MPI_Comm, long), (*keyval)(void);

static void expect(int holds, const char *what) {
    if (holds) return;
    printf("WRONG: %s, process %d\n", what, rank);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void look_up(const char *name, void *function) {
    void *found = dlsym(RTLD_DEFAULT, name);
    expect(found != NULL, name);
    memcpy(function, &found, sizeof found);
}

static void exchange(MPI_Comm comm) {
    static char out[MOST * ROOM], in[MOST * ROOM];
    int sends[MOST], receives[MOST], at[MOST];
    for (int r = 0; r < size; r++) {
        sends[r] = 1 + (rank * 37 + r * 911) % ROOM;
        receives[r] = 1 + (r * 37 + rank * 911) % ROOM;
        at[r] = r * ROOM;
        memset(out + at[r], rank * size + r, ROOM);
    }
    MPI_Alltoallv(out, sends, at, MPI_BYTE, in, receives, at, MPI_BYTE, comm);
    for (int r = 0; r < size; r++)
        expect(in[at[r] + receives[r] - 1] == (char)(r * size + rank), "the data");
}

static long in_force(MPI_Comm comm) {
    long bytes = -1;
    expect(get(comm, &bytes) == MPI_SUCCESS, "a threshold is in force");
    return bytes;
}

static void check_fixed(MPI_Comm comm) {
    long *exported = NULL, bytes;
    int found = 0, class = MPI_SUCCESS;
    MPI_Error_class(get(comm, &bytes), &class);
    expect(class == MPI_ERR_COMM, "none before the first call");
    MPI_Error_class(set(comm, -1), &class);
    expect(class == MPI_ERR_ARG, "it cannot be negative");
    force(NULL, "colltune.alltoallv.eager_pairwise:threshold=100");
    exchange(comm);
    expect(in_force(comm) == 100, "the configuration's threshold");
    MPI_Comm_get_attr(comm, keyval(), &exported, &found);
    expect(found && *exported == 100, "the attribute");
    *exported = 7;
    exchange(comm);
    expect(in_force(comm) == 7, "a threshold written to the attribute stays");
    expect(set(comm, 9) == MPI_SUCCESS && in_force(comm) == 9, "a threshold that was set");
    exchange(comm);
    expect(in_force(comm) == 9 && *exported == 9, "a threshold that was set stays");
    force(NULL, "colltune.alltoallv.eager_pairwise:threshold=200");
    exchange(comm);
    expect(in_force(comm) == 200, "another configuration's threshold");
}

static void check_adaptive(MPI_Comm comm, int iterations) {
    force(NULL, "colltune.alltoallv.adaptive:every=3,start=0,tests=2");
    for (int i = 0; i < iterations; i++) {
        long mine, all[MOST];
        exchange(comm);
        mine = in_force(comm);
        MPI_Allgather(&mine, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++) expect(all[r] == mine, "all processes agree");
    }
    set(comm, 512); /* at the next decision it is the best of all processes */
    for (int i = 0; i < 40; i++) exchange(comm);
}

int main(int count, char **arguments) {
    MPI_Comm first, second;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    look_up("colltune_force", &force);
    look_up("colltune_alltoallv_threshold_get", &get);
    look_up("colltune_alltoallv_threshold_set", &set);
    look_up("colltune_alltoallv_threshold_keyval", &keyval);
    expect(count == 2 && size <= MOST, "the arguments");
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    check_fixed(first);
    check_adaptive(second, atoi(arguments[1]));
    check_adaptive(first, 4); /* a trace outlives its communicator */
    MPI_Comm_free(&first);
    if (rank == 0) printf("thresholds held\n");
    MPI_Finalize();
    return 0;
}
