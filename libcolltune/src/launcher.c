/* Whether all processes of MPI_COMM_WORLD have this library, by keys that they leave with the launcher
 * while MPI is initialised.
 *
 * Some launchers hand LD_PRELOAD on to other hosts only when they are told to. The collective calls
 * with which settings are shared would then meet the program's own in processes that lack the
 * library. So each process leaves a key with the launcher, and looks for those of its neighbours in
 * a tree. Messages are sent between neighbours that both have one, and so are both still in
 * MPI_Init: a program cannot receive them.
 *
 * MPI libraries leave their addresses there, each process all of its keys at once: where one of them
 * is found, and ours is not, ours never comes.
 *
 * PMIx (Open MPI; srun --mpi=pmix): the MPI library calls PMIx_Put for each key; ours stands before
 * it and adds one. Hydra (MPICH, Intel MPI) takes lines on a socket, the wire protocol of PMI 1, which
 * stays free until the MPI library uses it. No process goes on before the keys of all are there. */
#include "core.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum { NO_STORE, PMI, PMIX } store; /* where this process's key is */
static int initialising, started;          /* MPI_Init runs; MPI was started before it */

/* ---- PMIx, as its versions 3 to 6 have it ---- */

enum { PMIX_NAME = 256, PMIX_KEY = 512, PMIX_BOOL = 1, PMIX_INT = 6 };
enum { PMIX_LOCAL = 1, PMIX_GLOBAL = 3 }; /* scopes */
typedef struct {
    char name[PMIX_NAME];
    uint32_t rank;
} pmix_process_t;
typedef struct {
    uint16_t type;
    union {
        int number;
        _Bool flag;
        void *room[3];
    } data;
} pmix_value_t;
typedef struct {
    char key[PMIX_KEY];
    uint32_t flags;
    pmix_value_t value;
} pmix_info_t;
typedef int pmix_put_t(uint8_t scope, const char *key, pmix_value_t *value);
typedef int pmix_get_t(const pmix_process_t *process, const char *key, const pmix_info_t *infos,
                       size_t n, pmix_value_t **value);

static const char ours[] = "colltune.present";
static char a_key[PMIX_KEY]; /* one of the MPI library's, which all of its processes have */
static pmix_get_t *get_pmix;

CT_PUBLIC int PMIx_Put(uint8_t scope, const char *key, pmix_value_t *value) CT_HIDDEN("PMIx_Put")

CT_PUBLIC int PMIx_Put(uint8_t scope, const char *key, pmix_value_t *value) {
    pmix_value_t present = {.type = PMIX_INT, .data.number = 1};
    void *caller = __builtin_return_address(0);
    pmix_put_t *put;
    *(void **)&put = ct_next("PMIx_Put", caller);
    if (initialising && !*a_key && scope != PMIX_LOCAL && strncmp(key, "pmix", 4))
        snprintf(a_key, sizeof a_key, "%s", key);
    if (initialising && store == NO_STORE) {
        *(void **)&get_pmix = ct_next("PMIx_Get", caller);
        if (put(PMIX_GLOBAL, ours, &present) == 0) store = PMIX;
    }
    return put(scope, key, value);
}

static int find(const pmix_process_t *process, const char *key, int at_once) {
    pmix_info_t info = {.key = "pmix.immediate", .value = {PMIX_BOOL, {.flag = 1}}};
    pmix_value_t *value = NULL;
    int error = get_pmix(process, key, at_once ? &info : NULL, (size_t)at_once, &value);
    if (!error && value && !strcmp(key, ours)) free(value);
    return !error;
}

static int has_pmix(int rank) {
    pmix_process_t process = {.rank = (uint32_t)rank};
    const char *name = getenv("PMIX_NAMESPACE");
    if (!name || strlen(name) >= sizeof process.name) return 0;
    strcpy(process.name, name);
    if (find(&process, ours, 1)) return 1;
#ifdef OPEN_MPI
    /* asking for a key that never comes takes seconds; with one of them come all */
    if (*a_key && find(&process, a_key, 0)) return find(&process, ours, 1);
#endif
    return find(&process, ours, 0);
}

/* ---- Hydra ---- */

enum { LINE = 1024 };
static int hydra = -1; /* its socket */
static char keys[LINE / 2];

/* The answer to a command, without the end of its line; 1 if there is none. */
static int ask(const char *command, char *answer) {
    size_t length = strlen(command), done = 0;
    ssize_t n;
    while (done < length) {
        n = write(hydra, command + done, length - done);
        if (n > 0) done += (size_t)n;
        else if (n == 0 || errno != EINTR) return 1;
    }
    for (done = 0; done < LINE - 1 && (!done || answer[done - 1] != '\n');) {
        n = read(hydra, answer + done, 1);
        if (n > 0) done++;
        else if (n == 0 || errno != EINTR) return 1;
    }
    if (!done) return 1;
    answer[done - 1] = '\0';
    return 0;
}

static void put_pmi(void) {
    char command[LINE], answer[LINE];
    const char *socket = getenv("PMI_FD"), *rank = getenv("PMI_RANK"), *name;
    /* Slurm's plugin answers nothing before the MPI library's first line */
    if (!socket || !rank || !getenv("MPI_LOCALNRANKS") || getenv("PMI_JOBID")) return;
    hydra = atoi(socket);
    /* the MPI library says the first line again; older proxies forget what comes before it */
    if (ask("cmd=init pmi_version=1 pmi_subversion=1\n", answer) || !strstr(answer, "rc=0") ||
        ask("cmd=get_my_kvsname\n", answer) || !(name = strstr(answer, "kvsname="))) return;
    snprintf(keys, sizeof keys, "%.*s", (int)strcspn(name, " "), name);
    snprintf(command, sizeof command, "cmd=put %s key=colltune-%.20s value=1\n", keys, rank);
    if (!ask(command, answer) && strstr(answer, "rc=0")) store = PMI;
}

static int has_pmi(int rank) {
    char command[LINE], answer[LINE];
    snprintf(command, sizeof command, "cmd=get %s key=colltune-%d\n", keys, rank);
    return !ask(command, answer) && strstr(answer, "rc=0") != NULL;
}

/* ---- whether all have it ---- */

void ct_announce(void) {
    int begun = 0;
    ct_bind();
    if (!ct_is_ours) return;
    PMPI(Initialized)(&begun);
    if (begun || started) return;
    initialising = 1;
    put_pmi();
}

/* Whether that process did. */
static int announced(int rank) {
    initialising = 0;
    if (store == NO_STORE || rank == ct_world_rank) return store != NO_STORE;
    return store == PMI ? has_pmi(rank) : has_pmix(rank);
}

enum { TAG = 32741, CHILDREN = 2 };
static const char without[] = "the MPI library runs all calls";

static void pass_on(int all, int rank) {
    PMPI(Send)(&all, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD);
}

static int answer_of(int rank) {
    int all = 0, error = PMPI(Recv)(&all, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return error == MPI_SUCCESS && all;
}

/* Parts of the tree that are cut off from each other all know of it at the cut. */
static int agree(void) {
    int all = 1, parent = (ct_world_rank - 1) / CHILDREN, first = CHILDREN * ct_world_rank + 1;
    int has_parent = ct_world_rank && announced(parent), has[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        has[i] = first + i < ct_world_size && announced(first + i);
        if (first + i < ct_world_size && !(has[i] && answer_of(first + i))) all = 0;
    }
    if (has_parent) {
        pass_on(all, parent);
        all = answer_of(parent);
    } else if (ct_world_rank) all = 0;
    for (int i = 0; i < CHILDREN; i++)
        if (has[i]) pass_on(all, first + i);
    return all;
}

/* One process tells, the first that has the library. */
static void tell(void) {
    int n = 1;
    for (int rank = ct_world_rank; rank--;)
        if (announced(rank)) return;
    for (int rank = ct_world_rank + 1; rank < ct_world_size; rank++) n += announced(rank);
    fprintf(stderr, "colltune: only %d of %d processes have libcolltune (mpirun: -x LD_PRELOAD): %s\n",
            n, ct_world_size, without);
}

int ct_all_present(void) {
    if (ct_world_size == 1) return 1;
    if (!announced(ct_world_rank)) {
        ct_log(0, "this launcher does not tell whether all processes have libcolltune: %s", without);
        return 0;
    }
    int all = agree();
    if (!all && !ct_is_quiet()) tell();
    return all;
}

#if MPI_VERSION >= 4
/* Handles go on as they come: of a program of another MPI they may be wider than ours. */
int their_session_init(intptr_t info, intptr_t errhandler, void *session)
    __asm__("PMPI_Session_init");
CT_PUBLIC int our_session_init(intptr_t info, intptr_t errhandler, void *session)
    CT_HIDDEN("MPI_Session_init")

/* A later MPI_Init need not exchange keys any more. */
int our_session_init(intptr_t info, intptr_t errhandler, void *session) {
    __typeof__(our_session_init) *theirs = CT_THEIRS(their_session_init, "PMPI_Session_init");
    ct_bind();
    started = 1;
    return theirs(info, errhandler, session);
}
#endif
