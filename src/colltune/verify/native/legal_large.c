/* Calls of more than 2^31 bytes. Nothing is copied: what must be there is computed once more. */
#define _GNU_SOURCE
#include "legal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LOWER = 0x7FFFF, COPIES = 2 }; /* COPIES: libraries keep as much as both buffers */

/* Blocks of each buffer: none, one, one for each process, or these at the root alone. */
typedef enum { NONE, ONE, EACH, ROOT_ONE, ROOT_EACH } blocks_t;
typedef struct { const char *name; blocks_t out, in; } large_t;

static const large_t LARGE[] = {
    {"bcast", NONE, ONE},          {"allgather", ONE, EACH}, {"alltoall", EACH, EACH},
    {"gather", ONE, ROOT_EACH},    {"scatter", ROOT_EACH, ONE}, {"allreduce", ONE, ONE},
    {"reduce", ONE, ROOT_ONE},
};

static const large_t *large_named(const char *name) {
    for (size_t i = 0; i < sizeof LARGE / sizeof *LARGE; i++)
        if (!strcmp(LARGE[i].name, name)) return &LARGE[i];
    return NULL;
}

static size_t blocks_of(const place_t *p, blocks_t kind) {
    size_t n = kind == EACH || kind == ROOT_EACH ? (size_t)p->size : kind != NONE;
    return kind < ROOT_ONE || p->is_root ? n : 0;
}

/* ---- memory ---- */

static size_t available_bytes(void) {
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    fclose(file);
    return (size_t)kib * 1024;
}

int has_room_for(const case_t *one, int processes) {
    const large_t *l = large_named(one->collective);
    const place_t root = {.size = processes, .is_root = 1};
    if (!l) return 0;
    size_t blocks = blocks_of(&root, l->out) + blocks_of(&root, l->in);
    return blocks * one->ints * sizeof(int) * (size_t)processes * COPIES <= available_bytes();
}

int is_large_known(const char *name) { return large_named(name) != NULL; }

/* Kept for the next call: fresh memory is slow. */
typedef struct { int *at; size_t ints; } store_t;
static store_t stores[2];

static int *kept(store_t *s, size_t ints) {
    if (ints <= s->ints) return s->at;
    if (s->at) munmap(s->at, s->ints * sizeof *s->at);
    s->at = mmap(NULL, ints * sizeof *s->at, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (s->at == MAP_FAILED) quit("out of memory", "");
    madvise(s->at, ints * sizeof *s->at, MADV_HUGEPAGE);
    s->ints = ints;
    return s->at;
}

/* ---- values ---- */

static int value(int from, int to, size_t k) {
    unsigned v = (unsigned)from * 100003U + (unsigned)to * 7919U + (unsigned)k * 31U;
    return (int)((v + (unsigned)(k >> 16)) & LOWER);
}

static int total(int processes, size_t k) {
    int sum = 0;
    for (int r = 0; r < processes; r++) sum += value(r, 0, k);
    return sum;
}

static int is_sum(const large_t *l) { return is_reduction(l->name); }

/* Whom block `i` of the sent ones is for, and from whom that of the received ones is. */
static int receiver(const large_t *l, int i) { return l->out == EACH || l->out == ROOT_EACH ? i : 0; }
static int sender(const place_t *p, const large_t *l, int i) {
    return l->in == EACH || l->in == ROOT_EACH ? i : p->root;
}

static void fill(const large_t *l, int *block, int i, int rank, size_t ints) {
    for (size_t k = 0; k < ints; k++) block[k] = value(rank, receiver(l, i), k);
}

static int is_wrong(const place_t *p, const large_t *l, const int *block, int i, size_t ints) {
    int from = sender(p, l, i), to = receiver(l, p->rank);
    for (size_t k = 0; k < ints; k++)
        if (block[k] != (is_sum(l) ? total(p->size, k) : value(from, to, k))) return 1;
    return 0;
}

/* ---- the call ---- */

static int call(const place_t *p, const large_t *l, int *s, int *r, int n) {
    const char *name = l->name;
    if (!strcmp(name, "bcast")) return MPI_Bcast(r, n, MPI_INT, p->root, p->comm);
    if (!strcmp(name, "allgather")) return MPI_Allgather(s, n, MPI_INT, r, n, MPI_INT, p->comm);
    if (!strcmp(name, "alltoall")) return MPI_Alltoall(s, n, MPI_INT, r, n, MPI_INT, p->comm);
    if (!strcmp(name, "gather")) return MPI_Gather(s, n, MPI_INT, r, n, MPI_INT, p->root, p->comm);
    if (!strcmp(name, "scatter")) return MPI_Scatter(s, n, MPI_INT, r, n, MPI_INT, p->root, p->comm);
    if (!strcmp(name, "allreduce")) return MPI_Allreduce(s, r, n, MPI_INT, MPI_SUM, p->comm);
    return MPI_Reduce(s, r, n, MPI_INT, MPI_SUM, p->root, p->comm);
}

answer_t large(const place_t *p, const case_t *one) {
    const large_t *l = large_named(one->collective);
    size_t sent = blocks_of(p, l->out), got = blocks_of(p, l->in);
    int *s = kept(&stores[0], sent * one->ints), *r = kept(&stores[1], got * one->ints), wrong = 0;
    for (size_t i = 0; i < sent; i++) fill(l, s + i * one->ints, (int)i, p->rank, one->ints);
    memset(r, 0xFF, got * one->ints * sizeof *r);
    if (l->out == NONE && p->is_root) fill(l, r, 0, p->rank, one->ints);
    int code = call(p, l, s, r, (int)one->ints);
    for (size_t i = 0; i < got && !wrong; i++)
        wrong = is_wrong(p, l, r + i * one->ints, (int)i, one->ints);
    return told(code, wrong, "what is received is wrong");
}
