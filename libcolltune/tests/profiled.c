/* A program whose calls are known: what a profile of it must say.
 *
 * usage: profiled [mode]
 *   (none)   20 bcasts of 1000 bytes and 5 of 100000 on the world, 7 barriers, 30 allreduces of 8
 *            bytes on halves of the world, 4 alltoallvs of 24 bytes per peer in the mean, 3 bcasts
 *            of 0 bytes on a communicator that is freed at once
 *   many N   N bcasts of 8 bytes on the world
 *   threads  8 threads, each with 50 allreduces of 8 bytes on a duplicate of its own
 *   wide     8 collectives with 17 sizes on communicators of 2, 3 and 4 of its 4 processes
 *   freed N  N times a duplicate of the world: 1 barrier, then it is freed
 *   abort    5 barriers, then MPI_Abort
 *   time N   print the mean ns of N bcasts of 0 bytes on the world, best of 9 rounds */
#include <locale.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 9 };
static int rank, size;
static char buffer[100000];

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "profiled: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void bcasts(MPI_Comm comm, int n, int bytes) {
    for (int i = 0; i < n; i++) {
        memset(buffer, rank == 0 ? i : 0, (size_t)bytes);
        MPI_Bcast(buffer, bytes, MPI_BYTE, 0, comm);
        check(!bytes || buffer[bytes - 1] == (char)i, "wrong bcast");
    }
}

static void allreduces(MPI_Comm comm, int n) {
    int members;
    MPI_Comm_size(comm, &members);
    for (int i = 0; i < n; i++) {
        double one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        check((int)sum == members, "wrong allreduce");
    }
}

/* To every peer 2 rank doubles: 24 bytes in the mean over 4 processes. */
static void alltoallvs(int n) {
    int counts[64], displs[64], from[64], origin[64], sent = 0, got = 0;
    static double out[64 * 128], in[64 * 128];
    for (int r = 0; r < size; r++) {
        counts[r] = 2 * r;
        displs[r] = sent;
        from[r] = 2 * rank;
        origin[r] = got;
        sent += counts[r];
        got += from[r];
    }
    for (int i = 0; i < n; i++)
        MPI_Alltoallv(out, counts, displs, MPI_DOUBLE, in, from, origin, MPI_DOUBLE,
                      MPI_COMM_WORLD);
}

static void known(void) {
    MPI_Comm part;
    bcasts(MPI_COMM_WORLD, 20, 1000);
    bcasts(MPI_COMM_WORLD, 5, 100000);
    for (int i = 0; i < 7; i++) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &part);
    allreduces(part, 30);
    alltoallvs(4);
    MPI_Comm_free(&part);
    MPI_Comm_dup(MPI_COMM_WORLD, &part);
    bcasts(part, 3, 0);
    MPI_Comm_free(&part);
}

static void *thread(void *comm) {
    allreduces(*(MPI_Comm *)comm, 50);
    return NULL;
}

static void threads(void) {
    MPI_Comm comms[THREADS];
    pthread_t running[THREADS];
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++) pthread_create(&running[i], NULL, thread, &comms[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(running[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
}

static void freed(int n) {
    for (int i = 0; i < n; i++) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Barrier(copy);
        MPI_Comm_free(&copy);
    }
}

/* Two processes on one node or on two, three, and four: by bits of their ranks. */
static void wide(void) {
    static const int sets[] = {3, 5, 7, 15};
    static char from[1 << 18], to[1 << 18];
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        MPI_Comm part;
        MPI_Comm_split(MPI_COMM_WORLD, sets[i] >> rank & 1, 0, &part);
        for (int bytes = 1; bytes <= 1 << 16; bytes *= 2) {
            MPI_Bcast(from, bytes, MPI_BYTE, 0, part);
            MPI_Reduce(from, to, bytes, MPI_BYTE, MPI_BOR, 0, part);
            MPI_Allreduce(from, to, bytes, MPI_BYTE, MPI_BOR, part);
            MPI_Scan(from, to, bytes, MPI_BYTE, MPI_BOR, part);
            MPI_Gather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, part);
            MPI_Scatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, part);
            MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, part);
            MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, part);
        }
        MPI_Comm_free(&part);
    }
}

static void give_up(void) {
    for (int i = 0; i < 5; i++) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void time_calls(int n) {
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = MPI_Wtime();
        for (int i = 0; i < n; i++) MPI_Bcast(buffer, 0, MPI_BYTE, 0, MPI_COMM_WORLD);
        double mean = (MPI_Wtime() - start) / n;
        if (mean < best) best = mean;
    }
    if (rank == 0) printf("%.1f\n", best * 1e9);
}

int main(int argc, char **argv) {
    int provided;
    const char *mode = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    setlocale(LC_NUMERIC, getenv("PROFILED_LOCALE") ? getenv("PROFILED_LOCALE") : "C");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(size <= 64, "more than 64 processes");
    if (!strcmp(mode, "many")) bcasts(MPI_COMM_WORLD, n, 8);
    else if (!strcmp(mode, "threads") && provided == MPI_THREAD_MULTIPLE) threads();
    else if (!strcmp(mode, "freed")) freed(n);
    else if (!strcmp(mode, "wide")) wide();
    else if (!strcmp(mode, "abort")) give_up();
    else if (!strcmp(mode, "time")) time_calls(n);
    else known();
    MPI_Finalize();
    return 0;
}
