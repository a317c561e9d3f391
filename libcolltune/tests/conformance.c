/* A program that checks collectives by itself, with each configuration forced in turn.
 *
 *   conformance [all|ours] CONFIGURATION|- ...
 *
 * `-` forces nothing; `ours` checks only the collective of the configuration. Prints the number of
 * checks that held; the first one that does not ends it with status 1. */
#define _GNU_SOURCE
#include "conformance.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 3, LARGE = 3001 };
typedef int force_t(const char *collective, const char *id);

static int checks_of(const char *collective, const char *wanted) {
    return !wanted || !strcmp(collective, wanted);
}

static void check_moves(MPI_Comm comm, const char *wanted, const named_type_t *t, int count) {
    if (checks_of("bcast", wanted)) check_bcast(comm, t, count);
    if (checks_of("allgather", wanted)) check_allgather(comm, t, count);
    if (checks_of("alltoallv", wanted)) check_alltoallv(comm, t, count);
    if (wanted) return;
    check_alltoall(comm, t, count);
    check_gather_scatter(comm, t, count);
    MPI_Barrier(comm);
}

/* `thorough`: all types; else those that are derived and a few of the others. */
static void check_all(MPI_Comm comm, const char *name, const char *wanted, int thorough) {
    static const int counts[] = {0, 1, 5};
    communicator = name;
    for (int n = thorough ? 0 : 1; n < 3; n++) {
        for (int i = 0; i < n_types; i++)
            if (thorough || i < FEW || types[i].is_derived)
                check_moves(comm, wanted, &types[i], counts[n]);
        if (checks_of("allreduce", wanted)) check_reductions(comm, counts[n], thorough && n == 2);
    }
    if (!thorough) return;
    for (int i = 0; i < n_types; i++)
        if (i < FEW || types[i].is_derived) check_moves(comm, wanted, &types[i], LARGE);
    if (checks_of("allreduce", wanted)) check_reductions(comm, LARGE, 0);
}

static void check_part(int colour, int key, const char *name, const char *wanted) {
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, colour, key, &part);
    check_all(part, name, wanted, 0);
    MPI_Comm_free(&part);
}

static void check_others(const char *wanted) {
    int rank, size, periodic[2] = {0, 1}, dimensions[2] = {0, 0};
    MPI_Comm other;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_part(rank % 2, rank, "odd and even", wanted);
    check_part(0, -rank, "reversed", wanted);
    check_part(rank == 0, rank, "all but one", wanted);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    check_all(other, "duplicate", wanted, 0);
    MPI_Comm_free(&other);
    MPI_Dims_create(size, 2, dimensions);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, periodic, 1, &other);
    check_all(other, "cartesian", wanted, 0);
    MPI_Comm_free(&other);
}

/* Between two halves MPI's functions mean something else; ours stays out. */
static void check_between_halves(void) {
    int rank, size, sum = 0;
    MPI_Comm half, between;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) return;
    int upper = rank >= size / 2, sent = rank + 1, root = MPI_PROC_NULL;
    communicator = "between halves";
    MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : size / 2, 5, &between);
    MPI_Allreduce(&sent, &sum, 1, MPI_INT, MPI_SUM, between);
    int low = size / 2, lower_sum = low * (low + 1) / 2, all = size * (size + 1) / 2;
    expect(sum == (upper ? lower_sum : all - lower_sum), "allreduce", "MPI_INT", 1);
    if (!upper && rank == 0) root = MPI_ROOT;
    if (upper) root = 0;
    int told = rank == 0 ? 42 : -1;
    MPI_Bcast(&told, 1, MPI_INT, root, between);
    expect(told == (upper || rank == 0 ? 42 : -1), "bcast", "MPI_INT", 1);
    int others = upper ? low : size - low, *seen = calloc((size_t)others, sizeof *seen);
    int *ones = calloc((size_t)others, sizeof *ones), *at = calloc((size_t)others, sizeof *at);
    int *mine = calloc((size_t)others, sizeof *mine);
    for (int i = 0; i < others; i++) ones[i] = 1, at[i] = i, mine[i] = rank;
    MPI_Allgather(&rank, 1, MPI_INT, seen, 1, MPI_INT, between);
    for (int i = 0; i < others; i++)
        expect(seen[i] == (upper ? i : low + i), "allgather", "MPI_INT", 1);
    MPI_Alltoallv(mine, ones, at, MPI_INT, seen, ones, at, MPI_INT, between);
    for (int i = 0; i < others; i++)
        expect(seen[i] == (upper ? i : low + i), "alltoallv", "MPI_INT", 1);
    free(seen), free(ones), free(at), free(mine);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

/* The second word of `id`, LIBRARY.COLLECTIVE.ALGORITHM; NULL for all collectives. */
static char *collective_of(const char *id) {
    const char *dot = strchr(id, '.');
    char *name = dot ? strdup(dot + 1) : NULL;
    if (name) name[strcspn(name, ".")] = '\0';
    return name;
}

static void check_forced(force_t *force, const char *id, int ours_only) {
    char *wanted = ours_only ? collective_of(id) : NULL;
    forced = id;
    ours_only = wanted != NULL;
    if (strcmp(id, "-") && (!force || force(NULL, id))) {
        printf("cannot force %s\n", id);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    check_all(MPI_COMM_WORLD, "MPI_COMM_WORLD", wanted, 1);
    check_others(wanted);
    check_between_halves();
    if (force) force(NULL, NULL);
    free(wanted);
}

int main(int count, char **arguments) {
    int rank, provided;
    long all;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    make_types();
    void *found = dlsym(RTLD_DEFAULT, "colltune_force");
    force_t *force;
    memcpy(&force, &found, sizeof force);
    for (int i = 2; i < count; i++)
        check_forced(force, arguments[i], !strcmp(arguments[1], "ours"));
    MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld checks held\n", all);
    free_types();
    MPI_Finalize();
    return 0;
}
