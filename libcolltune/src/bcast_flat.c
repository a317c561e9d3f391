/* Broadcasts without groups, made of messages (the paper's section 2.1; Thakur et al., 2005).
 *
 * Those that send the message whole send it as the user's datatype; those that cut it send bytes,
 * since where an element begins is not the same on processes with different datatypes. */
#include "bcast.h"

#include <stdlib.h>

enum { AT_ONCE = 32 }; /* messages under way of one process */

/* ---- the message as a buffer of a datatype and as bytes ---- */

static int copy_of_bytes(ct_message_t *m) {
    int room, position = 0;
    int error = PMPI(Pack_size)(m->count, m->type, m->comm, &room);
    if (error != MPI_SUCCESS) return error;
    if ((size_t)room < m->msize) room = (int)m->msize;
    if (!(m->bytes = malloc((size_t)room))) return MPI_ERR_NO_MEM;
    if (!m->in_buffer) return MPI_SUCCESS;
    error = ct_pack_from(m->buffer, m->count, m->type, m->bytes, room, &position, m->comm);
    if (error == MPI_SUCCESS && (size_t)position != m->msize) error = MPI_ERR_INTERN;
    m->in_bytes = error == MPI_SUCCESS;
    return error;
}

int ct_message_bytes(ct_message_t *m) {
    if (m->bytes) return MPI_SUCCESS; /* leaders get the message once, and then have it in both */
    if (!ct_type_is_plain(m->type)) return copy_of_bytes(m);
    m->bytes = m->buffer;
    m->in_bytes = m->in_buffer;
    return MPI_SUCCESS;
}

int ct_message_buffer(ct_message_t *m) {
    int position = 0, error = MPI_SUCCESS;
    if (m->in_buffer || !m->in_bytes) return MPI_SUCCESS;
    if (m->bytes != m->buffer)
        error = ct_unpack_to(m->bytes, (int)m->msize, &position, m->buffer, m->count, m->type, m->comm);
    m->in_buffer = error == MPI_SUCCESS;
    return error;
}

void ct_message_end(ct_message_t *m) {
    if (m->bytes != m->buffer) free(m->bytes);
    m->bytes = NULL;
}

/* From now on the message has `msize` bytes, in memory of their own. */
static void become(ct_message_t *m, size_t msize) {
    ct_message_end(m);
    free(m->came);
    m->came = msize ? malloc(msize) : NULL;
    m->msize = m->came ? msize : 0;
    m->buffer = m->bytes = m->came;
    m->count = (int)m->msize;
    m->type = MPI_BYTE;
}

static int have_buffer(ct_message_t *m) {
    int error = ct_message_buffer(m);
    if (error != MPI_SUCCESS) become(m, 0);
    return error;
}

/* ---- the whole message along a tree ---- */

/* The message is now this many elements: as many as came. */
static int take_count(ct_message_t *m, const MPI_Status *status) {
    int got, error = PMPI(Get_count)(status, m->type, &got);
    if (error == MPI_SUCCESS && got == m->count) return error;
    size_t size = m->count ? m->msize / (size_t)m->count : 0;
    m->count = error == MPI_SUCCESS && got != MPI_UNDEFINED ? got : 0;
    m->msize = (size_t)m->count * size;
    return MPI_ERR_TRUNCATE;
}

int ct_bcast_receive(ct_message_t *m, int rank) {
    MPI_Status status;
    int error = PMPI(Recv)(m->buffer, m->count, m->type, rank, m->tag, m->comm, &status);
    m->in_buffer = 1;
    m->in_bytes = 0;
    if (error == MPI_SUCCESS) return take_count(m, &status);
    m->msize = 0;
    m->count = 0;
    return error;
}

/* Send to the processes first ... end - 1, to at most AT_ONCE at the same time. */
static int send_whole(ct_message_t *m, const ct_team_t *team, int first, int end) {
    MPI_Request requests[AT_ONCE];
    int error = MPI_SUCCESS;
    while (first < end) {
        int n = 0;
        for (; n < AT_ONCE && first < end; first++) {
            int sent = PMPI(Isend)(m->buffer, m->count, m->type, team->rank_of(team, first), m->tag,
                                  m->comm, &requests[n]);
            if (sent == MPI_SUCCESS) n++;
            error = ct_first(error, sent);
        }
        error = ct_first(error, ct_wait_all(n, requests));
    }
    return error;
}

/* As a k-ary tree of numbers: the children of v are k v + 1 ... k v + k. */
static int along_tree(ct_message_t *m, const ct_team_t *team, int arity) {
    int v = team->number, error = have_buffer(m);
    long first = (long)v * arity + 1, end = first + arity;
    if (v) error = ct_first(error, ct_bcast_receive(m, team->rank_of(team, (v - 1) / arity)));
    if (first >= team->size) return error;
    int sent = send_whole(m, team, (int)first, (int)(end < team->size ? end : team->size));
    return ct_first(error, sent);
}

int ct_bcast_flat(ct_message_t *m, const ct_team_t *team) {
    return along_tree(m, team, team->size);
}
int ct_bcast_chain(ct_message_t *m, const ct_team_t *team) { return along_tree(m, team, 1); }
int ct_bcast_binary(ct_message_t *m, const ct_team_t *team) { return along_tree(m, team, 2); }

int ct_bcast_binomial(ct_message_t *m, const ct_team_t *team) {
    int v = team->number, n = team->size, span = 1, error = have_buffer(m);
    while (span < n && !(v & span)) span *= 2;
    if (v) error = ct_first(error, ct_bcast_receive(m, team->rank_of(team, v - span)));
    for (span /= 2; span; span /= 2)
        if (v + span < n) error = ct_first(error, send_whole(m, team, v + span, v + span + 1));
    return error;
}

/* ---- bytes ---- */

static int have_bytes(ct_message_t *m) {
    int error = ct_message_bytes(m);
    if (error != MPI_SUCCESS) become(m, 0);
    return error;
}

static int send_bytes(ct_message_t *m, int rank, size_t from, size_t to, MPI_Request *request) {
    return PMPI(Isend)(m->bytes + from, (int)(to - from), MPI_BYTE, rank, m->tag, m->comm, request);
}

static int receive_bytes(ct_message_t *m, int rank, size_t from, size_t to, MPI_Request *request) {
    return PMPI(Irecv)(m->bytes + from, (int)(to - from), MPI_BYTE, rank, m->tag, m->comm, request);
}

/* Wait for a message of so many bytes; one that is shorter was sent by a call with another count. */
static int all_received(MPI_Request *request, size_t bytes) {
    MPI_Status status;
    int got, error = PMPI(Wait)(request, &status);
    if (error == MPI_SUCCESS) error = PMPI(Get_count)(&status, MPI_BYTE, &got);
    return error == MPI_SUCCESS && (size_t)got != bytes ? MPI_ERR_TRUNCATE : error;
}

/* ---- pipeline ---- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* How many bytes there are goes ahead, since it tells how many segments follow. */
static int agree_on_size(ct_message_t *m, int before, int after) {
    unsigned long long msize = m->msize;
    int error = MPI_SUCCESS;
    if (before >= 0)
        error = PMPI(Recv)(&msize, sizeof msize, MPI_BYTE, before, m->tag, m->comm, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) msize = 0;
    if (msize != m->msize) {
        error = ct_first(error, MPI_ERR_TRUNCATE);
        become(m, (size_t)msize);
        msize = m->msize;
    }
    if (after < 0) return error;
    return ct_first(error, PMPI(Send)(&msize, sizeof msize, MPI_BYTE, after, m->tag, m->comm));
}

/* Segment k is received while k - 1 is sent on. */
static int pass_segments(ct_message_t *m, int before, int after) {
    MPI_Request in[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, out[2] = {in[0], in[0]};
    size_t step = smaller((size_t)m->segsize, m->msize), from = 0;
    int k = 0, error = MPI_SUCCESS;
    if (before >= 0 && step) error = receive_bytes(m, before, 0, step, &in[0]);
    for (; from < m->msize; from += step, k = !k) {
        size_t to = smaller(from + step, m->msize), next = smaller(to + step, m->msize);
        if (before >= 0 && to < next)
            error = ct_first(error, receive_bytes(m, before, to, next, &in[!k]));
        if (before >= 0) error = ct_first(error, all_received(&in[k], to - from));
        if (after < 0) continue;
        error = ct_first(error, PMPI(Wait)(&out[k], MPI_STATUS_IGNORE));
        error = ct_first(error, send_bytes(m, after, from, to, &out[k]));
    }
    return ct_first(error, ct_wait_all(2, out));
}

int ct_bcast_pipeline(ct_message_t *m, const ct_team_t *team) {
    int v = team->number, error = have_bytes(m);
    int before = v ? team->rank_of(team, v - 1) : -1;
    int after = v + 1 < team->size ? team->rank_of(team, v + 1) : -1;
    error = ct_first(error, agree_on_size(m, before, after));
    error = ct_first(error, pass_segments(m, before, after));
    m->in_bytes = 1;
    return error;
}

/* ---- scatter, then allgather round a ring ---- */

typedef struct {
    size_t piece, all; /* bytes of each process's piece but for the last ones, and of all */
} cut_t;

static size_t begin_of(const cut_t *cut, int number) {
    return smaller((size_t)number * cut->piece, cut->all);
}

/* Pieces without data are sent as well: other counts elsewhere may have some. After an error the
 * message has another length, which tells of it. */
static int send_pieces(ct_message_t *m, const cut_t *cut, int rank, int first, int end, int error,
                       MPI_Request *request) {
    size_t from = begin_of(cut, first), to = begin_of(cut, end);
    if (error == MPI_SUCCESS) return send_bytes(m, rank, from, to, request);
    static char none;
    return PMPI(Isend)(&none, from == to, MPI_BYTE, rank, m->tag, m->comm, request);
}

static int take_pieces(ct_message_t *m, const cut_t *cut, int rank, int first, int end) {
    MPI_Request request = MPI_REQUEST_NULL;
    size_t from = begin_of(cut, first), to = begin_of(cut, end);
    int error = receive_bytes(m, rank, from, to, &request);
    return ct_first(error, all_received(&request, to - from));
}

/* Down a binomial tree: a process gets the pieces of all below it, and keeps its own. */
static int scatter(ct_message_t *m, const ct_team_t *team, const cut_t *cut, int error) {
    int v = team->number, n = team->size, span = 1;
    while (span < n && !(v & span)) span *= 2;
    if (v) {
        int end = v + span < n ? v + span : n;
        error = ct_first(error, take_pieces(m, cut, team->rank_of(team, v - span), v, end));
    }
    for (span /= 2; span; span /= 2) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (v + span >= n) continue;
        int end = v + 2 * span < n ? v + 2 * span : n, rank = team->rank_of(team, v + span);
        error = ct_first(error, send_pieces(m, cut, rank, v + span, end, error, &request));
        error = ct_first(error, PMPI(Wait)(&request, MPI_STATUS_IGNORE));
    }
    return error;
}

static int gather_round(ct_message_t *m, const ct_team_t *team, const cut_t *cut, int error) {
    int v = team->number, n = team->size;
    int right = team->rank_of(team, (v + 1) % n), left = team->rank_of(team, (v + n - 1) % n);
    for (int i = 1; i < n; i++) {
        MPI_Request in = MPI_REQUEST_NULL, out = MPI_REQUEST_NULL;
        int mine = (v - i + 1 + n) % n, theirs = (v - i + n) % n;
        size_t from = begin_of(cut, theirs), to = begin_of(cut, theirs + 1);
        int received = receive_bytes(m, left, from, to, &in);
        int sent = send_pieces(m, cut, right, mine, mine + 1, error, &out);
        error = ct_first(ct_first(error, received), sent);
        error = ct_first(error, all_received(&in, to - from));
        error = ct_first(error, PMPI(Wait)(&out, MPI_STATUS_IGNORE));
    }
    return error;
}

int ct_bcast_scatter_ring_allgather(ct_message_t *m, const ct_team_t *team) {
    size_t n = (size_t)team->size;
    int error = have_bytes(m);
    cut_t cut = {(m->msize + n - 1) / n, m->msize};
    error = scatter(m, team, &cut, error);
    error = gather_round(m, team, &cut, error);
    if (error != MPI_SUCCESS) become(m, 0);
    m->in_bytes = 1;
    return error;
}
