/* Reductions: all valid pairs of predefined datatypes and operations, and operations of users. */
#include "conformance.h"

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { INTEGERS = 1, FLOATS = 2, COMPLEXES = 4, LOGICALS = 8, BYTES = 16, PAIRS = 32, MODULUS = 101 };
static int rank, size;

/* An element in memory, as numbers small enough to be exact in every type. */
typedef struct {
    long long a, b; /* b: imaginary part, index of a pair, shift of a map */
} element_t;

typedef struct {
    const char *name;
    MPI_Datatype *type;
    int kinds;
    size_t extent;
    void (*store)(void *base, long i, element_t e);
    element_t (*load)(const void *base, long i);
} reducible_t;

typedef struct {
    const char *name;
    MPI_Op *op;
    int kinds; /* of datatypes that it is defined for */
    element_t (*value)(int process, long i);
    element_t (*combine)(element_t earlier, element_t later);
} operation_t;

/* ---- elements ---- */

#define NUMBER(name, C)                                                                            \
    static void store_##name(void *base, long i, element_t e) { ((C *)base)[i] = (C)e.a; }         \
    static element_t load_##name(const void *base, long i) {                                       \
        return (element_t){(long long)((const C *)base)[i], 0};                                    \
    }
#define COMPLEX(name, C)                                                                           \
    static void store_##name(void *base, long i, element_t e) {                                    \
        ((C _Complex *)base)[i] = (C)e.a + (C)e.b * I;                                             \
    }                                                                                              \
    static element_t load_##name(const void *base, long i) {                                       \
        C _Complex z = ((const C _Complex *)base)[i];                                              \
        return (element_t){(long long)creall(z), (long long)cimagl(z)};                            \
    }
#define PAIR(name, C)                                                                              \
    typedef struct {                                                                               \
        C value;                                                                                   \
        int index;                                                                                 \
    } pair_##name;                                                                                 \
    static void store_##name(void *base, long i, element_t e) {                                    \
        ((pair_##name *)base)[i].value = (C)e.a;                                                   \
        ((pair_##name *)base)[i].index = (int)e.b;                                                 \
    }                                                                                              \
    static element_t load_##name(const void *base, long i) {                                       \
        const pair_##name *p = (const pair_##name *)base + i;                                      \
        return (element_t){(long long)p->value, p->index};                                         \
    }

NUMBER(i8, int8_t) NUMBER(i16, int16_t) NUMBER(i32, int32_t) NUMBER(i64, int64_t)
NUMBER(u8, uint8_t) NUMBER(u16, uint16_t) NUMBER(u32, uint32_t) NUMBER(u64, uint64_t)
NUMBER(sc, signed char) NUMBER(uc, unsigned char) NUMBER(s, short) NUMBER(us, unsigned short)
NUMBER(i, int) NUMBER(u, unsigned) NUMBER(l, long) NUMBER(ul, unsigned long) NUMBER(ll, long long)
NUMBER(ull, unsigned long long) NUMBER(f, float) NUMBER(d, double) NUMBER(ld, long double)
NUMBER(bl, bool) NUMBER(aint, MPI_Aint) NUMBER(off, MPI_Offset) NUMBER(cnt, MPI_Count)
COMPLEX(cf, float) COMPLEX(cd, double) COMPLEX(cld, long double)
PAIR(pf, float) PAIR(pd, double) PAIR(pl, long) PAIR(pi, int) PAIR(ps, short) PAIR(pld, long double)

/* A map x -> a x + b, with a gap behind it in memory. */
typedef struct {
    int a, b, gap;
} map_t;

static void store_map(void *base, long i, element_t e) {
    ((map_t *)base)[i].a = (int)e.a;
    ((map_t *)base)[i].b = (int)e.b;
}

static element_t load_map(const void *base, long i) {
    const map_t *m = (const map_t *)base + i;
    return (element_t){m->a, m->b};
}

/* ---- operations ---- */

static element_t small(int p, long i) { return (element_t){(p * 3 + i) % 7, (p + i) % 3}; }
static element_t factor(int p, long i) { return (element_t){(p + i) % 4 ? 1 : 2, (p + i) % 5 == 1}; }
static element_t spread(int p, long i) { return (element_t){(p * 5 + i * 3) % 11, p}; }
static element_t flag(int p, long i) { return (element_t){(p * 3 + i) % 5 > 1, 0}; }
static element_t bits(int p, long i) { return (element_t){(p * 5 + i * 3) % 64, 0}; }
static element_t maps(int p, long i) {
    return (element_t){2 + (p * 7 + i) % 90, (p * 11 + i * 3) % MODULUS};
}

#define COMBINE(name, first, second)                                                               \
    static element_t name(element_t x, element_t y) { return (element_t){first, second}; }
COMBINE(sum, x.a + y.a, x.b + y.b)
COMBINE(product, x.a *y.a - x.b * y.b, x.a *y.b + x.b * y.a)
COMBINE(largest, x.a > y.a ? x.a : y.a, 0)
COMBINE(smallest, x.a < y.a ? x.a : y.a, 0)
COMBINE(both, x.a && y.a, 0)
COMBINE(either, x.a || y.a, 0)
COMBINE(differ, !x.a != !y.a, 0)
COMBINE(bit_and, x.a &y.a, 0)
COMBINE(bit_or, x.a | y.a, 0)
COMBINE(bit_xor, x.a ^ y.a, 0)
COMBINE(where_largest, x.a >= y.a ? x.a : y.a, x.a > y.a || (x.a == y.a && x.b < y.b) ? x.b : y.b)
COMBINE(where_smallest, x.a <= y.a ? x.a : y.a, x.a < y.a || (x.a == y.a && x.b < y.b) ? x.b : y.b)
COMBINE(modular, (x.a + y.a) % MODULUS, (x.b * y.b) % MODULUS)
COMBINE(after, x.a *y.a % MODULUS, (y.a * x.b + y.b) % MODULUS) /* x first, then y */

static void call_modular(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++) store_map(inout, i, modular(load_map(in, i), load_map(inout, i)));
}

static void call_after(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++) store_map(inout, i, after(load_map(in, i), load_map(inout, i)));
}

/* ---- tables ---- */

#define T(mpi, name, kinds, C) {#mpi, &handle_##name, kinds, sizeof(C), store_##name, load_##name}
#define H(name) static MPI_Datatype handle_##name;
H(i8) H(i16) H(i32) H(i64) H(u8) H(u16) H(u32) H(u64) H(sc) H(uc) H(s) H(us) H(i) H(u) H(l) H(ul)
H(ll) H(ull) H(f) H(d) H(ld) H(bl) H(aint) H(off) H(cnt) H(cf) H(cd) H(cld) H(pf) H(pd) H(pl) H(pi)
H(ps) H(pld)
static MPI_Datatype handle_byte, map_type;
static MPI_Op sums, products, maxima, minima, ands, ors, xors, bit_ands, bit_ors, bit_xors, maxlocs,
    minlocs, modulars, afters;

static const reducible_t reducibles[] = {
    T(MPI_INT, i, INTEGERS, int), T(MPI_DOUBLE, d, FLOATS, double),
    T(MPI_DOUBLE_INT, pd, PAIRS, pair_pd), T(MPI_C_DOUBLE_COMPLEX, cd, COMPLEXES, double _Complex),
    T(MPI_INT8_T, i8, INTEGERS, int8_t), T(MPI_INT16_T, i16, INTEGERS, int16_t),
    T(MPI_INT32_T, i32, INTEGERS, int32_t), T(MPI_INT64_T, i64, INTEGERS, int64_t),
    T(MPI_UINT8_T, u8, INTEGERS, uint8_t), T(MPI_UINT16_T, u16, INTEGERS, uint16_t),
    T(MPI_UINT32_T, u32, INTEGERS, uint32_t), T(MPI_UINT64_T, u64, INTEGERS, uint64_t),
    T(MPI_SIGNED_CHAR, sc, INTEGERS, char), T(MPI_UNSIGNED_CHAR, uc, INTEGERS, char),
    T(MPI_SHORT, s, INTEGERS, short), T(MPI_UNSIGNED_SHORT, us, INTEGERS, short),
    T(MPI_UNSIGNED, u, INTEGERS, int), T(MPI_LONG, l, INTEGERS, long),
    T(MPI_UNSIGNED_LONG, ul, INTEGERS, long), T(MPI_LONG_LONG, ll, INTEGERS, long long),
    T(MPI_UNSIGNED_LONG_LONG, ull, INTEGERS, long long), T(MPI_FLOAT, f, FLOATS, float),
    T(MPI_LONG_DOUBLE, ld, FLOATS, long double), T(MPI_C_BOOL, bl, LOGICALS, bool),
    T(MPI_AINT, aint, INTEGERS, MPI_Aint), T(MPI_OFFSET, off, INTEGERS, MPI_Offset),
    T(MPI_COUNT, cnt, INTEGERS, MPI_Count), T(MPI_C_FLOAT_COMPLEX, cf, COMPLEXES, float _Complex),
    T(MPI_C_LONG_DOUBLE_COMPLEX, cld, COMPLEXES, long double _Complex),
    {"MPI_BYTE", &handle_byte, BYTES, 1, store_uc, load_uc},
    T(MPI_FLOAT_INT, pf, PAIRS, pair_pf), T(MPI_LONG_INT, pl, PAIRS, pair_pl),
    T(MPI_2INT, pi, PAIRS, pair_pi), T(MPI_SHORT_INT, ps, PAIRS, pair_ps),
    T(MPI_LONG_DOUBLE_INT, pld, PAIRS, pair_pld),
};
enum { REDUCIBLES = sizeof reducibles / sizeof *reducibles, FEW = 4 };

static const reducible_t map_reducible = {"maps", &map_type, 0, sizeof(map_t), store_map, load_map};

static const operation_t operations[] = {
    {"MPI_SUM", &sums, INTEGERS | FLOATS | COMPLEXES, small, sum},
    {"MPI_PROD", &products, INTEGERS | FLOATS | COMPLEXES, factor, product},
    {"MPI_MAX", &maxima, INTEGERS | FLOATS, spread, largest},
    {"MPI_MIN", &minima, INTEGERS | FLOATS, spread, smallest},
    {"MPI_LAND", &ands, INTEGERS | LOGICALS, flag, both},
    {"MPI_LOR", &ors, INTEGERS | LOGICALS, flag, either},
    {"MPI_LXOR", &xors, INTEGERS | LOGICALS, flag, differ},
    {"MPI_BAND", &bit_ands, INTEGERS | BYTES, bits, bit_and},
    {"MPI_BOR", &bit_ors, INTEGERS | BYTES, bits, bit_or},
    {"MPI_BXOR", &bit_xors, INTEGERS | BYTES, bits, bit_xor},
    {"MPI_MAXLOC", &maxlocs, PAIRS, spread, where_largest},
    {"MPI_MINLOC", &minlocs, PAIRS, spread, where_smallest},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const operation_t user_operations[] = {
    {"a commutative one", &modulars, 0, maps, modular},
    {"one that is not commutative", &afters, 0, maps, after},
};

/* Handles of MPI libraries are no constants. */
static void name_handles(void) {
    MPI_Datatype all[] = {
        MPI_INT, MPI_DOUBLE, MPI_DOUBLE_INT, MPI_C_DOUBLE_COMPLEX, MPI_INT8_T, MPI_INT16_T,
        MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T,
        MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_LONG,
        MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_FLOAT, MPI_LONG_DOUBLE,
        MPI_C_BOOL, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_C_FLOAT_COMPLEX,
        MPI_C_LONG_DOUBLE_COMPLEX, MPI_BYTE, MPI_FLOAT_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT,
        MPI_LONG_DOUBLE_INT};
    MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                    MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};
    MPI_Datatype bare;
    for (int i = 0; i < REDUCIBLES; i++) *reducibles[i].type = all[i];
    for (int i = 0; i < OPERATIONS; i++) *operations[i].op = ops[i];
    MPI_Type_contiguous(2, MPI_INT, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(map_t), &map_type);
    MPI_Type_free(&bare);
    MPI_Type_commit(&map_type);
    MPI_Op_create(call_modular, 1, &modulars);
    MPI_Op_create(call_after, 0, &afters);
}

/* ---- the collectives ---- */

/* One operation on one type: memory for what is sent and what is received. */
typedef struct {
    MPI_Comm comm;
    const reducible_t *t;
    const operation_t *o;
    int count;
    void *sent, *got;
} case_t;

static void fill(const case_t *c, void *base, long n) {
    for (long i = 0; i < n; i++) c->t->store(base, i, c->o->value(rank, i));
}

static void empty(const case_t *c, long n) { memset(c->got, 0x5A, (size_t)n * c->t->extent); }

static int has_two_numbers(const reducible_t *t) {
    return t->kinds == COMPLEXES || t->kinds == PAIRS || t->kinds == 0;
}

static element_t value_of(const case_t *c, int process, long i) {
    element_t e = c->o->value(process, i);
    if (!has_two_numbers(c->t)) e.b = 0;
    return e;
}

/* Elements `from` on of the reduction over processes 0 to `last`. */
static void expect_reduced(const case_t *c, long from, long n, int last, const char *what) {
    for (long i = 0; i < n; i++) {
        element_t wanted = value_of(c, 0, from + i), got = c->t->load(c->got, i);
        for (int p = 1; p <= last; p++) wanted = c->o->combine(wanted, value_of(c, p, from + i));
        int same = wanted.a == got.a && (wanted.b == got.b || !has_two_numbers(c->t));
        if (!same) expect(0, what, c->t->name, c->count);
    }
    expect(1, what, c->t->name, c->count);
}

static void check_allreduce(case_t *c, int in_place) {
    empty(c, c->count);
    if (in_place) fill(c, c->got, c->count);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : c->sent, c->got, c->count, *c->t->type, *c->o->op,
                  c->comm);
    expect_reduced(c, 0, c->count, size - 1, c->o->name);
}

static void check_reduce(case_t *c, int in_place) {
    for (int root = 0; root < size; root++) {
        int mine = in_place && rank == root;
        empty(c, c->count);
        if (mine) fill(c, c->got, c->count);
        MPI_Reduce(mine ? MPI_IN_PLACE : c->sent, c->got, c->count, *c->t->type, *c->o->op, root,
                   c->comm);
        if (rank == root) expect_reduced(c, 0, c->count, size - 1, "reduce");
    }
}

static void check_scans(case_t *c, int in_place) {
    empty(c, c->count);
    if (in_place) fill(c, c->got, c->count);
    MPI_Scan(in_place ? MPI_IN_PLACE : c->sent, c->got, c->count, *c->t->type, *c->o->op, c->comm);
    expect_reduced(c, 0, c->count, rank, "scan");
    if (in_place) fill(c, c->got, c->count);
    MPI_Exscan(in_place ? MPI_IN_PLACE : c->sent, c->got, c->count, *c->t->type, *c->o->op,
               c->comm);
    if (rank) expect_reduced(c, 0, c->count, rank - 1, "exscan");
}

static void check_reduce_scatters(case_t *c, int in_place) {
    int *counts = malloc((size_t)size * sizeof *counts), from = 0, total = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = r % 3 == 1 ? 0 : c->count;
        if (r < rank) from += counts[r];
        total += counts[r];
    }
    if (in_place) fill(c, c->got, total);
    MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : c->sent, c->got, counts, *c->t->type, *c->o->op,
                       c->comm);
    expect_reduced(c, from, counts[rank], size - 1, "reduce_scatter");
    if (in_place) fill(c, c->got, (long)size * c->count);
    MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : c->sent, c->got, c->count, *c->t->type,
                             *c->o->op, c->comm);
    expect_reduced(c, (long)rank * c->count, c->count, size - 1, "reduce_scatter_block");
    free(counts);
}

static void check_case(MPI_Comm comm, const reducible_t *t, const operation_t *o, int count) {
    size_t bytes = ((size_t)size * (size_t)count + 1) * t->extent;
    case_t c = {comm, t, o, count, calloc(1, bytes), calloc(1, bytes)};
    if (!c.sent || !c.got) MPI_Abort(MPI_COMM_WORLD, 3);
    fill(&c, c.sent, (long)size * count);
    for (int in_place = 0; in_place < 2; in_place++) {
        check_allreduce(&c, in_place);
        if (ours_only || count > 1000) continue;
        check_reduce(&c, in_place);
        check_scans(&c, in_place);
        check_reduce_scatters(&c, in_place);
    }
    free(c.sent), free(c.got);
}

void check_reductions(MPI_Comm comm, int count, int all_types) {
    if (!map_type) name_handles();
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < (all_types ? REDUCIBLES : FEW); i++)
        for (int o = 0; o < OPERATIONS; o++)
            if (reducibles[i].kinds & operations[o].kinds)
                check_case(comm, &reducibles[i], &operations[o], count);
    for (int o = 0; o < 2; o++) check_case(comm, &map_reducible, &user_operations[o], count);
}
