/* What goes wrong in programs, and what they do at the edges: the same with and without libcolltune.
 *
 *   faults abort|absent|anybody|errors|threads|freed|many|few|never
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 20, MANY = 3000, STATUS = 7 };
static int rank, size;

static void wrong(const char *what) {
    printf("WRONG: %s, process %d\n", what, rank);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- MPI_Abort within an operation ---- */

static void aborting(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)in, (void)inout, (void)n, (void)type;
    MPI_Abort(MPI_COMM_WORLD, STATUS);
}

static void abort_within(void) {
    static int sent[MANY], got[MANY];
    MPI_Op op;
    MPI_Op_create(aborting, 1, &op);
    MPI_Allreduce(sent, got, MANY, MPI_INT, op, MPI_COMM_WORLD);
}

/* ---- a process that never comes ---- */

static void stay_away(void) {
    static int data[MANY];
    if (rank == size - 1) sleep(60);
    MPI_Bcast(data, MANY, MPI_INT, size - 1, MPI_COMM_WORLD);
    printf("came through\n");
}

/* ---- whatever comes first ---- */

static void hear_anybody(void) {
    enum { TOLD = 7 };
    MPI_Status status;
    int told = rank;
    if (rank) MPI_Send(&told, 1, MPI_INT, 0, TOLD, MPI_COMM_WORLD);
    for (int i = 1; !rank && i < size; i++) {
        MPI_Recv(&told, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG != TOLD || told != status.MPI_SOURCE) wrong("a message");
    }
    MPI_Bcast(&told, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!rank) printf("heard all\n");
}

/* ---- a receiver that expects less ---- */

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static const char *name_of(int class) {
    return class == MPI_SUCCESS ? "success" : class == MPI_ERR_TRUNCATE ? "truncated" : "other";
}

static void expect_less(void) {
    static char out[64], in[64];
    int sends[64] = {0}, receives[64] = {0}, at[64] = {0};
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rank == 0) sends[1] = 32;
    if (rank == 1) receives[0] = 8;
    int code = MPI_Alltoallv(out, sends, at, MPI_BYTE, in, receives, at, MPI_BYTE, comm);
    if (rank == 1) printf("alltoallv: %s\n", name_of(class_of(code)));
    MPI_Comm_free(&comm);
}

/* ---- arguments that MPI refuses: the user's handler sees it once ---- */

static int handled;

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    handled++;
    printf("handled: %s\n", class_of(*code) == MPI_ERR_COUNT ? "count" : "other");
}

static void be_refused(void) {
    int data = 0, counts[64], at[64] = {0};
    MPI_Errhandler ours;
    MPI_Comm comm;
    for (int i = 0; i < 64; i++) counts[i] = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &ours);
    MPI_Comm_set_errhandler(comm, ours);
    MPI_Bcast(&data, -1, MPI_INT, 0, comm);
    MPI_Allreduce(MPI_IN_PLACE, &data, -1, MPI_INT, MPI_SUM, comm);
    MPI_Allgather(&data, -1, MPI_INT, at, -1, MPI_INT, comm);
    MPI_Alltoallv(at, counts, at, MPI_INT, at, counts, at, MPI_INT, comm);
    printf("%d handled\n", handled);
    MPI_Errhandler_free(&ours);
    MPI_Comm_free(&comm);
}

/* ---- eight threads on eight communicators, made and freed meanwhile ---- */

static MPI_Comm comms[THREADS];

static void one_round(MPI_Comm comm, int n, int thread, int round) {
    int *data = malloc((size_t)(size * n + 1) * sizeof *data), *got = malloc((size_t)(size * n + 1) * sizeof *got);
    int counts[64], at[64], root = (thread + round) % size;
    for (int i = 0; i < n; i++) data[i] = rank == root ? i + thread : -1;
    MPI_Bcast(data, n, MPI_INT, root, comm);
    for (int i = 0; i < n; i++)
        if (data[i] != i + thread) wrong("bcast");
    for (int i = 0; i < n; i++) data[i] = rank + i;
    MPI_Allreduce(data, got, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        if (got[i] != size * (size - 1) / 2 + size * i) wrong("allreduce");
    MPI_Allgather(data, n, MPI_INT, got, n, MPI_INT, comm);
    for (int i = 0; i < size * n; i++)
        if (got[i] != i / n + i % n) wrong("allgather");
    for (int r = 0; r < size; r++) {
        counts[r] = n, at[r] = r * n;
        for (int i = 0; i < n; i++) data[r * n + i] = rank * 1000 + r;
    }
    MPI_Alltoallv(data, counts, at, MPI_INT, got, counts, at, MPI_INT, comm);
    for (int i = 0; i < size * n; i++)
        if (got[i] != i / n * 1000 + rank) wrong("alltoallv");
    free(data), free(got);
}

static void *work(void *argument) {
    int thread = (int)((MPI_Comm *)argument - comms);
    for (int round = 0; round < ROUNDS; round++) {
        one_round(comms[thread], round % 3 ? 40 : MANY, thread, round);
        if (round % 5 != 4) continue;
        MPI_Comm next; /* the old one goes while other threads use theirs */
        MPI_Comm_dup(comms[thread], &next);
        MPI_Comm_free(&comms[thread]);
        comms[thread] = next;
    }
    return NULL;
}

static void use_threads(void) {
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, &comms[t]);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) MPI_Comm_free(&comms[t]);
    if (rank == 0) printf("threads held\n");
}

/* ---- communicators that come and go ---- */

static void come_and_go(void) {
    MPI_Comm kept;
    MPI_Comm_dup(MPI_COMM_WORLD, &kept);
    for (int i = 0; i < 200; i++) {
        MPI_Comm other;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &other);
        int sum = 1;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, other);
        MPI_Bcast(&sum, 1, MPI_INT, 0, other);
        if (sum != (size + 1 - rank % 2) / 2) wrong("a part");
        if (i % 2) MPI_Comm_free(&other);
        one_round(kept, 3, 0, i);
        if (i % 2 == 0) MPI_Comm_free(&other);
    }
    MPI_Comm_free(&kept);
    if (rank == 0) printf("communicators held\n");
}

/* ---- more communicators than MPICH has for two libraries ---- */

static void keep_many(void) {
    static MPI_Comm kept[1500];
    enum { KEPT = sizeof kept / sizeof *kept };
    for (int i = 0; i < KEPT; i++) {
        int data = rank ? -1 : i;
        MPI_Comm_dup(MPI_COMM_WORLD, &kept[i]);
        MPI_Bcast(&data, 1, MPI_INT, 0, kept[i]);
        if (data != i) wrong("bcast");
    }
    for (int i = 0; i < KEPT; i++) MPI_Comm_free(&kept[i]);
    if (rank == 0) printf("many held\n");
}

/* ---- the first calls of a communicator of fewer processes ---- */

static void tell_first(void) {
    const char *(*last)(const char *) = NULL;
    MPI_Comm half;
    int data = 1;
    *(void **)&last = dlsym(RTLD_DEFAULT, "colltune_last_choice");
    MPI_Comm_split(MPI_COMM_WORLD, rank > 1, rank, &half);
    for (int i = 0; i < 5; i++) {
        MPI_Bcast(&data, 1, MPI_INT, 0, half);
        if (rank == 0) printf("%s ", *last("bcast") ? "ours" : "theirs");
    }
    MPI_Comm_free(&half);
}

int main(int count, char **arguments) {
    int provided;
    if (count < 2) return 2;
    if (!strcmp(arguments[1], "never")) { /* MPI_Init is never called */
        printf("no MPI\n");
        return 0;
    }
    int level = strcmp(arguments[1], "many") || count > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&count, &arguments, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(arguments[1], "abort")) abort_within();
    if (!strcmp(arguments[1], "absent")) stay_away();
    if (!strcmp(arguments[1], "anybody")) hear_anybody();
    if (!strcmp(arguments[1], "errors")) {
        expect_less();
        be_refused();
    }
    if (!strcmp(arguments[1], "freed")) come_and_go();
    if (!strcmp(arguments[1], "many")) keep_many();
    if (!strcmp(arguments[1], "few")) tell_first();
    if (!strcmp(arguments[1], "threads") && provided < MPI_THREAD_MULTIPLE) printf("no threads\n");
    else if (!strcmp(arguments[1], "threads")) use_threads();
    MPI_Finalize();
    return 0;
}
