/* Which MPI library runs, by its own words (as colltune.mpi.installation reads them). */
#define _GNU_SOURCE /* memmem */
#include "colltune_rules.h"
#include "core.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* An MPI library may tell more than that of our header does. */
enum { LONGEST_VERSION = 1 << 14, NAME_LENGTH = 64 };

void ct_library(char *name, char *release, size_t length) {
    static const char *const beginnings[][2] = {{"openmpi", "Open MPI v"},
                                                {"intelmpi", "Intel(R) MPI Library "},
                                                {"mpich", "MPICH Version:"}};
    static char told[LONGEST_VERSION]; /* all threads are told the same */
    int told_length;
    snprintf(name, length, "unknown");
    snprintf(release, length, "-");
    if (PMPI(Get_library_version)(told, &told_length) != MPI_SUCCESS) return;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        size_t n = strlen(beginnings[i][1]);
        if (strncmp(told, beginnings[i][1], n)) continue;
        snprintf(name, length, "%s", beginnings[i][0]);
        copy_release(release, told + n, length);
        if (i == 1) add_update(release, told + n, length);
        return;
    }
}

/* ---- whether it is ours ---- */

#define TEXT(number) #number
#define SERIES(major, minor) TEXT(major) "." TEXT(minor)
#if defined MPI_ABI
static const char made_for[] = "the standard ABI",
                  made_for_release[] = SERIES(MPI_ABI_VERSION, MPI_ABI_SUBVERSION);
#elif defined OPEN_MPI
static const char made_for[] = "openmpi",
                  made_for_release[] = SERIES(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
#elif defined I_MPI_VERSION
static const char made_for[] = "intelmpi", made_for_release[] = I_MPI_VERSION;
#elif defined MPICH_VERSION
static const char made_for[] = "mpich", made_for_release[] = MPICH_VERSION;
#else
static const char made_for[] = "", made_for_release[] = "";
#endif

/* By their launchers' words: the library's own may not be asked. */
static int is_first_process(void) {
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (getenv(ranks[i])) return !strcmp(getenv(ranks[i]), "0");
    return 1;
}

/* The version of the standard ABI (MPI 5), by which the process calls MPI; not positive: it does not. */
static int abi_version(void) {
    int version = -1, minor = -1, (*ask)(int *, int *);
    *(void **)&ask = ct_defined("PMPI_Abi_get_version");
    return ask && ask(&version, &minor) == MPI_SUCCESS ? version : -1;
}

#ifdef MPI_ABI
MPI_Errhandler ct_errors_return;

/* Of the libraries that have it, those whose control variables and errors are known: MPICH 5.0 and
 * Intel MPI 2021.18. */
int ct_is_made_for_it(void) {
    char name[NAME_LENGTH], release[NAME_LENGTH];
    ct_library(name, release, sizeof name);
    int is_intel = !strcmp(name, "intelmpi");
    ct_errors_return = (MPI_Errhandler)(intptr_t)(is_intel ? 0x142 : 0x143);
    return abi_version() == MPI_ABI_VERSION && (is_intel || !strcmp(name, "mpich"));
}
#else
/* The series of a release: its first two numbers. */
static size_t series(const char *release) {
    size_t major = strcspn(release, ".");
    return release[major] ? major + 1 + strspn(release + major + 1, "0123456789") : major;
}

int ct_is_made_for_it(void) {
    char name[NAME_LENGTH], release[NAME_LENGTH];
    ct_library(name, release, sizeof name);
    size_t n = series(release);
    return abi_version() <= 0 &&
           (!strcmp(name, "unknown") || !*made_for ||
            (!strcmp(name, made_for) && n == series(made_for_release) &&
             !strncmp(release, made_for_release, n)));
}
#endif

CT_PUBLIC const char *colltune_version(void) { return LIBCOLLTUNE_VERSION; }

void ct_tell_foreign(void) {
    char name[NAME_LENGTH] = "several MPI libraries", release[NAME_LENGTH] = "at once";
    if (!is_first_process() || ct_is_quiet()) return;
    if (ct_bound == CT_ALONE) ct_library(name, release, sizeof name);
    fprintf(stderr, "colltune: this libcolltune " LIBCOLLTUNE_VERSION " was compiled for %s %s, and the"
                    " program runs with %s %s%s; the job runs without it (colltune app interpose --mpi"
                    " compiles one)\n",
            made_for, made_for_release, name, release,
            abi_version() > 0 ? " by the standard ABI" : "");
}

#ifdef CT_LATE
/* Whether the program's file has the text. */
static int program_has(const char *text) {
    struct stat facts;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), found = 0;
    size_t length = file < 0 || fstat(file, &facts) ? 0 : (size_t)facts.st_size;
    void *all = length ? mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (all != MAP_FAILED) {
        found = memmem(all, length, text, strlen(text)) != NULL;
        munmap(all, length);
    }
    if (file >= 0) close(file);
    return found;
}

/* At the end of a program that has MPI within itself, which never calls us. */
__attribute__((destructor)) static void tell_linked_statically(void) {
    const char *asked = getenv("COLLTUNE_LOG");
    if (!asked || atoi(asked) < 1 || !is_first_process() || ct_defined("PMPI_Init") ||
        !program_has("MPI_Init"))
        return;
    fputs("colltune: MPI is linked statically to this program, whose calls do not come to"
          " libcolltune: it ran without it\n", stderr);
}
#endif

/* ---- whether processes may die ---- */

/* Open MPI: --with-ft ulfm, told by a variable that it exports. MPICH: a variable of the environment. */
int ct_is_fault_tolerant(void) {
    static const char *const names[] = {"MPIR_CVAR_ENABLE_FT", "MPIR_PARAM_ENABLE_FT",
                                        "MPICH_ENABLE_FT", NULL};
    const bool *enabled = ct_defined("ompi_ftmpi_enabled");
    int found = enabled && *enabled;
    for (int i = 0; names[i] && !found; i++) {
        const char *value = getenv(names[i]);
        found = value && *value && strcmp(value, "0") && strcmp(value, "no") &&
                strcmp(value, "false");
    }
    PMPI(Allreduce)(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return found;
}
