/* Environment variables, as rank 0 of MPI_COMM_WORLD has them; the log and the clock. */
#include "core.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[] = {
    "COLLTUNE_FORCE",    "COLLTUNE_TABLE",       "COLLTUNE_RULES",       "COLLTUNE_PROFILE",
    "COLLTUNE_FEEDBACK", "COLLTUNE_RECORD",      "COLLTUNE_RECORD_RATE", "COLLTUNE_PROFILE_RATE",
    "COLLTUNE_NODES",    "COLLTUNE_LOG",         "COLLTUNE_SHM_MIB",     "COLLTUNE_FIRST_CALLS",
};
/* The first ones ask for something: the user, or the site alone. */
enum { NAMES = sizeof names / sizeof *names, OF_USER = 5, ASKING = 6 };

int ct_world_rank, ct_world_size;
static char *values[NAMES];

char *ct_share(MPI_Comm comm, const char *bytes, size_t *length) {
    unsigned long n = bytes ? *length + 1 : 0; /* 0: there is nothing */
    int failed, rank;
    if (PMPI(Comm_rank)(comm, &rank) != MPI_SUCCESS ||
        PMPI(Bcast)(&n, 1, MPI_UNSIGNED_LONG, 0, comm) != MPI_SUCCESS || !n)
        return NULL;
    char *copy = malloc(n);
    failed = !copy;
    if (PMPI(Allreduce)(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS) failed = 1;
    if (failed) {
        free(copy);
        return NULL;
    }
    *length = n - 1;
    if (rank == 0) memcpy(copy, bytes, n - 1);
    copy[n - 1] = '\0';
    for (unsigned long done = 0; done < n; done += 1ul << 30) { /* a count is an int */
        int part = (int)(n - done < 1ul << 30 ? n - done : 1ul << 30);
        if (PMPI(Bcast)(copy + done, part, MPI_BYTE, 0, comm) != MPI_SUCCESS) break;
    }
    return copy;
}

/* All values in one text, each closed by a NUL. */
static char *joined(size_t *length) {
    *length = 0;
    for (int i = 0; i < NAMES; i++) {
        const char *value = getenv(names[i]);
        *length += (value ? strlen(value) : 0) + 1;
    }
    char *text = malloc(*length), *at = text;
    for (int i = 0; text && i < NAMES; i++) {
        const char *value = getenv(names[i]);
        size_t n = (value ? strlen(value) : 0) + 1;
        memcpy(at, value ? value : "", n);
        at += n;
    }
    return text;
}

static const struct {
    const char *name;
    long low, high;
} numbers[] = {
    {"COLLTUNE_PROFILE_RATE", 1, 1000000000}, {"COLLTUNE_RECORD_RATE", 1, 1000000000},
    {"COLLTUNE_LOG", 0, 2},                   {"COLLTUNE_SHM_MIB", 0, 1l << 30},
    {"COLLTUNE_FIRST_CALLS", 0, INT_MAX},
};

/* What is wrong counts as not set. */
static void drop_wrong_numbers(void) {
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        for (int i = 0; i < NAMES; i++) {
            char *end = NULL, *text = strcmp(names[i], numbers[n].name) ? NULL : values[i];
            long number = text ? strtol(text, &end, 10) : 0;
            if (!text || (end != text && !*end && number >= numbers[n].low && number <= numbers[n].high))
                continue;
            values[i] = NULL;
            ct_log(0, "%s=%s is no whole number from %ld to %ld, and counts as not set", names[i],
                   text, numbers[n].low, numbers[n].high);
            free(text);
        }
}

long ct_number(const char *name, long usual) {
    const char *text = ct_setting(name);
    return text ? strtol(text, NULL, 10) : usual;
}

int ct_settings_begin(void) {
    size_t length = 0;
    char *mine = ct_world_rank == 0 ? joined(&length) : NULL;
    char *text = ct_share(MPI_COMM_WORLD, mine, &length);
    int any = 0;
    free(mine);
    if (!text) return 0;
    const char *at = text;
    for (int i = 0; i < NAMES; i++) {
        if (*at) values[i] = strdup(at);
        if (*at && i < ASKING) any = 1;
        at += strlen(at) + 1;
    }
    free(text);
    drop_wrong_numbers();
    return any;
}

const char *ct_setting(const char *name) {
    for (int i = 0; i < NAMES; i++)
        if (!strcmp(names[i], name)) return values[i];
    return NULL;
}

void ct_settings_end(void) {
    for (int i = 0; i < NAMES; i++) {
        free(values[i]);
        values[i] = NULL;
    }
}

/* ---- the log, the clock, and the largest file ---- */

#ifdef CT_UNLINKED /* what a site preloads in all programs */
enum { IS_SITES = 1 };
#else
enum { IS_SITES = 0 };
#endif

int ct_is_quiet(void) {
    const char *record = getenv("COLLTUNE_RECORD");
    for (int i = 0; i < OF_USER; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return 0;
    }
    if (getenv("COLLTUNE_LOG")) return 0;
    return IS_SITES || (record && *record);
}

enum { LINE_LENGTH = 512 };

void ct_log(int level, const char *format, ...) {
    char line[LINE_LENGTH];
    if (ct_world_rank || ct_is_quiet()) return;
    if (level > 0 && level > ct_number("COLLTUNE_LOG", 0)) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "colltune: %s\n", line);
}

static sigset_t over_limit(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

void ct_hold_limit(sigset_t *before) {
    sigset_t set = over_limit();
    pthread_sigmask(SIG_BLOCK, &set, before);
}

void ct_release_limit(const sigset_t *before) {
    sigset_t set = over_limit();
    struct timespec none = {0, 0};
    int why = errno;
    if (!sigismember(before, SIGXFSZ)) sigtimedwait(&set, NULL, &none);
    pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = why;
}

double ct_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
