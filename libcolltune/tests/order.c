/* In which order libcolltune's allreduces add, by the bits of sums whose terms cancel each other.
 *
 *   order PPN [library]    so many processes are on each node (COLLTUNE_NODES=by-rank:PPN)
 *
 * Prints "N sums held" if every sum has the bits of one that the program adds itself by the order that
 * allreduce.c tells: of ring on all processes, of doubling on the first 2, 3, ... processes of a node,
 * in the order of their ranks and the other way round. `library`: doubling has the bits of the MPI
 * library's own algorithm, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <float.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 20000, WIDEST = 16 };
typedef enum { FLOATS, DOUBLES, LONG_DOUBLES, WORDS, KINDS } kind_t;

static int (*force)(const char *, const char *);
static const char *(*last_choice)(const char *);
static int world_rank, world_size, held;
static MPI_Op mixed;
static MPI_Datatype types[KINDS];
static const size_t widths[KINDS] = {sizeof(float), sizeof(double), sizeof(long double), 4};

static void fail(const char *what, kind_t kind, int processes, int count) {
    fprintf(stderr, "WRONG: %s, kind %d of %d processes, %d elements, rank %d\n", what, (int)kind,
            processes, count, world_rank);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- terms ---- */

static uint64_t mixed_up(uint64_t z) { /* splitmix64 */
    z = (z + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* What process `rank` has: large terms, of which one cancels most of the one before, and small ones. */
static void put(kind_t kind, char *at, int rank, int i) {
    uint64_t drawn = mixed_up((uint64_t)i * 64 + (uint64_t)rank);
    uint64_t shared = mixed_up((uint64_t)i * 64 + 32 + (uint64_t)rank / 2);
    int bits = kind == FLOATS ? 20 : kind == DOUBLES ? 50 : 62;
    long double small = (long double)drawn / 0x1p64L - 0.5L, large = (long double)shared / 0x1p64L;
    long double x = small + (rank % 2 ? -1 : 1) * large * (long double)(UINT64_C(1) << bits);
    if (drawn % 5 == 0) x = small;
    if (kind == FLOATS) *(float *)(void *)at = (float)x;
    if (kind == DOUBLES) *(double *)(void *)at = (double)x;
    if (kind == LONG_DOUBLES) *(long double *)(void *)at = x;
    if (kind == WORDS) *(uint32_t *)(void *)at = (uint32_t)drawn;
}

/* Tells by its result which operand came first; MPI is told that it does not matter. */
static void mix(void *in, void *inout, int *n, MPI_Datatype *type) {
    const uint32_t *first = in;
    uint32_t *second = inout;
    (void)type;
    for (int i = 0; i < *n; i++) second[i] = first[i] * 3 + second[i] * 5 + 1;
}

/* second = first + second */
static void add(kind_t kind, const char *first, char *second) {
    const void *a = first;
    void *b = second;
    int one = 1;
    if (kind == FLOATS) *(float *)b = *(const float *)a + *(float *)b;
    if (kind == DOUBLES) *(double *)b = *(const double *)a + *(double *)b;
    if (kind == LONG_DOUBLES) *(long double *)b = *(const long double *)a + *(long double *)b;
    if (kind == WORDS) mix((void *)(uintptr_t)first, b, &one, NULL);
}

/* ---- orders, of one element of all processes ---- */

typedef char term_t[WIDEST];
typedef void order_t(kind_t kind, term_t *terms, int processes, int part, int ppn, char *sum);

/* Part q of the vector is gathered by node q. */
static void by_ring(kind_t kind, term_t *terms, int processes, int part, int ppn, char *sum) {
    int nodes = (processes + ppn - 1) / ppn;
    for (int step = 1; step <= nodes; step++) {
        int node = (part + step) % nodes, first = node * ppn;
        for (int r = first + 1; r < first + ppn && r < processes; r++)
            add(kind, terms[r], terms[first]);
        if (step > 1) add(kind, sum, terms[first]);
        memcpy(sum, terms[first], widths[kind]);
    }
}

static void by_doubling(kind_t kind, term_t *terms, int processes, int part, int ppn, char *sum) {
    int left = 1, extra, n = 0;
    term_t *news = malloc((size_t)processes * sizeof *news);
    (void)part, (void)ppn;
    while (left * 2 <= processes) left *= 2;
    extra = processes - left;
    for (int i = 0; i < extra; i++) {
        add(kind, terms[2 * i], terms[2 * i + 1]);
        memcpy(news[n++], terms[2 * i + 1], WIDEST);
    }
    for (int r = 2 * extra; r < processes; r++) memcpy(news[n++], terms[r], WIDEST);
    for (int mask = 1; mask < left; mask *= 2)
        for (int i = 0; i < left; i += 2 * mask) {
            add(kind, news[i], news[i + mask]);
            memcpy(news[i], news[i + mask], WIDEST);
        }
    memcpy(sum, news[0], widths[kind]);
    free(news);
}

static int end_of(int count, int part, int parts) {
    return count / parts * part + count % parts * part / parts;
}

static char *expected(kind_t kind, order_t *order, int processes, int ppn, int count) {
    char *sums = malloc((size_t)count * widths[kind] + WIDEST);
    term_t *terms = malloc((size_t)processes * sizeof *terms);
    int nodes = (processes + ppn - 1) / ppn, part = 0;
    for (int i = 0; i < count; i++) {
        while (i >= end_of(count, part + 1, nodes)) part++;
        for (int r = 0; r < processes; r++) put(kind, terms[r], r, i);
        order(kind, terms, processes, part, ppn, sums + (size_t)i * widths[kind]);
    }
    free(terms);
    return sums;
}

/* ---- one sum ---- */

static int are_alike(kind_t kind, const char *a, const char *b, int count) {
    size_t width = widths[kind], meant = kind == LONG_DOUBLES && LDBL_MANT_DIG == 64 ? 10 : width;
    for (size_t i = 0; i < (size_t)count; i++)
        if (memcmp(a + i * width, b + i * width, meant)) return 0;
    return 1;
}

static char *input(kind_t kind, int rank, int count) {
    char *numbers = malloc((size_t)count * widths[kind] + WIDEST);
    for (int i = 0; i < count; i++) put(kind, numbers + (size_t)i * widths[kind], rank, i);
    return numbers;
}

static void check(MPI_Comm comm, kind_t kind, order_t *order, int ppn, int count, int with_library) {
    int rank, processes, in_place = count % 2;
    size_t bytes = (size_t)count * widths[kind];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &processes);
    MPI_Op op = kind == WORDS ? mixed : MPI_SUM;
    char *send = input(kind, rank, count), *ours = input(kind, rank, count), *first = malloc(bytes + 1);
    char *wanted = expected(kind, order, processes, ppn ? ppn : processes, count);
    const void *from = in_place ? MPI_IN_PLACE : send;
    last_choice("allreduce");
    if (MPI_Allreduce(from, ours, count, types[kind], op, comm)) fail("error", kind, processes, count);
    if (!*last_choice("allreduce")) fail("ours did not run", kind, processes, count);
    memcpy(first, ours, bytes);
    PMPI_Bcast(first, (int)bytes, MPI_BYTE, 0, comm);
    if (!are_alike(kind, ours, first, count)) fail("not that of rank 0", kind, processes, count);
    if (!are_alike(kind, ours, wanted, count)) fail("in another order", kind, processes, count);
    if (with_library && kind != WORDS) {
        PMPI_Allreduce(send, first, count, types[kind], op, comm);
        if (!are_alike(kind, ours, first, count)) fail("not the library's", kind, processes, count);
    }
    held++;
    free(send), free(ours), free(first), free(wanted);
}

static void check_all(MPI_Comm comm, order_t *order, int ppn, int with_library) {
    const int counts[] = {1, 128, 1001, MOST};
    for (kind_t kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            if (order != by_ring || kind != WORDS) check(comm, kind, order, ppn, counts[i], with_library);
}

/* ---- communicators ---- */

/* On communicators of several nodes the MPI library runs. */
static void check_elsewhere(void) {
    int one = 1, sum = 0;
    last_choice("allreduce");
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != world_size) fail("a sum over nodes", WORDS, world_size, 1);
    if (*last_choice("allreduce")) fail("it ran over nodes", WORDS, world_size, 1);
}

static void check_doubling(int ppn, int with_library) {
    int node = ppn ? world_rank / ppn : 0, local = ppn ? world_rank % ppn : world_rank;
    int most = ppn ? ppn : world_size;
    for (int processes = 2; processes <= most; processes++)
        for (int backwards = 0; backwards < 2; backwards++) {
            int colour = local < processes ? node : MPI_UNDEFINED, n;
            MPI_Comm comm;
            MPI_Comm_split(MPI_COMM_WORLD, colour, backwards ? -world_rank : world_rank, &comm);
            if (comm == MPI_COMM_NULL) continue;
            MPI_Comm_size(comm, &n);
            if (n > 1) check_all(comm, by_doubling, 0, with_library);
            MPI_Comm_free(&comm);
        }
}

int main(int n, char **arguments) {
    MPI_Init(&n, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    types[FLOATS] = MPI_FLOAT, types[DOUBLES] = MPI_DOUBLE;
    types[LONG_DOUBLES] = MPI_LONG_DOUBLE, types[WORDS] = MPI_UINT32_T;
    MPI_Op_create(mix, 1, &mixed);
    *(void **)&force = dlsym(RTLD_DEFAULT, "colltune_force");
    *(void **)&last_choice = dlsym(RTLD_DEFAULT, "colltune_last_choice");
    if (!force || !last_choice) fail("libcolltune is not loaded", WORDS, world_size, 0);
    int ppn = atoi(arguments[1]);
    if (force("allreduce", "colltune.allreduce.ring")) fail("no ring", WORDS, world_size, 0);
    check_all(MPI_COMM_WORLD, by_ring, ppn, 0);
    if (force("allreduce", "colltune.allreduce.doubling")) fail("no doubling", WORDS, world_size, 0);
    if (ppn && ppn < world_size) check_elsewhere();
    check_doubling(ppn, n > 2 && !strcmp(arguments[2], "library"));
    PMPI_Allreduce(MPI_IN_PLACE, &held, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!world_rank) printf("%d sums held\n", held);
    MPI_Op_free(&mixed);
    MPI_Finalize();
    return 0;
}
