/* The C half of the call tracer: each stub (written by trace.py) calls colltune_trace_hit with its
   number, which prints "TRACE <symbol>" and returns the library's own function to jump to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char *const colltune_trace_names[];
extern void *colltune_trace_targets[];

static int traced(void)
{
    static int answer = -1;
    if (answer < 0) {
        const char *wanted = getenv("COLLTUNE_TRACE_RANK");
        const char *rank = getenv("OMPI_COMM_WORLD_RANK");
        answer = !wanted || !rank || strcmp(wanted, rank) == 0;
    }
    return answer;
}

void *colltune_trace_hit(int index)
{
    const char *name = colltune_trace_names[index];
    if (!colltune_trace_targets[index])
        colltune_trace_targets[index] = dlsym(RTLD_NEXT, name);
    if (!colltune_trace_targets[index]) {
        fprintf(stderr, "colltune trace: the MPI library has no %s\n", name);
        abort();
    }
    if (traced()) {
        char line[256];
        int length = snprintf(line, sizeof line, "TRACE %s\n", name);
        if (write(STDERR_FILENO, line, (size_t)length) < 0)
            abort();
    }
    return colltune_trace_targets[index];
}
