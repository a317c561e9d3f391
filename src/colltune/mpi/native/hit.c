/* The C half of the call tracer: each stub (written by trace.py) calls colltune_trace_hit with its
 * number, which prints "TRACE <symbol>" and returns the library's own function to jump to. If
 * COLLTUNE_TRACE_WORDS is set, the first words on the stack follow the symbol, each as an int: a
 * function's arguments after its sixth, and then whatever the caller keeps there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 6 };

extern const char *const colltune_trace_names[];
extern void *colltune_trace_targets[];

/* srun starts processes without Open MPI's own variables */
static const char *own_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    const char *rank = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !rank; i++) rank = getenv(names[i]);
    return rank;
}

static int traced(void) {
    static int answer = -1;
    const char *wanted, *rank;
    if (answer >= 0) return answer;
    wanted = getenv("COLLTUNE_TRACE_RANK");
    rank = own_rank();
    return answer = !wanted || !rank || strcmp(wanted, rank) == 0;
}

static int with_words(void) {
    static int answer = -1;
    if (answer < 0) answer = getenv("COLLTUNE_TRACE_WORDS") != NULL;
    return answer;
}

void *colltune_trace_hit(int index, const long *words) {
    const char *name = colltune_trace_names[index];
    void **target = &colltune_trace_targets[index];
    if (!*target) *target = dlsym(RTLD_NEXT, name);
    if (!*target) {
        fprintf(stderr, "colltune trace: the MPI library has no %s\n", name);
        abort();
    }
    if (traced()) {
        char line[256];
        int length = snprintf(line, sizeof line - 1, "TRACE %s", name);
        for (int at = 0; at < WORDS && with_words(); at++)
            length += snprintf(line + length, sizeof line - 1 - (size_t)length, " %d", (int)words[at]);
        line[length++] = '\n';
        if (write(STDERR_FILENO, line, (size_t)length) < 0) abort();
    }
    return *target;
}
