/* The exchange of a particle simulation with fixed thresholds and with the adaptive one in turn.
 *
 *   adaptive_alltoallv BLOCKS ITERATIONS FOLLOWED CONFIGURATION...
 *
 * Runs under libcolltune. In each of BLOCKS blocks every configuration has ITERATIONS exchanges, one
 * configuration after the other; all see the same sizes. Prints a line for each exchange: block,
 * number of the configuration, seconds of the slowest process. The configuration FOLLOWED (a number)
 * has a communicator of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BYTES = 256 << 10 };
typedef int force_t(const char *collective, const char *id);
static int rank, size;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned mixed(unsigned x) {
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

/* Particles that leave one part of a ring for another: many for its neighbours, few for those far
 * away, now and then none; as many as the step has it. */
static int bytes_of(int from, int to, int step) {
    int apart = abs(from - to) < size - abs(from - to) ? abs(from - to) : size - abs(from - to);
    unsigned dice = mixed((unsigned)(from * 7919 + to * 104729 + step));
    if (apart == 0) return 4096;
    int usual = MOST_BYTES >> (3 * (apart - 1) < 14 ? 3 * (apart - 1) : 14);
    return dice % 16 == 0 ? 0 : usual / 2 + (int)(dice % (unsigned)(usual / 2 + 1));
}

typedef struct {
    int *sends, *from, *receives, *to;
    char *out, *in;
} exchange_t;

static int *numbers(void) {
    int *n = calloc((size_t)size, sizeof *n);
    if (!n) MPI_Abort(MPI_COMM_WORLD, 3);
    return n;
}

static exchange_t new_exchange(void) {
    size_t room = (size_t)size * MOST_BYTES;
    exchange_t x = {numbers(), numbers(), numbers(), numbers(), malloc(room), malloc(room)};
    if (!x.out || !x.in) MPI_Abort(MPI_COMM_WORLD, 3);
    memset(x.out, rank, room);
    for (int r = 0; r < size; r++) x.from[r] = x.to[r] = r * MOST_BYTES;
    return x;
}

static double slowest(exchange_t *x, MPI_Comm comm, int step) {
    double seconds, all;
    for (int r = 0; r < size; r++) {
        x->sends[r] = bytes_of(rank, r, step);
        x->receives[r] = bytes_of(r, rank, step);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = -now();
    int code = MPI_Alltoallv(x->out, x->sends, x->from, MPI_BYTE, x->in, x->receives, x->to,
                             MPI_BYTE, comm);
    seconds += now();
    for (int r = 0; r < size; r++) {
        int last = x->receives[r] - 1;
        if (last >= 0 && x->in[x->to[r] + last] != (char)r) code = MPI_ERR_OTHER;
    }
    if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

int main(int count, char **arguments) {
    force_t *force;
    void *found = dlsym(RTLD_DEFAULT, "colltune_force");
    memcpy(&force, &found, sizeof force);
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!force || count < 5) MPI_Abort(MPI_COMM_WORLD, 2);
    int blocks = atoi(arguments[1]), iterations = atoi(arguments[2]), own = atoi(arguments[3]);
    exchange_t x = new_exchange();
    MPI_Comm followed, others;
    MPI_Comm_dup(MPI_COMM_WORLD, &followed);
    MPI_Comm_dup(MPI_COMM_WORLD, &others);
    for (int block = 0; block < blocks; block++) {
        for (int c = 0; c < count - 4; c++) {
            if (force("alltoallv", arguments[4 + c])) MPI_Abort(MPI_COMM_WORLD, 2);
            for (int i = 0; i < iterations; i++) {
                double seconds = slowest(&x, c == own ? followed : others, block * iterations + i);
                if (rank == 0) printf("%d %d %.9f\n", block, c, seconds);
            }
        }
    }
    MPI_Comm_free(&followed);
    MPI_Comm_free(&others);
    MPI_Finalize();
    return 0;
}
