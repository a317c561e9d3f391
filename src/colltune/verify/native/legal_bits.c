/* Reductions of numbers whose result depends on the order of the operations, as hashes of its bits. */
#include "legal.h"

#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Element k of a rank is like element k + PERIOD. Few elements could be equal by chance, so that
 * messages of less than FEW are reduced several times with other data, FEW elements in all. */
enum { PERIOD = 61, FEW = 16, SALTS = FEW, KINDS = 8, OWN = 6, TEXT = KINDS * 9 + 1 };
static const unsigned EMPTY_HASH = 2166136261U;

typedef struct {
    MPI_Datatype type;
    MPI_Op op;
    size_t width, meant; /* meant: bytes of an element that have a meaning */
    int spread;          /* of exponents; large: sums cancel */
    int in_place, last;  /* last: the root is the last rank */
    void (*fill)(void *element, int from, size_t k, int salt, int spread);
} number_t;

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

static double drawn(int from, size_t k, int salt, int spread) {
    uint64_t x = mix(((uint64_t)from << 40) + ((uint64_t)salt << 20) + k + 1);
    double fraction = 1.0 + (double)(x >> 12) / 4503599627370496.0;
    return ldexp(x & 2048 ? fraction : -fraction, (int)(x & 1023) % spread);
}

static void fill_float(void *e, int from, size_t k, int salt, int spread) {
    *(float *)e = (float)drawn(from, k, salt, spread);
}
static void fill_double(void *e, int from, size_t k, int salt, int spread) {
    *(double *)e = drawn(from, k, salt, spread);
}
static void fill_complex(void *e, int from, size_t k, int salt, int spread) {
    double *parts = e;
    parts[0] = drawn(from, k, salt, spread);
    parts[1] = drawn(from, k, salt + SALTS, spread);
}
static void fill_long(void *e, int from, size_t k, int salt, int spread) {
    *(long double *)e = (long double)drawn(from, k, salt, spread) +
                        (long double)drawn(from, k, salt + SALTS, spread) * 1e-17L;
}

static void add_doubles(void *left, void *right, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++) ((double *)right)[i] += ((double *)left)[i];
}
static void weigh_floats(void *left, void *right, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++) ((float *)right)[i] += 0.75F * ((float *)left)[i];
}

static number_t kinds[KINDS];

/* From OWN on they are a program's own operations; the second one is the first again, in place. */
void make_numbers(void) {
    MPI_Op own, ordered;
    MPI_Op_create(add_doubles, 1, &own);
    MPI_Op_create(weigh_floats, 0, &ordered);
    const number_t all[KINDS] = {
        {MPI_DOUBLE, MPI_SUM, 8, 8, 45, 0, 0, fill_double},
        {MPI_DOUBLE, MPI_SUM, 8, 8, 45, 1, 1, fill_double},
        {MPI_FLOAT, MPI_SUM, 4, 4, 22, 0, 1, fill_float},
        {MPI_DOUBLE, MPI_PROD, 8, 8, 3, 0, 0, fill_double},
        {MPI_C_DOUBLE_COMPLEX, MPI_PROD, 16, 16, 3, 0, 1, fill_complex},
        {MPI_LONG_DOUBLE, MPI_SUM, sizeof(long double), 10, 60, 0, 0, fill_long},
        {MPI_DOUBLE, own, 8, 8, 45, 0, 0, fill_double},
        {MPI_FLOAT, ordered, 4, 4, 22, 0, 1, fill_float},
    };
    memcpy(kinds, all, sizeof all);
}

static int is(const case_t *one, const char *name) { return !strcmp(one->collective, name); }

static unsigned fold(unsigned hash, const void *bytes, size_t n) {
    uint64_t found = hash, word;
    for (size_t i = 0; i < n; i += sizeof word) {
        word = 0;
        memcpy(&word, (const unsigned char *)bytes + i, n - i < sizeof word ? n - i : sizeof word);
        found = (found ^ word) * 0x9E3779B97F4A7C15U;
        found ^= found >> 29;
    }
    return (unsigned)(found ^ found >> 32);
}

static void fill(const number_t *kind, unsigned char *into, size_t n, int from, int salt) {
    size_t width = kind->width, done = n < PERIOD ? n : PERIOD;
    for (size_t k = 0; k < done; k++) kind->fill(into + k * width, from, k, salt, kind->spread);
    for (size_t more; done < n; done += more) {
        more = n - done < done ? n - done : done;
        memcpy(into + done * width, into, more * width);
    }
}

static unsigned hashed(const number_t *kind, const unsigned char *numbers, size_t n) {
    unsigned found = EMPTY_HASH;
    if (kind->meant == kind->width) return fold(found, numbers, n * kind->width);
    for (size_t k = 0; k < n; k++) found = fold(found, numbers + k * kind->width, kind->meant);
    return found;
}

/* What one rank saw. */
typedef struct {
    unsigned hashes[KINDS], head;
    int again, place, code;
} seen_t;

static int reduce_numbers(const place_t *p, const case_t *one, const number_t *kind, void *sent,
                          void *got, size_t n, int *counts) {
    void *from = kind->in_place && !is(one, "reduce") ? MPI_IN_PLACE : sent;
    int root = kind->last ? p->size - 1 : 0;
    if (kind->in_place && is(one, "reduce") && p->rank == root) from = MPI_IN_PLACE;
    if (is(one, "allreduce")) return MPI_Allreduce(from, got, (int)n, kind->type, kind->op, p->comm);
    if (is(one, "reduce")) return MPI_Reduce(from, got, (int)n, kind->type, kind->op, root, p->comm);
    if (is(one, "scan")) return MPI_Scan(from, got, (int)n, kind->type, kind->op, p->comm);
    if (is(one, "exscan")) return MPI_Exscan(from, got, (int)n, kind->type, kind->op, p->comm);
    if (is(one, "reduce_scatter"))
        return MPI_Reduce_scatter(from, got, counts, kind->type, kind->op, p->comm);
    return MPI_Reduce_scatter_block(from, got, (int)n, kind->type, kind->op, p->comm);
}

/* How many elements a rank sends, and how many of the result are its own. */
static size_t lengths(const place_t *p, const case_t *one, const number_t *kind, size_t n, int *counts,
                      size_t *mine) {
    int root = kind->last ? p->size - 1 : 0;
    *mine = n;
    if (is(one, "reduce") && p->rank != root) *mine = 0;
    if (is(one, "exscan") && !p->rank) *mine = 0;
    for (int r = 0; r < p->size; r++)
        counts[r] = (int)(n / (size_t)p->size + ((size_t)r < n % (size_t)p->size));
    if (is(one, "reduce_scatter")) *mine = (size_t)counts[p->rank];
    return is(one, "reduce_scatter_block") ? n * (size_t)p->size : n;
}

/* A call's result as a hash; `got` stays as it is. */
static unsigned called_once(const place_t *p, const case_t *one, const number_t *kind, int salt,
                            unsigned char *sent, unsigned char *got, seen_t *seen, size_t *mine) {
    size_t n = one->ints / kind->width;
    int *counts = room((size_t)p->size * sizeof(int));
    size_t sent_n = lengths(p, one, kind, n, counts, mine);
    fill(kind, sent, sent_n, p->rank, salt);
    if (kind->in_place) memcpy(got, sent, sent_n * kind->width);
    int code = reduce_numbers(p, one, kind, sent, got, n, counts);
    if (code != MPI_SUCCESS) seen->code = code;
    free(counts);
    return hashed(kind, got, *mine);
}

static void try_kind(const place_t *p, const case_t *one, const number_t *kind, int closely,
                     seen_t *seen) {
    size_t n = one->ints / kind->width, mine = 0;
    size_t bytes = n * kind->width * (is(one, "reduce_scatter_block") ? (size_t)p->size : 1) + 1;
    unsigned char *sent = room(bytes), *got = room(bytes);
    unsigned *hash = &seen->hashes[kind - kinds];
    *hash = EMPTY_HASH;
    for (int salt = n < FEW ? (FEW - 1) / (int)n : 0; salt >= 0; salt--) {
        unsigned found = called_once(p, one, kind, salt, sent, got, seen, &mine);
        *hash = fold(*hash, &found, sizeof found);
        if (closely)
            seen->again &= found == called_once(p, one, kind, salt, sent, got, seen, &mine);
    }
    for (size_t k = PERIOD; closely && k < mine; k++)
        seen->place &= !memcmp(got + k * kind->width, got + (k - PERIOD) * kind->width, kind->meant);
    if (closely && mine) seen->head = fold(EMPTY_HASH, got, kind->meant);
    free(sent), free(got);
}

/* To `text` goes whether all ranks of an allreduce hold the same, whether a second call gives the
 * same, and whether like elements do wherever they stand; then a hash of the message's first element,
 * and those of all that every kind of number gave, "-" where a message is too small for one. Odd
 * variants try a program's own operations, the others those of MPI. */
answer_t bits(const place_t *p, const case_t *one, char *text) {
    seen_t seen = {.again = 1, .place = 1, .code = MPI_SUCCESS};
    int own = one->variant % 2, first = own ? OWN : 0, last = own ? KINDS : OWN, agree = 1, equal;
    size_t at = 0;
    char words[TEXT] = "";
    for (int i = first; i < last; i++)
        if (one->ints >= kinds[i].width) try_kind(p, one, &kinds[i], i == first, &seen);
    for (int i = first; i < last; i++) {
        unsigned all = all_hashed(seen.hashes[i], &equal);
        if (one->ints < kinds[i].width) at += (size_t)sprintf(words + at, ".-");
        else at += (size_t)sprintf(words + at, ".%08x", all);
        agree &= equal || !is(one, "allreduce");
    }
    unsigned head = all_hashed(seen.head, &equal);
    int again = !worst(!seen.again), place = !worst(!seen.place);
    snprintf(text, WORD * 2, "%d%d%d.%08x%s", agree, again, place, head, words);
    return told(seen.code, 0, "");
}
