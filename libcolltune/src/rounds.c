/* The rounds of a call over nodes: the counters by which the processes of a node wait for each other,
 * and how they wait. */
#include "segment.h"

#include <sched.h>
#include <time.h>

enum { FEW_TURNS = 64, PROBE_EVERY = 16 };
enum { NO_TAG = 0 }; /* of no message: who looks for it lets MPI progress */
#define PATIENCE_SECONDS 1e-3 /* a wait that is longer does not feel NAP_NANOSECONDS more */
#define NAP_NANOSECONDS 50000

/* ---- waiting ---- */

int ct_wait_turn(const ct_hierarchy_t *h, ct_wait_t *wait) {
    if (++wait->turns < FEW_TURNS) return MPI_SUCCESS;
    if (wait->turns % PROBE_EVERY == 0 || wait->is_long) {
        int found;
        int code = PMPI(Iprobe)(MPI_ANY_SOURCE, NO_TAG, h->work, &found, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return code;
        double now = ct_now();
        if (!wait->since) wait->since = now;
        wait->is_long = now - wait->since > PATIENCE_SECONDS;
    }
    struct timespec time = {0, NAP_NANOSECONDS};
    if (wait->is_long) nanosleep(&time, NULL);
    else sched_yield();
    return MPI_SUCCESS;
}

static int await(const ct_hierarchy_t *h, const atomic_ullong *counter, unsigned long long value) {
    ct_wait_t wait = {0};
    while (atomic_load_explicit(counter, memory_order_acquire) < value) {
        int code = ct_wait_turn(h, &wait);
        if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
}

/* ---- rounds ---- */

static ct_line_t *line_of(const ct_hierarchy_t *h, int local) {
    return &h->segment->shared->processes[local];
}

int ct_round_begin(ct_hierarchy_t *h, char **half) {
    ct_segment_t *s = h->segment;
    int code = MPI_SUCCESS, trims = s->trim && !h->local;
    unsigned long long round = ++s->round, lag = trims ? 1 : 2, over = round > lag ? round - lag : 0;
    *half = s->halves + (round % 2) * s->half;
    for (int i = 0; i < h->ppn && code == MPI_SUCCESS; i++)
        code = await(h, &line_of(h, i)->done, over);
    if (trims && code == MPI_SUCCESS) ct_segment_trim(s);
    return code;
}

void ct_round_end(ct_hierarchy_t *h) {
    atomic_store_explicit(&line_of(h, h->local)->done, h->segment->round, memory_order_release);
}

/* Codes of errors mean something in their own process only, classes everywhere. */
static int class_of(int code) {
    int class = MPI_ERR_OTHER;
    if (code == MPI_SUCCESS || PMPI(Error_class)(code, &class) != MPI_SUCCESS) return code;
    return class;
}

void ct_mark(ct_hierarchy_t *h, ct_mark_t mark, int code) {
    unsigned long long round = h->segment->round;
    ct_line_t *mine = line_of(h, h->local);
    atomic_store_explicit(&mine->codes[mark][round % 2], class_of(code), memory_order_relaxed);
    atomic_store_explicit(&mine->marks[mark], round, memory_order_release);
}

void ct_written(ct_hierarchy_t *h, size_t bytes, int code) {
    atomic_ullong *place = &line_of(h, h->local)->bytes[h->segment->round % 2];
    atomic_store_explicit(place, bytes, memory_order_relaxed); /* the mark releases it */
    ct_mark(h, CT_WRITTEN, code);
}

int ct_await(ct_hierarchy_t *h, ct_mark_t mark, int first, int end) {
    unsigned long long round = h->segment->round;
    int code = MPI_SUCCESS;
    for (int i = first; i < end; i++) {
        ct_line_t *other = line_of(h, i);
        code = ct_first(code, await(h, &other->marks[mark], round));
        atomic_int *theirs = &other->codes[mark][round % 2];
        code = ct_first(code, atomic_load_explicit(theirs, memory_order_relaxed));
    }
    return code;
}

int ct_same_size(ct_hierarchy_t *h, int local) {
    int half = h->segment->round % 2;
    atomic_ullong *theirs = &line_of(h, local)->bytes[half], *mine = &line_of(h, h->local)->bytes[half];
    return atomic_load_explicit(theirs, memory_order_relaxed) ==
                   atomic_load_explicit(mine, memory_order_relaxed)
               ? MPI_SUCCESS
               : MPI_ERR_TRUNCATE;
}

int ct_await_written(ct_hierarchy_t *h, int first, int end) {
    int code = ct_await(h, CT_WRITTEN, first, end);
    for (int i = first; i < end; i++) code = ct_first(code, ct_same_size(h, i));
    return code;
}

/* Leader k's counter is on the k-th line, whichever process it is. */
void ct_arrive(ct_hierarchy_t *h, int k, int chunks, int code) {
    unsigned long long round = h->segment->round, value = round << CT_CHUNKS_BITS | (unsigned)chunks;
    ct_line_t *line = line_of(h, k);
    atomic_store_explicit(&line->lost[round % 2], class_of(code), memory_order_relaxed);
    atomic_store_explicit(&line->arrived, value, memory_order_release);
}

int ct_arrived(ct_hierarchy_t *h, int k, int *code) {
    ct_line_t *line = line_of(h, k);
    unsigned long long value = atomic_load_explicit(&line->arrived, memory_order_acquire);
    unsigned long long round = value >> CT_CHUNKS_BITS, most = (1ull << CT_CHUNKS_BITS) - 1;
    *code = atomic_load_explicit(&line->lost[h->segment->round % 2], memory_order_relaxed);
    if (round < h->segment->round) return 0;
    /* a leader that is a round ahead had all chunks of this one */
    return (int)(round > h->segment->round ? most : value & most);
}
