/* Alltoallv between eager and pairwise: messages below a threshold are sent at once, the others in
 * a pairwise exchange (Fagg et al. 2006, section 6.2).
 *
 * There is one message at most from each process to each other, so that what matches what does not
 * depend on who takes which for eager; the threshold only tells when a message is sent. */
#include "exchange.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

static const char key; /* of what communicators keep */
static int keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* One direction of the exchange: the blocks, as MPI's arguments tell. */
typedef struct {
    char *base;
    const int *counts, *displacements;
    MPI_Datatype type;
    MPI_Aint extent;
    MPI_Count size;
} side_t;

/* ---- what a communicator keeps ---- */

static void release(void *data) {
    ct_exchange_t *x = data;
    free(x->requests);
    ct_feedback_release(x->feedback);
    free(x);
}

static ct_exchange_t *new_exchange(int size) {
    ct_exchange_t *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    *x = (ct_exchange_t){.threshold = -1, .asked = -1};
    x->requests = malloc(2 * (size_t)size * sizeof *x->requests);
    if (x->requests) return x;
    release(x);
    return NULL;
}

CT_PUBLIC int colltune_alltoallv_threshold_keyval(void) {
    pthread_mutex_lock(&lock);
    if (keyval == MPI_KEYVAL_INVALID &&
        PMPI(Comm_create_keyval)(ct_no_copy, ct_no_deletion, &keyval, NULL) !=
            MPI_SUCCESS)
        keyval = MPI_KEYVAL_INVALID;
    pthread_mutex_unlock(&lock);
    return keyval;
}

/* The attribute is a convenience: without it all works. */
static void export_threshold(const ct_comm_t *c, ct_exchange_t *x) {
    int number = colltune_alltoallv_threshold_keyval();
    if (number == MPI_KEYVAL_INVALID) return;
    PMPI(Comm_set_attr)(c->comm, number, &x->threshold);
}

int ct_exchange_of(ct_comm_t *c, ct_exchange_t **exchange) {
    *exchange = ct_find(c, &key, 0);
    if (*exchange) return MPI_SUCCESS;
    *exchange = ct_keep(c, &key, 0, new_exchange(c->size), release);
    if (!*exchange) return MPI_ERR_NO_MEM;
    export_threshold(c, *exchange);
    return MPI_SUCCESS;
}

/* ---- arguments ---- */

int ct_exchange_fits(const ct_comm_t *c, const ct_call_t *call, const long *values) {
    (void)values;
    return call->collective == CT_ALLTOALLV && c->size <= INT_MAX / 2;
}

static int are_bad(int n, const int *counts, const int *displacements, MPI_Datatype type) {
    if (!counts || !displacements || type == MPI_DATATYPE_NULL) return 1;
    for (int i = 0; i < n; i++)
        if (counts[i] < 0) return 1;
    return 0;
}

int ct_exchange_refuses(const ct_comm_t *c, const ct_call_t *call) {
    if (call->recvbuf == MPI_IN_PLACE) return 1;
    if (are_bad(c->size, call->recvcounts, call->rdispls, call->recvtype)) return 1;
    return call->sendbuf != MPI_IN_PLACE &&
           are_bad(c->size, call->sendcounts, call->sdispls, call->sendtype);
}

static int side_of(side_t *side, const void *base, const int *counts, const int *displacements,
                   MPI_Datatype type) {
    MPI_Aint lowest;
    *side = (side_t){.base = (char *)base, .counts = counts, .displacements = displacements,
                     .type = type};
    int code = PMPI(Type_size_x)(type, &side->size);
    if (code == MPI_SUCCESS) code = PMPI(Type_get_extent)(type, &lowest, &side->extent);
    return code;
}

static char *block(const side_t *side, int peer) {
    return side->base + side->displacements[peer] * side->extent;
}

static MPI_Count bytes_of(const side_t *side, int peer) {
    return side->counts[peer] * side->size;
}

static int is_eager(const side_t *side, int peer, long threshold) {
    return bytes_of(side, peer) > 0 && bytes_of(side, peer) < threshold;
}

static int is_paired(const side_t *side, int peer, long threshold) {
    return bytes_of(side, peer) > 0 && bytes_of(side, peer) >= threshold;
}

/* ---- the eager part ---- */

/* Post the eager receives, or the sends. */
static int post(const ct_comm_t *c, ct_exchange_t *x, const side_t *side, int sends, long threshold,
                int *n) {
    int code = MPI_SUCCESS, tag = ct_tag(c);
    for (int step = 1; step < c->size; step++) {
        int peer = (c->rank + (sends ? step : c->size - step)) % c->size, count = side->counts[peer];
        MPI_Request *request = &x->requests[*n];
        if (!is_eager(side, peer, threshold)) continue;
        char *at = block(side, peer);
        int posted = sends ? PMPI(Isend)(at, count, side->type, peer, tag, c->base, request)
                           : PMPI(Irecv)(at, count, side->type, peer, tag, c->base, request);
        if (posted == MPI_SUCCESS) ++*n;
        code = ct_first(code, posted);
    }
    return code;
}

/* ---- the pairwise part ---- */

/* What one message of a pair is made of; nothing where there is none. */
typedef struct {
    void *buffer;
    int count, peer;
    MPI_Datatype type;
} half_t;

static half_t half_of(const side_t *side, int peer, long threshold) {
    if (!is_paired(side, peer, threshold)) return (half_t){NULL, 0, MPI_PROC_NULL, MPI_BYTE};
    return (half_t){block(side, peer), side->counts[peer], peer, side->type};
}

static int exchange_pairs(const ct_comm_t *c, const side_t *out, const side_t *in,
                          long threshold) {
    int code = MPI_SUCCESS, tag = ct_tag(c);
    for (int step = 1; step < c->size; step++) {
        half_t sent = half_of(out, (c->rank + step) % c->size, threshold);
        half_t got = half_of(in, (c->rank - step + c->size) % c->size, threshold);
        if (sent.peer == MPI_PROC_NULL && got.peer == MPI_PROC_NULL) continue;
        code = ct_first(code, PMPI(Sendrecv)(sent.buffer, sent.count, sent.type, sent.peer, tag,
                                            got.buffer, got.count, got.type, got.peer, tag, c->base,
                                            MPI_STATUS_IGNORE));
    }
    return code;
}

/* In every round each process has one partner at most, i + j = round (mod size), so that a block is
 * sent in the same moment in which it is replaced. */
static int replace_pairs(const ct_comm_t *c, const side_t *in, long threshold) {
    int code = MPI_SUCCESS;
    for (int round = 0; round < c->size; round++) {
        int peer = (round - c->rank + c->size) % c->size;
        if (peer == c->rank || !is_paired(in, peer, threshold)) continue;
        code = ct_first(code, PMPI(Sendrecv_replace)(block(in, peer), in->counts[peer], in->type, peer,
                                                 ct_tag(c), peer, ct_tag(c), c->base, MPI_STATUS_IGNORE));
    }
    return code;
}

/* ---- both ---- */

static int copy_own(const ct_comm_t *c, const side_t *out, const side_t *in) {
    int me = c->rank;
    if (bytes_of(out, me) == 0 && bytes_of(in, me) == 0) return MPI_SUCCESS;
    return PMPI(Sendrecv)(block(out, me), out->counts[me], out->type, me, ct_tag(c), block(in, me),
                         in->counts[me], in->type, me, ct_tag(c), c->base, MPI_STATUS_IGNORE);
}

static int run_apart(const ct_comm_t *c, ct_exchange_t *x, const side_t *out, const side_t *in,
                     long threshold) {
    int n = 0;
    int code = post(c, x, in, 0, threshold, &n);
    code = ct_first(code, post(c, x, out, 1, threshold, &n));
    code = ct_first(code, copy_own(c, out, in));
    code = ct_first(code, exchange_pairs(c, out, in, threshold));
    return ct_first(code, ct_wait_all(n, x->requests));
}

/* ---- in place ---- */

/* Room for the eager blocks, packed; -1 if one of them cannot be. */
static long long packed_bytes(const ct_comm_t *c, const side_t *in, long threshold) {
    long long total = 0;
    for (int peer = 0; peer < c->size; peer++) {
        int bytes = 0;
        if (peer == c->rank || !is_eager(in, peer, threshold)) continue;
        if (bytes_of(in, peer) > INT_MAX / 2) return -1;
        if (PMPI(Pack_size)(in->counts[peer], in->type, c->base, &bytes) != MPI_SUCCESS) return -1;
        total += bytes;
    }
    return total;
}

/* Receives will overwrite the blocks: send copies, before any receive is posted. */
static int send_copies(const ct_comm_t *c, ct_exchange_t *x, const side_t *in, long threshold,
                       char *buffer, int *n) {
    int code = MPI_SUCCESS;
    for (int step = 1; step < c->size; step++) {
        int to = (c->rank + step) % c->size, bytes = 0, packed = 0;
        if (!is_eager(in, to, threshold)) continue;
        int sent = PMPI(Pack_size)(in->counts[to], in->type, c->base, &bytes);
        if (sent == MPI_SUCCESS)
            sent = ct_pack_from(block(in, to), in->counts[to], in->type, buffer, bytes, &packed,
                                c->base);
        if (sent == MPI_SUCCESS)
            sent = PMPI(Isend)(buffer, packed, MPI_PACKED, to, ct_tag(c), c->base, &x->requests[*n]);
        if (sent == MPI_SUCCESS) ++*n;
        buffer += bytes;
        code = ct_first(code, sent);
    }
    return code;
}

/* Where there is no room for copies, all go in pairs; the partners need not know. */
static int run_in_place(const ct_comm_t *c, ct_exchange_t *x, const side_t *in, long threshold) {
    int n = 0;
    long long room = packed_bytes(c, in, threshold);
    char *buffer = room > 0 ? malloc((size_t)room) : NULL;
    if (!buffer) threshold = 0;
    int code = send_copies(c, x, in, threshold, buffer, &n);
    code = ct_first(code, post(c, x, in, 0, threshold, &n));
    code = ct_first(code, replace_pairs(c, in, threshold));
    code = ct_first(code, ct_wait_all(n, x->requests));
    free(buffer);
    return code;
}

/* ---- the whole ---- */

int ct_exchange_run(const ct_comm_t *c, ct_exchange_t *x, const ct_call_t *call, long threshold) {
    side_t in, out;
    int code = side_of(&in, call->recvbuf, call->recvcounts, call->rdispls, call->recvtype);
    if (code != MPI_SUCCESS) return code;
    if (call->sendbuf == MPI_IN_PLACE) return run_in_place(c, x, &in, threshold);
    code = side_of(&out, call->sendbuf, call->sendcounts, call->sdispls, call->sendtype);
    return code == MPI_SUCCESS ? run_apart(c, x, &out, &in, threshold) : code;
}

/* What users wrote stays in force until the configuration changes. */
static void take_threshold(ct_exchange_t *x, long configured) {
    if (x->runs != &ct_alltoallv_eager_pairwise || x->configured != configured)
        x->configured = x->threshold = configured;
    x->runs = &ct_alltoallv_eager_pairwise;
    if (x->asked >= 0) x->threshold = x->asked;
    x->asked = -1;
}

static int run(ct_comm_t *c, const ct_call_t *call, const long *values) {
    ct_exchange_t *x;
    int code = ct_exchange_of(c, &x);
    if (code != MPI_SUCCESS) return code;
    if (ct_exchange_refuses(c, call)) return ct_pass(call, call->comm);
    take_threshold(x, values[0]);
    return ct_exchange_run(c, x, call, x->threshold);
}

const ct_algorithm_t ct_alltoallv_eager_pairwise = {
    .collective = CT_ALLTOALLV,
    .name = "eager_pairwise",
    .parameters = {{.name = "threshold", .low = 0, .high = LONG_MAX, .usual = 32768}},
    .fits = ct_exchange_fits,
    .run = run,
};

/* ---- what users may call ---- */

CT_PUBLIC int colltune_alltoallv_threshold_get(MPI_Comm comm, long *bytes) {
    ct_comm_t *c = ct_comm(comm);
    ct_exchange_t *x = c ? ct_find(c, &key, 0) : NULL;
    if (!x || (!x->runs && x->asked < 0)) return MPI_ERR_COMM;
    *bytes = x->asked >= 0 ? x->asked : x->threshold;
    return MPI_SUCCESS;
}

CT_PUBLIC int colltune_alltoallv_threshold_set(MPI_Comm comm, long bytes) {
    ct_comm_t *c = bytes < 0 ? NULL : ct_comm(comm);
    ct_exchange_t *x;
    if (bytes < 0) return MPI_ERR_ARG;
    if (!c) return MPI_ERR_COMM;
    int code = ct_exchange_of(c, &x);
    if (code == MPI_SUCCESS) x->asked = bytes;
    return code;
}
