/* Broadcasts without groups, made of messages (the paper's section 2.1; Thakur et al., 2005).
 *
 * Those that send the message whole send it as the user's datatype; those that cut it send bytes,
 * since where an element begins is not the same on processes with different datatypes. */
#include "bcast.h"

enum { AT_ONCE = 32 }; /* messages under way of one process */

/* ---- the whole message along a tree ---- */

static int receive_whole(ct_message_t *m, const ct_team_t *team, int parent) {
    MPI_Status status;
    int error = PMPI_Recv(m->buffer, m->count, m->type, team->rank_of(team, parent), CT_BCAST_TAG,
                          m->comm, &status);
    m->in_buffer = error == MPI_SUCCESS;
    return error;
}

/* Send to the processes first ... end - 1, to at most AT_ONCE at the same time. */
static int send_whole(ct_message_t *m, const ct_team_t *team, int first, int end) {
    MPI_Request requests[AT_ONCE];
    int error = MPI_SUCCESS;
    while (first < end && error == MPI_SUCCESS) {
        int n = 0;
        for (; n < AT_ONCE && first < end && error == MPI_SUCCESS; first++) {
            error = PMPI_Isend(m->buffer, m->count, m->type, team->rank_of(team, first), CT_BCAST_TAG,
                               m->comm, &requests[n]);
            if (error == MPI_SUCCESS) n++;
        }
        int waited = PMPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        if (error == MPI_SUCCESS) error = waited;
    }
    return error;
}

/* As a k-ary tree of numbers: the children of v are k v + 1 ... k v + k. */
static int along_tree(ct_message_t *m, const ct_team_t *team, int arity) {
    int v = team->number, error = ct_message_buffer(m);
    long first = (long)v * arity + 1, end = first + arity;
    if (error == MPI_SUCCESS && v) error = receive_whole(m, team, (v - 1) / arity);
    if (error != MPI_SUCCESS || first >= team->size) return error;
    return send_whole(m, team, (int)first, (int)(end < team->size ? end : team->size));
}

int ct_bcast_flat(ct_message_t *m, const ct_team_t *team) {
    return along_tree(m, team, team->size);
}
int ct_bcast_chain(ct_message_t *m, const ct_team_t *team) { return along_tree(m, team, 1); }
int ct_bcast_binary(ct_message_t *m, const ct_team_t *team) { return along_tree(m, team, 2); }

int ct_bcast_binomial(ct_message_t *m, const ct_team_t *team) {
    int v = team->number, n = team->size, span = 1, error = ct_message_buffer(m);
    while (span < n && !(v & span)) span *= 2;
    if (error == MPI_SUCCESS && v) error = receive_whole(m, team, v - span);
    for (span /= 2; span && error == MPI_SUCCESS; span /= 2)
        if (v + span < n) error = send_whole(m, team, v + span, v + span + 1);
    return error;
}

/* ---- bytes ---- */

static int send_bytes(ct_message_t *m, int rank, size_t from, size_t to, MPI_Request *request) {
    return PMPI_Isend(m->bytes + from, (int)(to - from), MPI_BYTE, rank, CT_BCAST_TAG, m->comm,
                      request);
}

static int receive_bytes(ct_message_t *m, int rank, size_t from, size_t to, MPI_Request *request) {
    return PMPI_Irecv(m->bytes + from, (int)(to - from), MPI_BYTE, rank, CT_BCAST_TAG, m->comm,
                      request);
}

/* Wait for a message of so many bytes; one that is shorter was sent by a call with another count. */
static int all_received(MPI_Request *request, size_t bytes) {
    MPI_Status status;
    int got, error = PMPI_Wait(request, &status);
    if (error == MPI_SUCCESS) error = PMPI_Get_count(&status, MPI_BYTE, &got);
    return error == MPI_SUCCESS && (size_t)got != bytes ? MPI_ERR_TRUNCATE : error;
}

/* Give up what is under way, since the user's buffer is soon not ours any more. */
static void give_up(MPI_Request *requests, int n) {
    for (int i = 0; i < n; i++) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        PMPI_Cancel(&requests[i]);
        PMPI_Request_free(&requests[i]);
    }
}

/* ---- pipeline ---- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Segment k is received while k - 1 is sent on. */
static int pass_segments(ct_message_t *m, int before, int after, MPI_Request *in, MPI_Request *out) {
    size_t step = smaller((size_t)m->segsize, m->msize), from = 0;
    int k = 0, error = MPI_SUCCESS;
    if (before >= 0) error = receive_bytes(m, before, 0, step, &in[0]);
    for (; from < m->msize && error == MPI_SUCCESS; from += step, k = !k) {
        size_t to = smaller(from + step, m->msize), next = smaller(to + step, m->msize);
        if (before >= 0 && to < next) error = receive_bytes(m, before, to, next, &in[!k]);
        if (before >= 0 && error == MPI_SUCCESS) error = all_received(&in[k], to - from);
        if (after >= 0 && error == MPI_SUCCESS) error = PMPI_Wait(&out[k], MPI_STATUS_IGNORE);
        if (after >= 0 && error == MPI_SUCCESS) error = send_bytes(m, after, from, to, &out[k]);
    }
    return error == MPI_SUCCESS ? PMPI_Waitall(2, out, MPI_STATUSES_IGNORE) : error;
}

int ct_bcast_pipeline(ct_message_t *m, const ct_team_t *team) {
    MPI_Request requests[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                               MPI_REQUEST_NULL};
    int v = team->number, error = ct_message_bytes(m);
    int before = v ? team->rank_of(team, v - 1) : -1;
    int after = v + 1 < team->size ? team->rank_of(team, v + 1) : -1;
    if (error == MPI_SUCCESS) error = pass_segments(m, before, after, &requests[0], &requests[2]);
    if (error != MPI_SUCCESS) give_up(requests, 4);
    else m->in_bytes = 1;
    return error;
}

/* ---- scatter, then allgather round a ring ---- */

typedef struct {
    size_t piece, all; /* bytes of each process's piece but for the last ones, and of all */
} cut_t;

static size_t begin_of(const cut_t *cut, int number) {
    return smaller((size_t)number * cut->piece, cut->all);
}

/* Down a binomial tree: a process gets the pieces of all below it, and keeps its own. */
static int scatter(ct_message_t *m, const ct_team_t *team, const cut_t *cut, MPI_Request *request) {
    int v = team->number, n = team->size, span = 1, error = MPI_SUCCESS;
    while (span < n && !(v & span)) span *= 2;
    if (v) {
        size_t from = begin_of(cut, v), to = begin_of(cut, v + span < n ? v + span : n);
        if (from == to) return MPI_SUCCESS; /* and so it is for all below */
        error = receive_bytes(m, team->rank_of(team, v - span), from, to, request);
        if (error == MPI_SUCCESS) error = all_received(request, to - from);
    }
    for (span /= 2; span && error == MPI_SUCCESS; span /= 2) {
        if (v + span >= n) continue;
        int end = v + 2 * span < n ? v + 2 * span : n;
        size_t from = begin_of(cut, v + span), to = begin_of(cut, end);
        if (from == to) continue;
        error = send_bytes(m, team->rank_of(team, v + span), from, to, request);
        if (error == MPI_SUCCESS) error = PMPI_Wait(request, MPI_STATUS_IGNORE);
    }
    return error;
}

static int gather_round(ct_message_t *m, const ct_team_t *team, const cut_t *cut,
                        MPI_Request *requests) {
    int v = team->number, n = team->size, error = MPI_SUCCESS;
    int right = team->rank_of(team, (v + 1) % n), left = team->rank_of(team, (v + n - 1) % n);
    for (int i = 1; i < n && error == MPI_SUCCESS; i++) {
        int mine = (v - i + 1 + n) % n, theirs = (v - i + n) % n;
        size_t from = begin_of(cut, theirs), to = begin_of(cut, theirs + 1);
        size_t own = begin_of(cut, mine), end = begin_of(cut, mine + 1);
        if (from < to) error = receive_bytes(m, left, from, to, &requests[0]);
        if (own < end && error == MPI_SUCCESS) error = send_bytes(m, right, own, end, &requests[1]);
        if (from < to && error == MPI_SUCCESS) error = all_received(&requests[0], to - from);
        if (error == MPI_SUCCESS) error = PMPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    return error;
}

int ct_bcast_scatter_ring_allgather(ct_message_t *m, const ct_team_t *team) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    size_t n = (size_t)team->size;
    cut_t cut = {(m->msize + n - 1) / n, m->msize};
    int error = ct_message_bytes(m);
    if (error == MPI_SUCCESS) error = scatter(m, team, &cut, &requests[0]);
    if (error == MPI_SUCCESS) error = gather_round(m, team, &cut, requests);
    if (error != MPI_SUCCESS) give_up(requests, 2);
    else m->in_bytes = 1;
    return error;
}
