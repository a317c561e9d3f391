/* Which MPI library runs, by its own words (as colltune.mpi.vendors reads them). */
#include "ct.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copy the release at the beginning of `text`: digits, dots and what is tied to them, 5.1.0rc2. */
static void copy_release(char *release, const char *text, size_t length) {
    size_t n = 0;
    while (isspace((unsigned char)*text)) text++;
    while (n + 1 < length && (isalnum((unsigned char)text[n]) || text[n] == '.')) {
        release[n] = text[n];
        n++;
    }
    release[n] = 0;
}

/* Intel MPI 2019 Update 9 is 2019.9. */
static void add_update(char *release, const char *text, size_t length) {
    unsigned update;
    size_t n = strlen(release);
    if (n < length && sscanf(text + strspn(text, " .0123456789"), "Update %u", &update) == 1)
        snprintf(release + n, length - n, ".%u", update);
}

void ct_library(char *name, char *release, size_t length) {
    static const char *const beginnings[][2] = {{"openmpi", "Open MPI v"},
                                                {"intelmpi", "Intel(R) MPI Library "},
                                                {"mpich", "MPICH Version:"}};
    char told[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int told_length;
    snprintf(name, length, "unknown");
    snprintf(release, length, "-");
    if (PMPI_Get_library_version(told, &told_length) != MPI_SUCCESS) return;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        size_t n = strlen(beginnings[i][1]);
        if (strncmp(told, beginnings[i][1], n)) continue;
        snprintf(name, length, "%s", beginnings[i][0]);
        copy_release(release, told + n, length);
        if (i == 1) add_update(release, told + n, length);
        return;
    }
}
