/* Raw output: a text file, and beside it a small mapped file for the step under way.
 *
 * A repetition stored in the mapped file is in the page cache at once and survives the death of
 * this process in whatever way; at the end of a step it moves to the text. Both name the number of
 * the step, by which the reader sees what stands in both. */
#include "collbench.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CAPACITY = 2040, PATH_LENGTH = 4096 };

typedef struct {
    char magic[8];
    _Atomic uint64_t count;
    uint64_t sequence;
    int64_t cell;
    double times[CAPACITY];
} live_t;

const char *output_path;
static FILE *raw;
static char raw_path[PATH_LENGTH];
static char live_path[PATH_LENGTH + 8];
static live_t unmapped, *live = &unmapped;
static uint64_t capacity = CAPACITY;

static void cannot_write(const char *path) { die("cannot write ", path); }

/* Whatever cannot be stored must not be measured either: the disk is full, or gone. */
static void flush_raw(void) {
    if (fflush(raw) || ferror(raw)) cannot_write(raw_path);
}

static void open_live(void) {
    snprintf(live_path, sizeof live_path, "%s.live", raw_path);
    int file = open(live_path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    /* a hole would be filled at the first store, which on a full disk is a fatal signal */
    if (file < 0 || posix_fallocate(file, 0, sizeof *live)) cannot_write(live_path);
    void *map = mmap(NULL, sizeof *live, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    live = map == MAP_FAILED ? &unmapped : map;
    /* a file system without shared mappings: every repetition goes to the text at once */
    if (live == &unmapped) capacity = 1;
    atomic_store(&live->count, 0);
    memcpy(live->magic, "ctlive2\n", sizeof live->magic);
}

/* The rest of a line that has begun. */
static void finish_line(const char *format, va_list arguments) {
    vfprintf(raw, format, arguments);
    fprintf(raw, "\n");
    flush_raw();
}

static void output_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void output_line(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    finish_line(format, arguments);
    va_end(arguments);
}

void open_output(int node) {
    char suffix[16] = "";
    if (raw) return;
    if (world_rank) snprintf(suffix, sizeof suffix, ".%d", node);
    int length = snprintf(raw_path, sizeof raw_path, "%s%s", output_path, suffix);
    if (length >= (int)sizeof raw_path) die("path too long: ", output_path);
    raw = fopen(raw_path, "w");
    if (!raw) cannot_write(raw_path);
    if (!plan.of_tasks) open_live();
    output_line(plan.of_tasks ? "colltune-han-raw 1" : "colltune-raw 2");
}

void output_fact(const char *key, const char *format, ...) {
    va_list arguments;
    if (!raw) return;
    fprintf(raw, "f %s ", key);
    va_start(arguments, format);
    finish_line(format, arguments);
    va_end(arguments);
}

/* Move the mapped repetitions to the text. The next ones get another number first, so that a
 * death in between neither loses nor doubles any. */
static void drain(void) {
    uint64_t count = atomic_load(&live->count);
    if (!count) return;
    fprintf(raw, "r %d %llu", (int)live->cell, (unsigned long long)live->sequence);
    for (uint64_t i = 0; i < count; i++) fprintf(raw, " %.9g", live->times[i]);
    fprintf(raw, "\n");
    flush_raw();
    atomic_store_explicit(&live->count, 0, memory_order_release);
    live->sequence++;
}

void output_begin(int cell) {
    if (!raw) return;
    live->cell = cell;
    output_line("s %d", cell);
}

void output_time(double seconds) {
    if (!raw) return;
    uint64_t count = atomic_load_explicit(&live->count, memory_order_relaxed);
    live->times[count] = seconds;
    atomic_store_explicit(&live->count, count + 1, memory_order_release);
    if (count + 1 >= capacity) drain();
}

void output_task(int series, int segments, int rep, int leader, const double *seconds, int n) {
    fprintf(raw, "t %d %d %d %d", series, segments, rep, leader);
    for (int i = 0; i < n; i++) fprintf(raw, " %.9g", seconds[i]);
    fprintf(raw, "\n");
}

void output_end(int number, const char *format, ...) {
    va_list arguments;
    if (!raw) return;
    drain();
    fprintf(raw, "e %d", number);
    va_start(arguments, format);
    finish_line(format, arguments);
    va_end(arguments);
}

void output_problem(int cell, const char *status, const char *text) {
    if (raw) output_line("x %d %s %s", cell, status, text);
}

void close_output(const char *reason) {
    if (!raw) return;
    if (plan.of_tasks) fprintf(raw, "end %s %.6f\n", reason, now() - started);
    else fprintf(raw, "end %s %.6f %.6f\n", reason, timed, now() - started);
    if (fclose(raw)) cannot_write(raw_path);
    raw = NULL;
    if (*live_path) unlink(live_path); /* all of it is in the text */
}
