/* What the library tells, and the clock. */
#include "ct.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE_LENGTH = 512 };

void ct_log(int level, const char *format, ...) {
    char line[LINE_LENGTH];
    const char *wanted = ct_setting("COLLTUNE_LOG");
    if (ct_world_rank || (level > 0 && level > (wanted ? atoi(wanted) : 0))) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "colltune: %s\n", line);
}

double ct_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
