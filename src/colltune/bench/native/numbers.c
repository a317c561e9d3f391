/* What is reduced where its bits count. The values are those that catalogues were measured with. */
#include "numbers.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MOST_TRIES = 8 };
const unsigned EMPTY_HASH = 2166136261U;
number_t number_kinds[KINDS];

/* ---- data ---- */

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

/* The second one is the first again, in place. */
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
    memcpy(number_kinds, all, sizeof all);
}

void fill_numbers(const number_t *kind, unsigned char *into, size_t n, int from, int salt) {
    size_t width = kind->width, done = n < PERIOD ? n : PERIOD;
    for (size_t k = 0; k < done; k++) kind->fill(into + k * width, from, k, salt, kind->spread);
    for (size_t more; done < n; done += more) {
        more = n - done < done ? n - done : done;
        memcpy(into + done * width, into, more * width);
    }
}

/* ---- hashes ---- */

unsigned fold_hash(unsigned hash, const void *bytes, size_t n) {
    uint64_t found = hash, word;
    for (size_t i = 0; i < n; i += sizeof word) {
        word = 0;
        memcpy(&word, (const unsigned char *)bytes + i, n - i < sizeof word ? n - i : sizeof word);
        found = (found ^ word) * 0x9E3779B97F4A7C15U;
        found ^= found >> 29;
    }
    return (unsigned)(found ^ found >> 32);
}

unsigned hash_numbers(const number_t *kind, const unsigned char *numbers, size_t n) {
    unsigned found = EMPTY_HASH;
    if (kind->meant == kind->width) return fold_hash(found, numbers, n * kind->width);
    for (size_t k = 0; k < n; k++) found = fold_hash(found, numbers + k * kind->width, kind->meant);
    return found;
}

/* ---- checks ---- */

/* Sums alone: a product of complex numbers may be rounded otherwise where its factors change places,
 * and that of many leaves the range of numbers. */
number_t summed_kind(int number) {
    const number_t all[SUMMED] = {
        {MPI_DOUBLE, MPI_SUM, 8, 8, 45, 0, 0, fill_double},
        {MPI_FLOAT, MPI_SUM, 4, 4, 22, 0, 0, fill_float},
        {MPI_C_DOUBLE_COMPLEX, MPI_SUM, 16, 16, 45, 0, 0, fill_complex},
        {MPI_LONG_DOUBLE, MPI_SUM, sizeof(long double), 10, 60, 0, 0, fill_long},
    };
    return all[number];
}

int ranks_must_agree(const collective_t *collective) {
    return !strcmp(collective->name, "allreduce");
}

int kinds_to_check(const collective_t *collective) {
    if (!collective->left) return 0;
    return ranks_must_agree(collective) ? SUMMED : 1;
}

/* Is a sum of doubles further from the right one than roundings in any order can bring it? */
static int is_wrong(const call_t *c, const number_t *kind, left_t left, int salt) {
    double low[PERIOD], high[PERIOD];
    const double *got = (const double *)c->recv;
    for (size_t i = 0; i < left.n && i < PERIOD; i++) {
        long double sum = 0, sizes = 0;
        for (int r = left.low; r < left.high; r++) {
            double term = drawn(r, (left.first + i) % PERIOD, salt, kind->spread);
            sum += (long double)term;
            sizes += (long double)fabs(term);
        }
        long double bound = (long double)(left.high - left.low) * (long double)DBL_EPSILON * sizes;
        low[i] = (double)(sum - bound);
        high[i] = (double)(sum + bound);
    }
    for (size_t i = 0; i < left.n; i++)
        if (!(got[i] >= low[i % PERIOD] && got[i] <= high[i % PERIOD])) return 1; /* or no number */
    return 0;
}

sums_t sum_numbers(const call_t *call, const collective_t *collective, const number_t *kind,
                   int (*run)(call_t *call, void *with), void *with) {
    sums_t seen = {MPI_SUCCESS, 0, EMPTY_HASH};
    size_t n = call->msize / kind->width;
    int tries = n && n < FEW ? (int)((FEW + n - 1) / n) : 1;
    call_t c = *call;
    if (!n || kind->type == MPI_DATATYPE_NULL) return seen;
    prepare_typed_call(&c, collective, kind->type, kind->op, kind->width);
    left_t left = collective->left(&c);
    size_t sent = n * (size_t)(collective->send_blocks < 0 ? c.size : 1);
    for (int salt = 0; salt < tries && salt < MOST_TRIES; salt++) {
        fill_numbers(kind, c.send, sent, c.rank, salt);
        memset(c.recv, 0, n * kind->width);
        int code = run(&c, with);
        if (code != MPI_SUCCESS) seen.code = code; /* others may go on, and so does this rank */
        if (kind->type == MPI_DOUBLE && kind->op == MPI_SUM) seen.wrong |= is_wrong(&c, kind, left, salt);
        unsigned found = hash_numbers(kind, c.recv, left.n);
        seen.hash = fold_hash(seen.hash, &found, sizeof found);
    }
    prepare_call(&c, collective); /* the counts are the call's own again */
    return seen;
}
