/* Collectives that move data. */
#include "legal.h"

#include <stdlib.h>
#include <string.h>

/* ---- where ---- */

place_t place_in(MPI_Comm comm, int root, int upper) {
    place_t p = {.comm = comm, .upper = upper};
    MPI_Comm_test_inter(comm, &p.between);
    MPI_Comm_rank(comm, &p.rank);
    MPI_Comm_size(comm, &p.size);
    p.peers = p.size;
    if (p.between) MPI_Comm_remote_size(comm, &p.peers);
    /* of an intercommunicator the root is in the first group */
    p.in_root_group = !p.between || !upper;
    p.root = p.root_word = root % (p.in_root_group ? p.size : p.peers);
    p.is_root = p.in_root_group && p.rank == p.root;
    if (p.between && p.in_root_group) p.root_word = p.is_root ? MPI_ROOT : MPI_PROC_NULL;
    return p;
}

int own_id(const place_t *p) { return p->rank + (p->upper ? UPPER : 0); }
int peer_id(const place_t *p, int peer) { return peer + (p->between && !p->upper ? UPPER : 0); }

static int root_id(const place_t *p) { return p->root; }

/* ---- what ---- */

typedef enum { NONE, ONE, EACH, ROOT_EACH, TO_ROOT, FROM_ROOT } blocks_t;
typedef struct { const char *name; blocks_t out, in; int rooted, counts; } move_t;

static const move_t MOVES[] = {
    {"bcast", NONE, FROM_ROOT, 1, 0},     {"allgather", ONE, EACH, 0, 0},
    {"allgatherv", ONE, EACH, 0, 1},      {"alltoall", EACH, EACH, 0, 0},
    {"alltoallv", EACH, EACH, 0, 1},      {"gather", TO_ROOT, ROOT_EACH, 1, 0},
    {"scatter", ROOT_EACH, FROM_ROOT, 1, 0},
};

static const move_t *move_named(const char *name) {
    for (size_t i = 0; i < sizeof MOVES / sizeof *MOVES; i++)
        if (!strcmp(MOVES[i].name, name)) return &MOVES[i];
    return NULL;
}

int is_move(const char *name) { return move_named(name) != NULL; }
int is_rooted(const char *name) {
    const move_t *found = move_named(name);
    return !strcmp(name, "reduce") || (found && found->rooted);
}
int has_counts(const char *name) {
    const move_t *found = move_named(name);
    return !strcmp(name, "reduce_scatter") || (found && found->counts);
}

/* Of one side of a call: its blocks, how many elements each has and where they lie. */
typedef struct {
    layout_t layout;
    area_t area, before; /* before: what it held, or is to hold */
    int n, usual, *counts, *at; /* usual: what insignificant arguments say, too */
    size_t total;
} side_t;

static int blocks_of(const place_t *p, const move_t *m, blocks_t kind) {
    switch (kind) {
    case ONE: return 1;
    case EACH: return p->peers;
    case ROOT_EACH: return p->is_root ? p->peers : 0;
    case TO_ROOT: return !p->between || !p->in_root_group;
    case FROM_ROOT: return !p->between || !p->in_root_group || (p->is_root && m->out == NONE);
    default: return 0;
    }
}

/* Values that `from` has for `to`: uneven ones of alltoallv are the same both ways in place. */
static size_t values_for(const case_t *one, const way_t *w, int from, int to, int each) {
    if (!w->uneven) return one->ints;
    int low = from < to ? from : to, high = from < to ? to : from;
    if (!each) return one->ints * (size_t)(from % 3);
    return one->ints * (size_t)(w->in_place ? (low + 2 * high) % 3 : (from + 2 * to) % 4);
}

static side_t new_side(const place_t *p, const case_t *one, const way_t *w, const move_t *m, int out) {
    side_t s = {.n = blocks_of(p, m, out ? m->out : m->in)};
    int columns = s.n ? s.n : p->peers, each = m->out == EACH;
    s.layout = new_layout(out ? w->out : w->in, one->ints, columns);
    s.counts = room((size_t)(s.n + 1) * sizeof(int));
    s.at = room((size_t)(s.n + 1) * sizeof(int));
    size_t unit = s.layout.n ? s.layout.n : 1;
    int spread = w->uneven && m->counts && (!out || each);
    s.usual = (int)(one->ints / unit);
    s.total = spread ? 1 : 0;
    for (int i = 0; i < s.n; i++) {
        int r = spread ? s.n - 1 - i : i; /* backwards and with gaps */
        int from = out ? own_id(p) : peer_id(p, r);
        size_t values = values_for(one, w, from, out ? peer_id(p, r) : own_id(p), each);
        s.counts[r] = (int)(values / unit);
        s.at[r] = out && w->shared ? 0 : (int)s.total;
        s.total += (size_t)s.counts[r] + (size_t)spread;
    }
    if (out && w->shared) s.total = 4 * (one->ints + 1);
    s.area = new_area(&s.layout, s.total, w->shift);
    s.before = new_area(&s.layout, s.total, w->shift);
    return s;
}

static void free_side(side_t *s) {
    free_layout(&s->layout);
    free_area(&s->area);
    free_area(&s->before);
    free(s->counts);
    free(s->at);
}

static void put_block(side_t *s, const area_t *area, int block, int from, int to) {
    put(area, &s->layout, (size_t)s->at[block], (size_t)s->counts[block], from, to);
}

/* ---- one call ---- */

static void fill_out(const place_t *p, const way_t *w, const move_t *m, side_t *out) {
    for (int i = 0; i < out->n; i++) {
        int to = m->out == EACH || m->out == ROOT_EACH ? peer_id(p, i) : 0;
        if (w->shared) to = 0;
        put_block(out, &out->area, i, own_id(p), to);
        put_block(out, &out->before, i, own_id(p), to);
    }
}

static void fill_in(const place_t *p, const way_t *w, const move_t *m, side_t *in) {
    int for_each = m->out == EACH || m->out == ROOT_EACH, root = m->in == FROM_ROOT;
    for (int i = 0; i < in->n; i++) {
        int from = root ? root_id(p) : peer_id(p, i), to = for_each && !w->shared ? own_id(p) : 0;
        int mine = w->in_place && !for_each && !p->between && i == p->rank;
        if (!(root && w->in_place && p->is_root)) put_block(in, &in->before, i, from, to);
        if (root && m->out == NONE && p->is_root) put_block(in, &in->area, i, from, to);
        if (mine && !root) put_block(in, &in->area, i, own_id(p), 0);
        if (w->in_place && m->out == EACH) put_block(in, &in->area, i, own_id(p), peer_id(p, i));
    }
}

/* The three words by which a call is told of data. */
typedef struct { void *buffer; int count; MPI_Datatype type; } words_t;

static words_t words_of(side_t *s, const way_t *w, int ignored) {
    if (ignored && w->without_ignored) return (words_t){NULL, 0, MPI_DATATYPE_NULL};
    int count = s->n ? s->counts[0] : s->usual;
    if (!s->n || !w->absolute) return (words_t){s->area.base, count, s->layout.type};
    make_absolute(&s->layout, &s->area);
    return (words_t){MPI_BOTTOM, count, s->layout.type};
}

static int call(const place_t *p, const way_t *w, const move_t *m, side_t *out, side_t *in) {
    int gathers = m->in == ROOT_EACH, scatters = m->out == ROOT_EACH;
    int in_place = w->in_place && (!m->rooted || p->is_root);
    words_t s = words_of(out, w, !out->n), r = words_of(in, w, !in->n);
    if (in_place && scatters) r.buffer = MPI_IN_PLACE;
    else if (in_place && m->out != NONE) s.buffer = MPI_IN_PLACE;
    if (in_place && w->without_ignored) {
        words_t *ignored = scatters ? &r : &s;
        ignored->count = 0;
        ignored->type = MPI_DATATYPE_NULL;
    }
    int nothing = in_place && w->without_ignored && m->counts;
    if (!strcmp(m->name, "bcast")) return MPI_Bcast(r.buffer, r.count, r.type, p->root_word, p->comm);
    if (!strcmp(m->name, "allgather"))
        return MPI_Allgather(s.buffer, s.count, s.type, r.buffer, r.count, r.type, p->comm);
    if (!strcmp(m->name, "allgatherv"))
        return MPI_Allgatherv(s.buffer, s.count, s.type, r.buffer, in->counts, in->at, r.type,
                              p->comm);
    if (!strcmp(m->name, "alltoall"))
        return MPI_Alltoall(s.buffer, s.count, s.type, r.buffer, r.count, r.type, p->comm);
    if (!strcmp(m->name, "alltoallv"))
        return MPI_Alltoallv(s.buffer, nothing ? NULL : out->counts, nothing ? NULL : out->at,
                             s.type, r.buffer, in->counts, in->at, r.type, p->comm);
    if (gathers)
        return MPI_Gather(s.buffer, s.count, s.type, r.buffer, r.count, r.type, p->root_word,
                          p->comm);
    return MPI_Scatter(s.buffer, s.count, s.type, r.buffer, r.count, r.type, p->root_word, p->comm);
}

answer_t move(const place_t *p, const case_t *one, const way_t *w) {
    const move_t *m = move_named(one->collective);
    side_t out = new_side(p, one, w, m, 1), in = new_side(p, one, w, m, 0);
    fill_out(p, w, m, &out);
    fill_in(p, w, m, &in);
    if (w->constant) make_constant(&out.area);
    int code = call(p, w, m, &out, &in), changed = differs(&out.area, &out.before);
    answer_t answer = told(code, changed || differs(&in.area, &in.before),
                           changed ? "what is sent was changed" : "what is received is wrong");
    free_side(&out);
    free_side(&in);
    return answer;
}
