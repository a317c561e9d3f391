/* Calls in which one process has another count, and right calls after them on the same communicator.
 * Each wrong call is the first one of a communicator, whose memory must grow for the large counts.
 *
 *   recovers ID...: tries each of our configurations. Prints which were tried, and how many right calls
 * followed. A wrong call must end on all processes, with MPI_ERR_TRUNCATE on one of them at least and
 * with no other error anywhere; all right calls must be right.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROCESSES = 16, RIGHT_CALLS = 3, LARGE = 20000 };
static int rank, size;
static long right_calls;
static char doing[300];
static MPI_Comm comm;

static void fail(const char *what) {
    printf("WRONG: %s, process %d: %s\n", what, rank, doing);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int *room(int n) {
    int *data = malloc(((size_t)n + 1) * sizeof *data);
    if (!data) MPI_Abort(MPI_COMM_WORLD, 3);
    return data;
}

/* ---- one call; 0 where it is right, else an error ---- */

static int broadcast(int n, int root, int salt, int checked) {
    int *data = room(n);
    for (int i = 0; i < n; i++) data[i] = rank == root ? i * 3 + salt : -1;
    int error = MPI_Bcast(data, n, MPI_INT, root, comm);
    for (int i = 0; checked && i < n; i++)
        if (data[i] != i * 3 + salt) fail("data of a bcast");
    free(data);
    return error;
}

static int gather(int n, int root, int salt, int checked) {
    int *mine = room(n), *all = room(n * size);
    (void)root;
    for (int i = 0; i < n; i++) mine[i] = rank * 1000 + i + salt;
    int error = MPI_Allgather(mine, n, MPI_INT, all, n, MPI_INT, comm);
    for (int i = 0; checked && i < n * size; i++)
        if (all[i] != i / n * 1000 + i % n + salt) fail("data of an allgather");
    free(mine), free(all);
    return error;
}

static int reduce(int n, int root, int salt, int checked) {
    int *mine = room(n), *sum = room(n);
    (void)root;
    for (int i = 0; i < n; i++) mine[i] = rank + i + salt;
    int error = MPI_Allreduce(mine, sum, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; checked && i < n; i++)
        if (sum[i] != size * (i + salt) + size * (size - 1) / 2) fail("data of an allreduce");
    free(mine), free(sum);
    return error;
}

/* The process that differs sends as much as the others, and expects n elements from each. */
static int exchange_of(int sends, int n, int salt, int checked) {
    int *out = room(sends * size), *in = room(n * size);
    int send_counts[MOST_PROCESSES], send_at[MOST_PROCESSES];
    int receive_counts[MOST_PROCESSES], receive_at[MOST_PROCESSES];
    for (int r = 0; r < size; r++) {
        send_counts[r] = sends, send_at[r] = r * sends;
        receive_counts[r] = r == rank ? sends < n ? sends : n : n, receive_at[r] = r * n;
        if (r == rank) send_counts[r] = receive_counts[r];
        for (int i = 0; i < sends; i++) out[r * sends + i] = rank * 1000 + r * 10 + i + salt;
    }
    int error = MPI_Alltoallv(out, send_counts, send_at, MPI_INT, in, receive_counts, receive_at, MPI_INT,
                              comm);
    for (int i = 0; checked && i < n * size; i++)
        if (in[i] != i / n * 1000 + rank * 10 + i % n + salt) fail("data of an alltoallv");
    free(out), free(in);
    return error;
}

typedef int call_t(int n, int root, int salt, int checked);

static int exchange(int n, int root, int salt, int checked) {
    (void)root;
    return exchange_of(n, n, salt, checked);
}

static call_t *call_of(const char *collective) {
    if (!strcmp(collective, "bcast")) return broadcast;
    if (!strcmp(collective, "allgather")) return gather;
    return strcmp(collective, "allreduce") ? exchange : reduce;
}

/* ---- a wrong call, and right ones ---- */

static void check_error(int error) {
    int class = MPI_SUCCESS, truncated, others, any[2] = {0, 0};
    if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
    truncated = class == MPI_ERR_TRUNCATE;
    others = class != MPI_SUCCESS && !truncated;
    PMPI_Allreduce((int[]){truncated, others}, any, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (others) fail("an error of another class");
    if (!any[0]) fail("nobody noticed");
}

static void be_wrong(call_t *call, int n, int other, int differs, int root) {
    int mine = rank == differs ? other : n;
    snprintf(doing + strlen(doing), 100, ", %d but %d on %d, root %d", n, other, differs, root);
    int error = call == exchange ? exchange_of(n, mine, 0, 0) : call(mine, root, 0, 0);
    check_error(error);
    for (int i = 0; i < RIGHT_CALLS; i++, right_calls++) {
        int length = i == 1 ? 7 : n, from = (root + i) % size;
        if (call(length, from, i + 1, 1) != MPI_SUCCESS) fail("an error of a right call");
    }
}

static void try_one(const char *collective, const char *id) {
    static const int counts[][2] = {{40, 30}, {40, 41}, {64, 128}, {5, LARGE}, {LARGE, 22}, {300, 310},
                                    {22, 5}, {2, 1}, {1, 3}, {LARGE, LARGE + 1}};
    call_t *call = call_of(collective);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (int differs = 0; differs < size; differs++) {
            /* who expects more than comes is no error of MPI_Alltoallv */
            if (call == exchange && counts[i][1] > counts[i][0]) continue;
            snprintf(doing, sizeof doing, "%s", id);
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            be_wrong(call, counts[i][0], counts[i][1], differs, (int)(i + 1) % size);
            MPI_Comm_free(&comm);
        }
    }
}

int main(int count, char **arguments) {
    int (*force)(const char *, const char *);
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    *(void **)&force = dlsym(RTLD_DEFAULT, "colltune_force");
    if (!force) fail("libcolltune is not loaded");
    for (int i = 1; i < count; i++) {
        char collective[20] = "";
        sscanf(arguments[i], "colltune.%19[a-z]", collective);
        if (force(collective, arguments[i])) fail(arguments[i]);
        try_one(collective, arguments[i]);
        force(collective, "");
    }
    if (!rank) printf("%ld right calls after wrong ones\n", right_calls);
    MPI_Finalize();
    return 0;
}
