/* Broadcast in groups: first between their leaders, then inside each (Hasanov, Quintin and
 * Lastovetsky: Topology-oblivious optimization of MPI broadcast algorithms on extreme-scale
 * platforms, 2015, algorithm 1).
 *
 * The groups are runs of consecutive ranks, as even as they can be, the larger ones first. The root
 * leads its group in its call, the first process of each other group that one. All messages go over
 * one communicator, so that a group costs nothing to make. Only where the MPI library's own
 * broadcast is to run inside or between groups there are communicators, made once and kept. */
#include "bcast.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* In the order of `algorithms`; `outer` has one more word before them. */
static const char *const inner_words[] = {
    "library",  "flat", "chain", "pipeline", "binary", "binomial", "scatter_ring_allgather", NULL,
};
static const char *const outer_words[] = {
    "same",   "library",  "flat",                   "chain", "pipeline",
    "binary", "binomial", "scatter_ring_allgather", NULL,
};
static ct_flat_bcast_t *const algorithms[] = {
    NULL,          ct_bcast_flat,   ct_bcast_chain,    ct_bcast_pipeline,
    ct_bcast_binary, ct_bcast_binomial, ct_bcast_scatter_ring_allgather,
};
enum { LIBRARY, PIPELINE = 3, BINOMIAL = 5, SCATTER_RING_ALLGATHER };
enum { GROUPS, INNER, OUTER, SEGSIZE };
enum { MOST_GROUPS = 1 << 24, MOST_BYTES = 1 << 30, USUAL_SEGMENT = 32768 };

/* ---- groups ---- */

typedef struct {
    int groups, least, larger; /* of `least` processes each, the first `larger` of one more */
} partition_t;

static partition_t partition_of(int processes, long groups) {
    if (groups == 0) groups = lround(sqrt(processes)); /* equations 2, 4 and 7 */
    if (groups > processes) groups = processes;
    return (partition_t){(int)groups, processes / (int)groups, processes % (int)groups};
}

static int first_of(const partition_t *p, int group) {
    return group * p->least + (group < p->larger ? group : p->larger);
}

static int size_of(const partition_t *p, int group) { return p->least + (group < p->larger); }

static int group_of(const partition_t *p, int rank) {
    int in_larger = p->larger * (p->least + 1);
    if (rank < in_larger) return rank / (p->least + 1);
    return p->larger + (rank - in_larger) / p->least;
}

/* ---- teams ---- */

static int rank_in_run(const ct_team_t *team, int number) {
    return team->first + (team->root + number) % team->size;
}

/* Ranks first ... first + size - 1, of which `root` has the message. */
static ct_team_t run_of_ranks(int first, int size, int root, int rank) {
    return (ct_team_t){.size = size,
                       .number = (rank - root + size) % size,
                       .rank_of = rank_in_run,
                       .first = first,
                       .root = root - first};
}

static int rank_of_leader(const ct_team_t *team, int number) {
    const partition_t *p = team->partition;
    int group = (team->root_group + number) % team->size;
    return number ? first_of(p, group) : team->root_rank;
}

static ct_team_t leaders_of(const partition_t *p, int root, int rank) {
    int group = group_of(p, rank), root_group = group_of(p, root);
    return (ct_team_t){.size = p->groups,
                       .number = (group - root_group + p->groups) % p->groups,
                       .rank_of = rank_of_leader,
                       .partition = p,
                       .root_group = root_group,
                       .root_rank = root};
}

/* ---- the MPI library inside and between groups ---- */

enum { KEPT = 8 }; /* numbers of groups whose communicators are kept with a communicator */
static const char parts_key;

typedef struct {
    MPI_Comm inside, across; /* of a group; of those that stand at the same place of their groups */
} parts_t;

static void release_parts(void *data) {
    parts_t *parts = data;
    if (parts->inside != MPI_COMM_NULL) ct_give_back(&parts->inside);
    if (parts->across != MPI_COMM_NULL) ct_give_back(&parts->across);
    free(parts);
}

/* The communicators for these groups; collective at the first call. */
static int parts_of(ct_comm_t *c, const partition_t *p, const parts_t **found) {
    int group = group_of(p, c->rank), place = c->rank - first_of(p, group);
    parts_t *parts = ct_find(c, &parts_key, p->groups);
    *found = parts;
    if (parts) return MPI_SUCCESS;
    ct_limit(c, &parts_key, KEPT - 1);
    if (!(parts = malloc(sizeof *parts))) return MPI_ERR_NO_MEM;
    parts->across = MPI_COMM_NULL;
    int error = ct_split(c, group, c->rank, &parts->inside);
    if (error == MPI_SUCCESS) error = ct_split(c, place, group, &parts->across);
    if (error != MPI_SUCCESS) {
        release_parts(parts);
        return error;
    }
    *found = ct_keep(c, &parts_key, p->groups, parts, release_parts);
    return *found ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int by_library(ct_message_t *m, int root, MPI_Comm comm) {
    int error = ct_message_buffer(m);
    error = ct_first(error, PMPI(Bcast)(m->buffer, m->count, m->type, root, comm));
    m->in_buffer = 1;
    return error;
}

/* ---- two levels ---- */

/* Between the processes at `place` of their groups; a root elsewhere hands over first. */
static int across_by_library(ct_comm_t *c, ct_message_t *m, const partition_t *p, int root,
                             int place) {
    const parts_t *parts;
    int group = group_of(p, root), origin = first_of(p, group) + place;
    int error = parts_of(c, p, &parts);
    if (error != MPI_SUCCESS) return error;
    if (root != origin && c->rank == root)
        error = PMPI(Send)(m->buffer, m->count, m->type, origin, m->tag, c->base);
    if (root != origin && c->rank == origin) error = ct_bcast_receive(m, root);
    if (c->rank != first_of(p, group_of(p, c->rank)) + place) return error;
    return ct_first(error, by_library(m, group, parts->across));
}

static int across(ct_comm_t *c, ct_message_t *m, const partition_t *p, int root, int place,
                  long word) {
    if (word == LIBRARY) return across_by_library(c, m, p, root, place);
    ct_team_t team = leaders_of(p, root, c->rank);
    return team.rank_of(&team, team.number) == c->rank ? algorithms[word](m, &team) : MPI_SUCCESS;
}

static int inside(ct_comm_t *c, ct_message_t *m, const partition_t *p, int root, int place,
                  long word) {
    int group = group_of(p, c->rank), first = first_of(p, group), size = size_of(p, group);
    int leader = group == group_of(p, root) ? root : first + place;
    if (word == LIBRARY) {
        const parts_t *parts;
        int error = parts_of(c, p, &parts);
        return error == MPI_SUCCESS ? by_library(m, leader - first, parts->inside) : error;
    }
    ct_team_t team = run_of_ranks(first, size, leader, c->rank);
    return size > 1 ? algorithms[word](m, &team) : MPI_SUCCESS;
}

static int in_one_level(ct_comm_t *c, ct_message_t *m, int root, long word) {
    if (word == LIBRARY) return by_library(m, root, c->base);
    ct_team_t team = run_of_ranks(0, c->size, root, c->rank);
    return algorithms[word](m, &team);
}

/* Counts of bytes are an int in MPI's messages. */
static long fit(long word, size_t msize) {
    int cuts = word == PIPELINE || word == SCATTER_RING_ALLGATHER;
    return cuts && msize > INT_MAX ? (long)BINOMIAL : word;
}

static int run(ct_comm_t *c, const ct_call_t *call, const long *values) {
    partition_t p = partition_of(c->size, values[GROUPS]);
    long inner = fit(values[INNER], call->msize);
    long outer = values[OUTER] ? fit(values[OUTER] - 1, call->msize) : inner;
    int root = call->root, error;
    ct_message_t m = {.comm = c->base,
                      .tag = ct_tag(c),
                      .buffer = call->recvbuf,
                      .count = call->recvcount,
                      .type = call->recvtype,
                      .msize = call->msize,
                      .segsize = values[SEGSIZE],
                      .in_buffer = c->rank == root};
    if (!call->msize) return MPI_SUCCESS;
    if (p.groups > 1 && p.groups < c->size && (inner == LIBRARY || outer == LIBRARY)) {
        const parts_t *parts; /* they may be refused, on all processes */
        if (parts_of(c, &p, &parts) != MPI_SUCCESS) return ct_pass(call, call->comm);
    }
    if (p.groups == 1 || p.groups == c->size) {
        error = in_one_level(c, &m, root, p.groups == 1 ? inner : outer);
    } else {
        int place = root - first_of(&p, group_of(&p, root));
        if (outer != LIBRARY || place >= p.least) place = 0;
        error = across(c, &m, &p, root, place, outer);
        error = ct_first(error, inside(c, &m, &p, root, place, inner));
    }
    if (error == MPI_SUCCESS) error = ct_message_buffer(&m);
    ct_message_end(&m);
    free(m.came);
    return error;
}

const ct_algorithm_t ct_bcast_hierarchical = {
    .collective = CT_BCAST,
    .name = "hierarchical",
    .parameters = {{"groups", 0, MOST_GROUPS, 0, NULL},
                   {"inner", 0, 0, BINOMIAL, inner_words},
                   {"outer", 0, 0, 0, outer_words},
                   {"segsize", 1, MOST_BYTES, USUAL_SEGMENT, NULL}},
    .run = run,
};
