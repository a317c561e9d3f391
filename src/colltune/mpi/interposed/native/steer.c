/* Runs the MPI library's own algorithms, chosen by control variables (MPI_T).
 *
 * Open MPI reads them when a communicator is created: the call is run on a shadow, a communicator
 * of ours of the same processes for each configuration, made while the variables are written.
 * The MPICH family reads them at every call: they are written before and taken back after it.
 *
 * They are one per process, not per thread. A lock around the time in which they are written would
 * be held while waiting for other processes, whose threads may take theirs in another order; and
 * without it a communicator or a call of another thread would see them on some processes and not on
 * others. So nothing is steered under MPI_THREAD_MULTIPLE; nor, beside Open MPI, once a program has
 * called MPI_Comm_idup, whose communicator may come to be at any later time. */
#include "variables.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef OPEN_MPI
enum { READ_AT_CREATION = 1 };
#else
enum { READ_AT_CREATION = 0 };
#endif
enum { MOST_SHADOWS = 16, WHY_LENGTH = 256 };

/* The variables of a configuration, the same for all communicators. */
typedef struct opened {
    struct opened *next;
    const ct_configuration_t *configuration;
    ct_variables_t *variables; /* NULL: they cannot be had */
} opened_t;

/* How a configuration is run on one communicator. */
typedef struct {
    const ct_configuration_t *configuration;
    ct_variables_t *variables;
    MPI_Comm shadow; /* where the library reads them at creation */
    int usable;      /* the same on all processes */
    unsigned long used;
} way_t;

/* Calls come in the same order on all processes, and so does what is forgotten. */
typedef struct {
    int n;
    unsigned long uses;
    way_t ways[MOST_SHADOWS];
} ways_t;

static opened_t *all;
static int has_mpi_t;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these two */
static _Atomic int duplicating; /* MPI_Comm_idup was called */
static const char key;

/* ---- the variables ---- */

static opened_t *open_new(const ct_configuration_t *configuration) {
    char why[WHY_LENGTH] = "MPI_T does not start";
    int provided;
    opened_t *opened = calloc(1, sizeof *opened);
    if (!opened) return NULL;
    if (!has_mpi_t) has_mpi_t = MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS;
    opened->configuration = configuration;
    if (has_mpi_t) opened->variables = ct_variables_of(configuration, why, sizeof why);
    if (!opened->variables)
        ct_log(0, "%s: %s; the MPI library decides", configuration->id, why);
    opened->next = all;
    return all = opened;
}

static ct_variables_t *variables_of(const ct_configuration_t *configuration) {
    pthread_mutex_lock(&lock);
    opened_t *opened = all;
    while (opened && opened->configuration != configuration) opened = opened->next;
    if (!opened) opened = open_new(configuration);
    pthread_mutex_unlock(&lock);
    return opened ? opened->variables : NULL;
}

/* Why this process steers nothing; NULL: it may. */
static const char *forbidden(void) {
    int level;
    if (PMPI_Query_thread(&level) != MPI_SUCCESS || level == MPI_THREAD_MULTIPLE)
        return "the program uses MPI_THREAD_MULTIPLE";
    if (READ_AT_CREATION && atomic_load(&duplicating)) return "the program uses MPI_Comm_idup";
    return NULL;
}

/* ---- ways ---- */

static void forget(way_t *way) {
    if (way->shadow != MPI_COMM_NULL) ct_give_back(&way->shadow);
}

static void release(void *data) {
    ways_t *ways = data;
    while (ways->n) forget(&ways->ways[--ways->n]);
    free(ways);
}

static way_t *find(ct_comm_t *c, const ct_configuration_t *configuration) {
    ways_t *ways = ct_find(c, &key, 0);
    for (int i = 0; ways && i < ways->n; i++) {
        if (ways->ways[i].configuration != configuration) continue;
        ways->ways[i].used = ++ways->uses;
        return &ways->ways[i];
    }
    return NULL;
}

/* Room for one more: the one that was not used for longest makes it. */
static way_t *next_way(ways_t *ways) {
    way_t *oldest = ways->ways;
    if (ways->n < MOST_SHADOWS) return &ways->ways[ways->n++];
    for (int i = 1; i < ways->n; i++)
        if (ways->ways[i].used < oldest->used) oldest = &ways->ways[i];
    forget(oldest);
    return oldest;
}

static int agreed(ct_comm_t *c, int *answers, int n) {
    return PMPI_Allreduce(MPI_IN_PLACE, answers, n, MPI_INT, MPI_MIN, c->base) == MPI_SUCCESS;
}

/* Write the variables; 1 if this process can, with what may be wrong told. */
static int can_write(const ct_configuration_t *configuration, ct_variables_t **variables) {
    static _Atomic int told;
    char why[WHY_LENGTH];
    const char *no = forbidden();
    if (no) {
        if (!atomic_exchange(&told, 1))
            ct_log(0, "%s and others are not steered, since %s; the MPI library decides",
                   configuration->id, no);
        return 0;
    }
    *variables = variables_of(configuration);
    if (!*variables) return 0;
    if (!ct_variables_write(*variables, why, sizeof why)) return 1;
    ct_log(0, "%s: %s; the MPI library decides", configuration->id, why);
    return 0;
}

/* The variables are written. All processes do the same, and come to the same. */
static void make_way(ct_comm_t *c, way_t *way) {
    way->usable = 1;
    if (READ_AT_CREATION) way->usable = ct_split(c, 0, c->rank, &way->shadow) == MPI_SUCCESS;
    ct_variables_restore(way->variables);
    if (READ_AT_CREATION && !agreed(c, &way->usable, 1)) way->usable = 0;
    if (!way->usable)
        ct_log(0, "%s: no communicator can be made for it; the MPI library decides",
               way->configuration->id);
}

static int prepare(ct_comm_t *c, const ct_configuration_t *configuration) {
    ways_t *ways = ct_find(c, &key, 0);
    way_t way = {.configuration = configuration, .shadow = MPI_COMM_NULL};
    if (ct_base(c) != MPI_SUCCESS) return 0;
    if (!ways && (ways = calloc(1, sizeof *ways)) && ct_keep(c, &key, 0, ways, release)) {
        free(ways);
        ways = NULL;
    }
    int written = can_write(configuration, &way.variables), answers[2] = {ways != NULL, written};
    int together = agreed(c, answers, 2);
    if (together && answers[0] && answers[1]) make_way(c, &way);
    else if (written) ct_variables_restore(way.variables);
    if (!together || !answers[0]) {
        ct_drop(c, &key, 0);
        return 0;
    }
    way.used = ++ways->uses;
    *next_way(ways) = way;
    return way.usable;
}

int ct_steerable(ct_comm_t *c, const ct_configuration_t *configuration) {
    const way_t *way = find(c, configuration);
    return way ? way->usable : prepare(c, configuration);
}

int ct_run_steered(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *configuration) {
    char why[WHY_LENGTH];
    const way_t *way = find(c, configuration);
    if (!way || !way->usable) return ct_pass(call, call->comm);
    if (READ_AT_CREATION) return ct_pass(call, way->shadow);
    if (ct_variables_write(way->variables, why, sizeof why)) ct_log(1, "%s", why);
    int error = ct_pass(call, c->base);
    ct_variables_restore(way->variables);
    return error;
}

void ct_steer_end(void) {
    pthread_mutex_lock(&lock);
    while (all) {
        opened_t *opened = all;
        all = opened->next;
        if (opened->variables) ct_variables_free(opened->variables);
        free(opened);
    }
    if (has_mpi_t) MPI_T_finalize();
    has_mpi_t = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- communicators that come to be later ---- */

/* Handles go on as they come: of a program of another MPI they may be wider than ours. */
int their_idup(intptr_t comm, void *newcomm, void *request) __asm__("PMPI_Comm_idup");
CT_PUBLIC int our_idup(intptr_t comm, void *newcomm, void *request) __asm__("MPI_Comm_idup");

int our_idup(intptr_t comm, void *newcomm, void *request) {
    atomic_store(&duplicating, 1);
    return their_idup(comm, newcomm, request);
}

#if MPI_VERSION >= 4
int their_idup_with_info(intptr_t comm, intptr_t info, void *newcomm, void *request)
    __asm__("PMPI_Comm_idup_with_info") __attribute__((weak));
CT_PUBLIC int our_idup_with_info(intptr_t comm, intptr_t info, void *newcomm, void *request)
    __asm__("MPI_Comm_idup_with_info");

int our_idup_with_info(intptr_t comm, intptr_t info, void *newcomm, void *request) {
    atomic_store(&duplicating, 1);
    return their_idup_with_info(comm, info, newcomm, request);
}
#endif
