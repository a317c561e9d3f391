/* Reductions: kinds of elements and operations, and what the calls must leave. */
#include "legal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 24, PRIME = 10007 };
typedef unsigned char byte_t;

/* An element: its datatype, the bytes that it reaches over, and where in them its fields lie.
 * `combine` makes of right what left, which stands before it, and right make together. */
typedef struct {
    MPI_Datatype type;
    MPI_Op op;
    MPI_Aint low, high, extent;
    unsigned fields; /* a bit for each byte that has a meaning */
    void (*fill)(byte_t *element, int from, size_t k);
    void (*combine)(const byte_t *left, byte_t *right);
} element_t;

/* Read and write a field of an element that may lie anywhere. */
#define GET(type, at, place) (*(type *)memcpy(&(type){0}, (at) + (place), sizeof(type)))
#define SET(type, at, place, value) \
    do { type set_ = (type)(value); memcpy((at) + (place), &set_, sizeof set_); } while (0)

static int term(int from, size_t k) { return (int)((unsigned)(k % 1000) + (unsigned)from % 97U + 1U); }

#define ELEMENT(name, type, value, result) \
    static void fill_##name(byte_t *e, int from, size_t k) { SET(type, e, 0, value); } \
    static void combine_##name(const byte_t *l, byte_t *r) { \
        type a = GET(type, l, 0), b = GET(type, r, 0); \
        SET(type, r, 0, result); \
    }
ELEMENT(sum, int, term(from, k), a + b)
ELEMENT(doubles, double, 0.5 * term(from, k), a + b)
ELEMENT(bits, byte_t, term(from, k) * 7, a ^ b)
ELEMENT(shorts, short, (from * 7919 + (int)(k % 997) * 31) % 2003, a > b ? a : b)
ELEMENT(products, uint64_t, 2 * term(from, k) + 1, a * b)
ELEMENT(floats, float, -term(from, k), a < b ? a : b)
ELEMENT(logical, int, (from + (int)(k % 3)) % 3, a && b)

/* The affine maps x -> f x + c modulo a prime: which is first, matters. */
static void affine(uint32_t *f, uint32_t *c, uint32_t g, uint32_t d) {
    *c = (*f * d + *c) % PRIME;
    *f = *f * g % PRIME;
}
#define AFFINE(name, f_at, c_at) \
    static void fill_##name(byte_t *e, int from, size_t k) { \
        SET(uint32_t, e, f_at, 2 + (unsigned)term(from, k)); \
        SET(uint32_t, e, c_at, 1 + (unsigned)term(from, 3 * k)); \
    } \
    static void combine_##name(const byte_t *l, byte_t *r) { \
        uint32_t f = GET(uint32_t, l, f_at), c = GET(uint32_t, l, c_at); \
        affine(&f, &c, GET(uint32_t, r, f_at), GET(uint32_t, r, c_at)); \
        SET(uint32_t, r, f_at, f); \
        SET(uint32_t, r, c_at, c); \
    }
AFFINE(pair, 0, 4)

/* A sum and a maximum, with a gap between them, or one of them below the element's start. */
#define APART(name, first, second) \
    static void fill_##name(byte_t *e, int from, size_t k) { \
        SET(int, e, first, term(from, k)); \
        SET(int, e, second, term(from * 31, k + 5)); \
    } \
    static void combine_##name(const byte_t *l, byte_t *r) { \
        int a = GET(int, l, second), b = GET(int, r, second); \
        SET(int, r, first, GET(int, l, first) + GET(int, r, first)); \
        SET(int, r, second, a > b ? a : b); \
    }
APART(apart, 0, 8)
APART(below, -8, 4)

#define LOCATED(name, type, index, better) \
    static void fill_##name(byte_t *e, int from, size_t k) { \
        SET(type, e, 0, term(from * 13, k) % 5); \
        SET(int, e, index, from + (int)(k % 3)); \
    } \
    static void combine_##name(const byte_t *l, byte_t *r) { \
        type a = GET(type, l, 0), b = GET(type, r, 0); \
        int i = GET(int, l, index), j = GET(int, r, index); \
        SET(type, r, 0, a better b ? a : b); \
        SET(int, r, index, a == b ? (i < j ? i : j) : a better b ? i : j); \
    }
LOCATED(ints, int, 4, <)
LOCATED(reals, double, 8, >)
LOCATED(small, short, 4, <)

/* ---- the table ---- */

enum { SUM, DOUBLES, BITS, SHORTS, PRODUCTS, FLOATS, LOGICAL, PAIR, PACKED, APART_, BELOW_,
       OWN_SUM, INTS_, REALS, SMALL, KINDS };
static element_t kinds[KINDS];
static const element_t *current; /* whose call is under way; for the program's own operations */

static void combine_all(void *left, void *right, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++)
        current->combine((byte_t *)left + i * current->extent, (byte_t *)right + i * current->extent);
}

static element_t own(element_t element, int commutes) {
    MPI_Op_create(combine_all, commutes, &element.op);
    if (element.type != MPI_INT && element.type != MPI_UINT64_T) MPI_Type_commit(&element.type);
    return element;
}

static MPI_Datatype type_of(int lower, int upper, MPI_Aint low, MPI_Aint extent) {
    const int lengths[] = {1, 1};
    const MPI_Aint at[] = {lower, upper};
    MPI_Datatype bare, found;
    MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &bare);
    MPI_Type_create_resized(bare, low, extent, &found);
    MPI_Type_free(&bare);
    return found;
}

#define PLAIN(name, type, mpi, op) \
    (element_t){mpi, op, 0, sizeof(type), sizeof(type), (1U << sizeof(type)) - 1, fill_##name, \
                combine_##name}
#define TOLD(name, mpi, high, fields) \
    (element_t){mpi, MPI_OP_NULL, 0, high, high, fields, fill_##name, combine_##name}

void make_elements(void) {
    MPI_Datatype two;
    MPI_Type_contiguous(2, MPI_INT, &two);
    kinds[SUM] = PLAIN(sum, int, MPI_INT, MPI_SUM);
    kinds[DOUBLES] = PLAIN(doubles, double, MPI_DOUBLE, MPI_SUM);
    kinds[BITS] = PLAIN(bits, byte_t, MPI_BYTE, MPI_BXOR);
    kinds[SHORTS] = PLAIN(shorts, short, MPI_SHORT, MPI_MAX);
    kinds[PRODUCTS] = PLAIN(products, uint64_t, MPI_UINT64_T, MPI_PROD);
    kinds[FLOATS] = PLAIN(floats, float, MPI_FLOAT, MPI_MIN);
    kinds[LOGICAL] = PLAIN(logical, int, MPI_INT, MPI_LAND);
    kinds[PAIR] = own(TOLD(pair, two, 8, 0xFF), 0);
    kinds[PACKED] = own(TOLD(pair, MPI_UINT64_T, 8, 0xFF), 0);
    kinds[APART_] = own(TOLD(apart, type_of(0, 8, 0, 16), 12, 0xF0F), 1);
    kinds[APART_].extent = 16;
    kinds[BELOW_] = own(TOLD(below, type_of(-8, 4, -8, 20), 8, 0xF00F), 1);
    kinds[BELOW_].low = -8;
    kinds[BELOW_].extent = 20;
    kinds[OWN_SUM] = own(TOLD(sum, MPI_INT, 4, 0xF), 1);
    kinds[INTS_] = TOLD(ints, MPI_2INT, 8, 0xFF);
    kinds[INTS_].op = MPI_MINLOC;
    kinds[REALS] = TOLD(reals, MPI_DOUBLE_INT, 16, 0xFFF);
    kinds[REALS].op = MPI_MAXLOC;
    kinds[SMALL] = TOLD(small, MPI_SHORT_INT, 8, 0xF3);
    kinds[SMALL].op = MPI_MINLOC;
}

int choose_element(const char *mode, int variant, way_t *way) {
    static const struct { const char *mode; int first, n; } of[] = {
        {"operations", DOUBLES, 6}, {"non_commutative", PAIR, 2},
        {"own_operations", APART_, 3}, {"pairs", INTS_, 3}, {"odd_addresses", BITS, 1}};
    way->element = SUM;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (strcmp(of[i].mode, mode)) continue;
        way->element = of[i].first + variant % of[i].n;
        return variant / of[i].n;
    }
    return variant;
}

/* ---- what is sent, and what must come ---- */

static area_t area_of(const element_t *e, size_t n, int shift) {
    return new_room(e->low, n ? (MPI_Aint)(n - 1) * e->extent + e->high : e->low, shift);
}

static byte_t *at(const element_t *e, const area_t *area, size_t k) {
    return area->base + (MPI_Aint)k * e->extent;
}

static void fill(const element_t *e, const area_t *area, size_t n, int from) {
    for (size_t k = 0; k < n; k++) e->fill(at(e, area, k), from, k);
}

/* What ranks first..last-1 of the senders make of elements `skipped` and following. */
static void fold(const element_t *e, const area_t *area, size_t n, size_t skipped, int first, int last) {
    byte_t space[2 * MOST_BYTES] = {0}, *left = space + MOST_BYTES;
    for (size_t k = 0; k < n && first < last; k++) {
        e->fill(at(e, area, k), last - 1, skipped + k);
        for (int r = last - 2; r >= first; r--) {
            e->fill(left, r, skipped + k);
            e->combine(left, at(e, area, k));
        }
    }
}

/* Bytes between an element's fields, of MPI's own pairs, belong to nobody. */
static void forget_padding(const element_t *e, const area_t *area, size_t n) {
    if (e->op != MPI_MINLOC && e->op != MPI_MAXLOC) return;
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < e->extent && (k + 1 < n || i < e->high); i++)
            if (!(e->fields >> i & 1)) at(e, area, k)[i] = 0;
}

static int is(const case_t *one, const char *name) { return !strcmp(one->collective, name); }
int is_reduction(const char *name) {
    static const char *const all[] = {"allreduce", "reduce", "scan", "exscan", "reduce_scatter",
                                      "reduce_scatter_block"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i], name)) return 1;
    return 0;
}

/* Of one call: lengths in elements, and the ranks of those that are combined. */
typedef struct {
    size_t sent, got, skipped;
    int first, last, *counts;
} extent_t;

static extent_t extent_of(const place_t *p, const case_t *one, const way_t *w) {
    int start = p->between && !p->upper ? UPPER : 0;
    extent_t x = {one->ints, one->ints, 0, start, start + p->peers, room((size_t)p->size * sizeof(int))};
    if (is(one, "scan")) x.last = p->rank + 1;
    if (is(one, "exscan")) x.last = p->rank;
    if (is(one, "exscan") && !p->rank) x.got = 0;
    if (is(one, "reduce") && (!p->in_root_group || !p->is_root)) x.got = 0;
    if (is(one, "reduce") && p->between && p->in_root_group) x.sent = 0;
    if (!is(one, "reduce_scatter") && !is(one, "reduce_scatter_block")) return x;
    /* both groups of an intercommunicator scatter as many */
    size_t blocks = (size_t)p->size * (size_t)(p->between ? p->peers : 1), left;
    if (is(one, "reduce_scatter_block") || p->between) x.sent = one->ints * blocks;
    left = x.sent;
    for (int r = 0; r < p->size; r++) {
        size_t n = x.sent / (size_t)p->size + (r < (int)(x.sent % (size_t)p->size));
        if (w->uneven) n = r == p->size - 1 ? left : r % 2 ? left / 2 : 0;
        x.counts[r] = (int)n;
        left -= n;
        if (r < p->rank) x.skipped += n;
    }
    x.got = (size_t)x.counts[p->rank];
    return x;
}

static int call(const place_t *p, const case_t *one, const element_t *e, const void *s, void *r,
                const extent_t *x) {
    int n = (int)one->ints;
    if (is(one, "allreduce")) return MPI_Allreduce(s, r, n, e->type, e->op, p->comm);
    if (is(one, "reduce")) return MPI_Reduce(s, r, n, e->type, e->op, p->root_word, p->comm);
    if (is(one, "scan")) return MPI_Scan(s, r, n, e->type, e->op, p->comm);
    if (is(one, "exscan")) return MPI_Exscan(s, r, n, e->type, e->op, p->comm);
    if (is(one, "reduce_scatter"))
        return MPI_Reduce_scatter(s, r, x->counts, e->type, e->op, p->comm);
    return MPI_Reduce_scatter_block(s, r, x->counts[0], e->type, e->op, p->comm);
}

answer_t reduce(const place_t *p, const case_t *one, const way_t *w) {
    const element_t *e = current = &kinds[w->element];
    extent_t x = extent_of(p, one, w);
    int in_place = w->in_place && (!is(one, "reduce") || p->is_root);
    size_t room_for = in_place && x.sent > x.got ? x.sent : x.got;
    area_t sent = area_of(e, x.sent, w->shift), before = area_of(e, x.sent, w->shift);
    area_t got = area_of(e, room_for, w->shift), wanted = area_of(e, room_for, w->shift);
    fill(e, &sent, x.sent, own_id(p));
    fill(e, &before, x.sent, own_id(p));
    if (in_place) fill(e, &got, x.sent, own_id(p));
    if (in_place) fill(e, &wanted, x.sent, own_id(p));
    fold(e, &wanted, x.got, x.skipped, x.first, x.last);
    if (w->constant) make_constant(&sent);
    void *into = !x.got && w->without_ignored && is(one, "reduce") ? NULL : got.base;
    int code = call(p, one, e, in_place ? MPI_IN_PLACE : sent.base, into, &x);
    int changed = differs(&sent, &before), wrong;
    forget_padding(e, &got, room_for);
    forget_padding(e, &wanted, room_for);
    /* what the first process gets of an exclusive scan is nobody's business */
    wrong = !(is(one, "exscan") && !p->rank) && differs(&got, &wanted);
    answer_t answer = told(code, changed || wrong,
                           changed ? "what is sent was changed" : "what is received is wrong");
    free_area(&sent), free_area(&before), free_area(&got), free_area(&wanted);
    free(x.counts);
    return answer;
}
