/* simbench: the times of MPI collectives in SimGrid's simulated world (SMPI).
 *
 * usage: simbench RAW COLLECTIVE CHECKED_BYTES CELL:MSIZE...
 *
 * RAW is written as collbench writes it (collbench.c): for each cell, in order, `s CELL`, then
 * `r CELL 1 SECONDS` or `x CELL STATUS TEXT`, then `e CELL`; at last `end plan TIMED WALL`.
 *
 * All processes have one clock, and nothing happens but what is simulated: a call is begun by all at
 * the same instant, its time is that until the last process has left it, and repeating it would give
 * the same. Before that its result is checked, with buffers of its own for each process, where all of
 * them together take no more than CHECKED_BYTES; larger ones are timed with buffers that all
 * processes share, and only if no smaller size was wrong. */
#include "collectives.h"

#include <smpi/smpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 77 };
#define AHEAD_SECONDS 2.0
#define FLOPS_PER_BYTE 1.0

/* Processes may be threads of one: what is theirs alone is on their stacks. */
typedef struct { int rank, size; } world_t;

static FILE *raw; /* of rank 0 */

static void die(const char *why) {
    fprintf(stderr, "simbench: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void *allocated(size_t bytes, int shared) {
    void *buffer = shared ? SMPI_SHARED_MALLOC(bytes + 64) : malloc(bytes + 64);
    if (!buffer) die("out of memory");
    return buffer;
}

static void released(void *buffer, int shared) {
    if (shared)
        SMPI_SHARED_FREE(buffer);
    else
        free(buffer);
}

/* Arithmetic costs simulated time, but touches no data: those of other processes may be the same. */
static void costs(void *in, void *inout, int *count, MPI_Datatype *type) {
    int bytes;
    (void)in;
    (void)inout;
    PMPI_Type_size(*type, &bytes);
    smpi_execute_flops((double)*count * bytes * FLOPS_PER_BYTE);
}

/* The largest value of all processes, known to all. Collectives are under test: messages. */
static double maximum(world_t w, double value) {
    double other;
    if (w.rank) {
        PMPI_Send(&value, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
        PMPI_Recv(&value, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return value;
    }
    for (int r = 1; r < w.size; r++) {
        PMPI_Recv(&other, 1, MPI_DOUBLE, r, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        value = other > value ? other : value;
    }
    for (int r = 1; r < w.size; r++) PMPI_Send(&value, 1, MPI_DOUBLE, r, TAG, MPI_COMM_WORLD);
    return value;
}

static void sleep_until(double start) {
    double left = start - MPI_Wtime();
    if (left < 0) die("the processes could not begin at the same time");
    struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    smpi_nanosleep(&t, NULL);
}

static void note(world_t w, const char *format, ...) {
    va_list arguments;
    if (w.rank) return;
    va_start(arguments, format);
    vfprintf(raw, format, arguments);
    va_end(arguments);
    if (fflush(raw)) die("cannot write the raw output");
}

/* ---- one cell ---- */

typedef struct {
    world_t world;
    const collective_t *collective;
    double checked_bytes;
    int wrong; /* some size was */
    call_t call;
} bench_t;

static size_t length(const bench_t *b, int blocks) {
    return b->call.msize * (size_t)(blocks < 0 ? b->world.size : blocks);
}

static void set_up(bench_t *b, int shared) {
    b->call.send = allocated(length(b, b->collective->send_blocks), shared);
    b->call.recv = allocated(length(b, b->collective->recv_blocks), shared);
    prepare_call(&b->call, b->collective);
}

static void clean_up(bench_t *b, int shared) {
    released(b->call.send, shared);
    released(b->call.recv, shared);
}

/* Does it fail (2), is its result wrong (1), or right (0)? The same on all processes. */
static int verdict(bench_t *b) {
    set_up(b, 0);
    prepare_check(&b->call, b->collective);
    int failed = b->collective->run(&b->call) != MPI_SUCCESS;
    int found = (int)maximum(b->world, failed ? 2 : b->collective->wrong(&b->call));
    clean_up(b, 0);
    return found;
}

static double timed(bench_t *b) {
    MPI_Op op;
    set_up(b, 1);
    PMPI_Op_create(costs, 1, &op);
    b->call.op = op;
    /* a whole second, which all clocks show exactly, and which comes after all know it */
    sleep_until(maximum(b->world, (double)(long)MPI_Wtime() + AHEAD_SECONDS));
    double start = MPI_Wtime();
    int failed = b->collective->run(&b->call) != MPI_SUCCESS;
    double seconds = maximum(b->world, MPI_Wtime() - start);
    if (failed) die("a call failed");
    PMPI_Op_free(&op);
    clean_up(b, 1);
    return seconds;
}

/* Write what a cell brings; its seconds, 0 if it was wrong or has to be taken for it. */
static double measure(bench_t *b, int cell) {
    const collective_t *collective = b->collective;
    double bytes = (double)length(b, collective->send_blocks) +
                   (double)length(b, collective->recv_blocks);
    int bad = b->wrong;
    double seconds = 0;
    note(b->world, "s %d\n", cell);
    if (bytes * b->world.size <= b->checked_bytes) bad = verdict(b);
    b->wrong |= bad;
    if (bad == 2)
        note(b->world, "x %d not_applicable the library returned an error\n", cell);
    else if (bad)
        note(b->world, "x %d wrong_result a result was wrong\n", cell);
    else
        note(b->world, "r %d 1 %.12g\n", cell, seconds = timed(b));
    note(b->world, "e %d\n", cell);
    return seconds;
}

static double measure_all(bench_t *b, char **cells) {
    double sum = 0;
    for (; *cells; cells++) {
        int cell;
        if (sscanf(*cells, "%d:%zu", &cell, &b->call.msize) != 2) die("a cell is not CELL:MSIZE");
        sum += measure(b, cell);
    }
    return sum;
}

int main(int argc, char **argv) {
    bench_t b = {0};
    world_t *w = &b.world;
    MPI_Init(&argc, &argv);
    PMPI_Comm_rank(MPI_COMM_WORLD, &w->rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &w->size);
    b.collective = argc > 3 ? find_collective(argv[2]) : NULL;
    if (!b.collective) die("usage: simbench RAW COLLECTIVE CHECKED_BYTES CELL:MSIZE...");
    b.checked_bytes = atof(argv[3]);
    b.call = (call_t){.comm = MPI_COMM_WORLD, .rank = w->rank, .size = w->size};
    b.call.counts = allocated((size_t)w->size * sizeof(int), 0);
    b.call.displs = allocated((size_t)w->size * sizeof(int), 0);
    if (!w->rank && !(raw = fopen(argv[1], "w"))) die("cannot write the raw output");
    note(*w, "colltune-raw 2\n");
    double sum = measure_all(&b, argv + 4);
    note(*w, "end plan %.9g %.9g\n", sum, MPI_Wtime());
    if (!w->rank && fclose(raw)) die("cannot write the raw output");
    released(b.call.counts, 0);
    released(b.call.displs, 0);
    MPI_Finalize();
    return 0;
}
