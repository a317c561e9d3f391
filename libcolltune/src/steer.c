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
#include "core.h"
#include "cvar.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef OPEN_MPI
enum { READ_AT_CREATION = 1 };
#else
enum { READ_AT_CREATION = 0 };
#endif
enum { MOST_SHADOWS = 16, COMPANIONS = 2 };

/* ---- the variables of a configuration ---- */

typedef struct {
    int n;
    ct_cvar_t cvars[];
} variables_t;

static void restore_variables(variables_t *all) {
    for (int i = all->n; i-- > 0;) ct_cvar_restore(&all->cvars[i]);
}

static void free_variables(variables_t *all) {
    for (int i = 0; i < all->n; i++) ct_cvar_close(&all->cvars[i]);
    free(all);
}

static int open_one(variables_t *all, const char *name, const char *value, ct_why_t *why) {
    if (ct_cvar_open(&all->cvars[all->n], name, value, why)) return 1;
    all->n++;
    return 0;
}

#ifdef OPEN_MPI
static int steers_tuned(const ct_configuration_t *configuration) {
    for (int i = 0; i < configuration->n_settings; i++)
        if (!strncmp(configuration->settings[i].name, "coll_tuned_", 11)) return 1;
    return 0;
}

/* coll/tuned looks at the others only if the first is on; hcoll comes before it where it is there. */
static int open_companions(variables_t *all, const ct_configuration_t *c, ct_why_t *why) {
    static const char *const companions[COMPANIONS][2] = {{"coll_tuned_use_dynamic_rules", "1"},
                                                          {"coll_hcoll_enable", "0"}};
    for (int i = 0, index; i < COMPANIONS && steers_tuned(c); i++) {
        /* releases and installations differ */
        if (PMPI(T_cvar_get_index)(companions[i][0], &index) != MPI_SUCCESS) continue;
        if (open_one(all, companions[i][0], companions[i][1], why)) return 1;
    }
    return 0;
}
#else
#define open_companions(...) 0
#endif

/* Whether a setting is not ours to make: MPICH is to decide itself, not to end the job, where an
 * algorithm cannot run a call. */
static int is_skipped(const char *name) {
    static const char fallback[] = "_COLLECTIVE_FALLBACK";
    size_t n = strlen(name);
    return n >= sizeof fallback - 1 && !strcmp(name + n - (sizeof fallback - 1), fallback);
}

static variables_t *new_variables(const ct_configuration_t *c, ct_why_t *why) {
    size_t most = (size_t)c->n_settings + COMPANIONS;
    variables_t *all = calloc(1, sizeof *all + most * sizeof *all->cvars);
    int failed = all ? open_companions(all, c, why) : ct_refuse(why, "memory is out");
    for (int i = 0; i < c->n_settings && !failed; i++)
        if (!is_skipped(c->settings[i].name))
            failed = open_one(all, c->settings[i].name, c->settings[i].value, why);
    if (!failed) return all;
    if (all) free_variables(all);
    return NULL;
}

static int write_variables(variables_t *all, ct_why_t *why) {
    for (int i = 0; i < all->n; i++) {
        if (!ct_cvar_write(&all->cvars[i])) continue;
        restore_variables(all);
        return ct_refuse(why, "the control variable %.100s cannot be written", all->cvars[i].name);
    }
    return 0;
}

/* The variables of a configuration, the same for all communicators. */
typedef struct opened {
    struct opened *next;
    const ct_configuration_t *configuration;
    variables_t *variables; /* NULL: they cannot be had */
} opened_t;

/* How a configuration is run on one communicator. Calls come in the same order on all processes, and
 * so does what is forgotten. */
typedef struct {
    variables_t *variables;
    MPI_Comm shadow; /* where the library reads them at creation */
    int usable;      /* the same on all processes */
} way_t;

static opened_t *all;
static int has_mpi_t;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these two */
static _Atomic int duplicating; /* MPI_Comm_idup was called */
static const char key;

/* ---- the variables ---- */

static opened_t *open_new(const ct_configuration_t *configuration) {
    ct_why_t why = {"MPI_T does not start"};
    int provided;
    opened_t *opened = calloc(1, sizeof *opened);
    if (!opened) return NULL;
    if (!has_mpi_t) has_mpi_t = PMPI(T_init_thread)(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS;
    *opened = (opened_t){.next = all, .configuration = configuration};
    if (has_mpi_t) opened->variables = new_variables(configuration, &why);
    if (!opened->variables)
        ct_log(0, "%s: %s; the MPI library decides", configuration->id, why.text);
    return all = opened;
}

static variables_t *variables_of(const ct_configuration_t *configuration) {
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
    if (PMPI(Query_thread)(&level) != MPI_SUCCESS || level == MPI_THREAD_MULTIPLE)
        return "the program uses MPI_THREAD_MULTIPLE";
    if (READ_AT_CREATION && atomic_load(&duplicating)) return "the program uses MPI_Comm_idup";
    return NULL;
}

/* ---- ways ---- */

static void forget(void *data) {
    way_t *way = data;
    if (way->shadow != MPI_COMM_NULL) ct_give_back(&way->shadow);
    free(way);
}

static way_t *find(ct_comm_t *c, const ct_configuration_t *configuration) {
    return ct_find(c, &key, (long)(intptr_t)configuration);
}

/* Room is made by the one that was not used for longest. */
static way_t *new_way(ct_comm_t *c, const ct_configuration_t *configuration) {
    way_t *way = calloc(1, sizeof *way);
    if (way) way->shadow = MPI_COMM_NULL;
    ct_limit(c, &key, MOST_SHADOWS - 1);
    return ct_keep(c, &key, (long)(intptr_t)configuration, way, forget);
}

static int agreed(ct_comm_t *c, int *answers, int n) {
    return PMPI(Allreduce)(MPI_IN_PLACE, answers, n, MPI_INT, MPI_MIN, c->base) == MPI_SUCCESS;
}

/* Write the variables; 1 if this process can, with what may be wrong told. */
static int can_write(const ct_configuration_t *configuration, variables_t **variables) {
    static _Atomic int told;
    ct_why_t why;
    const char *no = forbidden();
    if (no) {
        if (!atomic_exchange(&told, 1))
            ct_log(0, "%s and others are not steered, since %s; the MPI library decides",
                   configuration->id, no);
        return 0;
    }
    *variables = variables_of(configuration);
    if (!*variables) return 0;
    if (!write_variables(*variables, &why)) return 1;
    ct_log(0, "%s: %s; the MPI library decides", configuration->id, why.text);
    return 0;
}

/* The variables are written. All processes do the same, and come to the same. */
static void make_shadow(ct_comm_t *c, const char *id, way_t *way) {
    way->usable = 1;
    if (READ_AT_CREATION) way->usable = ct_split(c, 0, c->rank, &way->shadow) == MPI_SUCCESS;
    restore_variables(way->variables);
    if (READ_AT_CREATION && !agreed(c, &way->usable, 1)) way->usable = 0;
    if (!way->usable)
        ct_log(0, "%s: no communicator can be made for it; the MPI library decides", id);
}

static int prepare(ct_comm_t *c, const ct_configuration_t *configuration) {
    variables_t *variables = NULL;
    if (ct_base(c) != MPI_SUCCESS) return 0;
    way_t *way = new_way(c, configuration);
    int written = can_write(configuration, &variables), answers[2] = {way != NULL, written};
    int together = agreed(c, answers, 2);
    if (way) way->variables = variables;
    if (together && answers[0] && answers[1]) make_shadow(c, configuration->id, way);
    else if (written) restore_variables(variables);
    if (together && answers[0]) return way->usable;
    ct_limit(c, &key, 0);
    return 0;
}

int ct_steerable(ct_comm_t *c, const ct_configuration_t *configuration) {
    const way_t *way = find(c, configuration);
    return way ? way->usable : prepare(c, configuration);
}

int ct_run_steered(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *configuration) {
    ct_why_t why;
    const way_t *way = find(c, configuration);
    if (!way || !way->usable) return ct_pass(call, call->comm);
    if (READ_AT_CREATION) return ct_pass(call, way->shadow);
    if (write_variables(way->variables, &why)) ct_log(1, "%s", why.text);
    int error = ct_pass(call, c->base);
    restore_variables(way->variables);
    return error;
}

void ct_steer_end(void) {
    pthread_mutex_lock(&lock);
    while (all) {
        opened_t *opened = all;
        all = opened->next;
        if (opened->variables) free_variables(opened->variables);
        free(opened);
    }
    if (has_mpi_t) PMPI(T_finalize)();
    has_mpi_t = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- communicators that come to be later ---- */

/* Handles go on as they come: of a program of another MPI they may be wider than ours. */
int their_idup(intptr_t comm, void *newcomm, void *request) __asm__("PMPI_Comm_idup");
CT_PUBLIC int our_idup(intptr_t comm, void *newcomm, void *request) __asm__("MPI_Comm_idup");

int our_idup(intptr_t comm, void *newcomm, void *request) {
    __typeof__(our_idup) *theirs = CT_THEIRS(their_idup, "PMPI_Comm_idup");
    atomic_store(&duplicating, 1);
    return theirs(comm, newcomm, request);
}

#if MPI_VERSION >= 4
int their_idup_with_info(intptr_t comm, intptr_t info, void *newcomm, void *request)
    __asm__("PMPI_Comm_idup_with_info");
CT_PUBLIC int our_idup_with_info(intptr_t comm, intptr_t info, void *newcomm, void *request)
    CT_HIDDEN("MPI_Comm_idup_with_info")

int our_idup_with_info(intptr_t comm, intptr_t info, void *newcomm, void *request) {
    __typeof__(our_idup_with_info) *theirs =
        CT_THEIRS(their_idup_with_info, "PMPI_Comm_idup_with_info");
    atomic_store(&duplicating, 1);
    return theirs(comm, info, newcomm, request);
}
#endif
