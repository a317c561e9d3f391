/* Raw output: text, line by line, so that a killed run keeps what it measured. */
#include "hantasks.h"

#include <stdarg.h>

static FILE *raw;
static const char *raw_path;

static void flush_raw(void) {
    if (fflush(raw) || ferror(raw)) die("cannot write ", raw_path);
}

void open_record(const char *path) {
    raw_path = path;
    raw = fopen(path, "w");
    if (!raw) die("cannot write ", path);
    fprintf(raw, "colltune-han-raw 1\n");
    flush_raw();
}

/* The clock and the layout tell their facts by this name. */
void output_fact(const char *key, const char *format, ...) {
    va_list arguments;
    if (!raw) return;
    fprintf(raw, "f %s ", key);
    va_start(arguments, format);
    vfprintf(raw, format, arguments);
    va_end(arguments);
    fprintf(raw, "\n");
    flush_raw();
}

void record_begin(int index) {
    fprintf(raw, "s %d\n", index);
    flush_raw();
}

void record_times(int index, int segments, int rep, int leader, const double *seconds, int n) {
    fprintf(raw, "t %d %d %d %d", index, segments, rep, leader);
    for (int i = 0; i < n; i++) fprintf(raw, " %.9g", seconds[i]);
    fprintf(raw, "\n");
}

void record_problem(int index, const char *status, const char *text) {
    fprintf(raw, "x %d %s %s\n", index, status, text);
    flush_raw();
}

void record_end(int index, const char *how, double seconds) {
    fprintf(raw, "e %d %s %.6f\n", index, how, seconds);
    flush_raw();
}

void close_record(const char *reason) {
    if (!raw) return;
    fprintf(raw, "end %s %.6f\n", reason, now() - started);
    if (fclose(raw)) die("cannot write ", raw_path);
    raw = NULL;
}
