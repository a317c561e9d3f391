/* Environment variables, as rank 0 of MPI_COMM_WORLD has them. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "COLLTUNE_FORCE",   "COLLTUNE_TABLE",        "COLLTUNE_RULES", "COLLTUNE_PROFILE",
    "COLLTUNE_PROFILE_RATE", "COLLTUNE_FEEDBACK", "COLLTUNE_NODES", "COLLTUNE_LOG",
    "COLLTUNE_SHM_MIB", "COLLTUNE_FIRST_CALLS",
};
enum { NAMES = sizeof names / sizeof *names, ASKING = 6 }; /* the first ones ask for something */

int ct_world_rank, ct_world_size;
static char *values[NAMES];

char *ct_share(const char *bytes, size_t *length) {
    unsigned long n = bytes && ct_world_rank == 0 ? *length + 1 : 0; /* 0: there is nothing */
    int failed;
    if (PMPI_Bcast(&n, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD) != MPI_SUCCESS || !n) return NULL;
    char *copy = malloc(n);
    failed = !copy;
    if (PMPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS)
        failed = 1;
    if (failed) {
        free(copy);
        return NULL;
    }
    *length = n - 1;
    if (ct_world_rank == 0) memcpy(copy, bytes, n - 1);
    copy[n - 1] = '\0';
    for (unsigned long done = 0; done < n; done += 1ul << 30) { /* a count is an int */
        int part = (int)(n - done < 1ul << 30 ? n - done : 1ul << 30);
        if (PMPI_Bcast(copy + done, part, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) break;
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

int ct_settings_begin(void) {
    size_t length = 0;
    char *mine = ct_world_rank == 0 ? joined(&length) : NULL, *text = ct_share(mine, &length);
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
