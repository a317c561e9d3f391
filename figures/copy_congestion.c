/* Readers that copy at the same time: copy_congestion READERS BYTES REPETITIONS same|own
 *
 * Each reader is a process that copies out of shared memory into its own; all begin together. Source
 * is one region for all of them, or one for each. Prints, for each repetition, the mean seconds of
 * a copy, and the seconds from the start of the first copy to the end of the last. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    double start, end;
} copy_t;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *shared(size_t bytes) {
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    memset(found, 1, bytes);
    return found;
}

static void read_all(atomic_int *arrived, int readers, int repetitions, const char *from,
                     size_t bytes, copy_t *copies) {
    char *to = malloc(bytes);
    if (!to) exit(1);
    memset(to, 0, bytes);
    for (int rep = 0; rep < repetitions; rep++) {
        atomic_fetch_add(arrived, 1);
        while (atomic_load(arrived) < readers * (rep + 1)) sched_yield();
        copies[rep].start = now();
        memcpy(to, from, bytes);
        copies[rep].end = now();
        if (to[bytes / 2] != 1) exit(1);
    }
    exit(0);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int readers = atoi(argv[1]), repetitions = atoi(argv[3]), own = !strcmp(argv[4], "own");
    size_t bytes = (size_t)atoll(argv[2]);
    if (readers < 1 || repetitions < 1 || bytes < 1) return 2;
    char *from = shared(bytes * (size_t)(own ? readers : 1));
    copy_t *copies = shared((size_t)readers * (size_t)repetitions * sizeof *copies);
    atomic_int *arrived = shared(sizeof *arrived);
    atomic_store(arrived, 0);
    for (int r = 0; r < readers; r++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0)
            read_all(arrived, readers, repetitions, from + (own ? (size_t)r * bytes : 0), bytes,
                     copies + (size_t)r * (size_t)repetitions);
    }
    int status, failed = 0;
    for (int r = 0; r < readers; r++)
        if (wait(&status) < 0 || status != 0) failed = 1;
    if (failed) return 1;
    for (int rep = 0; rep < repetitions; rep++) {
        double mean = 0, first = copies[rep].start, last = copies[rep].end;
        for (int r = 0; r < readers; r++) {
            const copy_t *c = copies + (size_t)r * (size_t)repetitions + rep;
            mean += (c->end - c->start) / readers;
            if (c->start < first) first = c->start;
            if (c->end > last) last = c->end;
        }
        printf("%.9f %.9f\n", mean, last - first);
    }
    return 0;
}
