/* Memory that the processes of one node share, and its counters.
 *
 * POSIX shared memory rather than an MPI window: it is released without any communication, and so
 * communicators may be freed in any order. Its name is gone as soon as all have mapped it. */
#include "hierarchy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, NAME_LENGTH = 64, TAG = 1, ATTEMPTS = 100, FEW_TURNS = 64, PROBE_EVERY = 16 };
static const size_t SMALLEST_HALF = (size_t)1 << 16, LARGEST_HALF = (size_t)1 << 26;
#define PATIENCE_SECONDS 1e-3 /* a wait that is longer does not feel NAP_NANOSECONDS more */
#define NAP_NANOSECONDS 50000
#define CHUNKS_BITS 24 /* of `arrived`, below the number of the round */

static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters are shared between processes");

/* What one process tells; each on lines of its own, since others poll them. */
typedef struct {
    _Alignas(LINE) atomic_ullong marks[2]; /* the last round in which it set them */
    atomic_ullong bytes[2];                /* of its call, by the half of the round */
    _Alignas(LINE) atomic_ullong done;     /* the last round that it left */
    _Alignas(LINE) atomic_ullong arrived;  /* of a leader: round << CHUNKS_BITS | chunks */
} process_line_t;

typedef struct {
    _Alignas(LINE) atomic_int error;
    process_line_t processes[];
} shared_t;

struct ct_segment {
    shared_t *shared;
    char *halves;
    size_t half, mapped; /* bytes */
    unsigned long long round;
};

/* ---- making it ---- */

static size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static shared_t *map(int file, size_t bytes) {
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return address == MAP_FAILED ? NULL : address;
}

/* The first process of a node makes it; `name` stays empty if that fails. */
static shared_t *create(size_t bytes, char *name) {
    static atomic_uint made;
    int file = -1;
    for (int i = 0; i < ATTEMPTS && file < 0; i++) {
        unsigned number = atomic_fetch_add(&made, 1);
        long long moment = (long long)(ct_now() * 1e9);
        snprintf(name, NAME_LENGTH, "/colltune-%ld-%u-%llx", (long)getpid(), number, moment);
        file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
        if (file < 0 && errno != EEXIST) break;
    }
    shared_t *shared = NULL;
    /* allocated now: a full file system would kill the process at the first touch */
    if (file >= 0 && posix_fallocate(file, 0, (off_t)bytes) == 0) shared = map(file, bytes);
    else if (file >= 0) close(file);
    if (!shared && file >= 0) shm_unlink(name);
    if (!shared) name[0] = '\0';
    return shared;
}

static shared_t *attach(size_t bytes, const char *name) {
    if (!name[0]) return NULL;
    int file = shm_open(name, O_RDWR, 0);
    return file < 0 ? NULL : map(file, bytes);
}

/* A word from each of the node's others to its first process. */
static int report(const ct_hierarchy_t *h) {
    const int *ranks = h->ranks + h->first[h->node];
    if (h->local) return PMPI_Send(NULL, 0, MPI_BYTE, ranks[0], TAG, h->work);
    int code = MPI_SUCCESS;
    for (int i = 1; i < h->ppn && code == MPI_SUCCESS; i++)
        code = PMPI_Recv(NULL, 0, MPI_BYTE, ranks[i], TAG, h->work, MPI_STATUS_IGNORE);
    return code;
}

/* The node's first process tells the others the name. */
static int share_name(const ct_hierarchy_t *h, char *name) {
    const int *ranks = h->ranks + h->first[h->node];
    if (h->local)
        return PMPI_Recv(name, NAME_LENGTH, MPI_CHAR, ranks[0], TAG, h->work, MPI_STATUS_IGNORE);
    int code = MPI_SUCCESS;
    for (int i = 1; i < h->ppn && code == MPI_SUCCESS; i++)
        code = PMPI_Send(name, NAME_LENGTH, MPI_CHAR, ranks[i], TAG, h->work);
    return code;
}

/* The memory of this node, mapped by all its processes; NULL without. It has a name only while all
 * of them are here: who is late, or never comes, leaves nothing behind. */
static int obtain(const ct_hierarchy_t *h, size_t bytes, shared_t **shared) {
    char name[NAME_LENGTH] = "";
    int code = report(h);
    *shared = code == MPI_SUCCESS && !h->local ? create(bytes, name) : NULL;
    if (code == MPI_SUCCESS) code = share_name(h, name);
    if (code == MPI_SUCCESS && h->local) *shared = attach(bytes, name);
    if (code == MPI_SUCCESS) code = report(h);
    if (!h->local && name[0]) shm_unlink(name);
    return code;
}

static int make(ct_hierarchy_t *h, size_t half, int *had) {
    ct_segment_t *segment = calloc(1, sizeof *segment);
    size_t head = rounded(sizeof(shared_t) + (size_t)h->ppn * sizeof(process_line_t), 4096);
    size_t bytes = head + 2 * half;
    shared_t *shared;
    int code = obtain(h, bytes, &shared);
    long mine[3] = {segment && shared, (long)half, -(long)half}, all[3] = {0, 0, 0};
    int agreed = PMPI_Allreduce(mine, all, 3, MPI_LONG, MPI_MIN, h->work);
    if (code == MPI_SUCCESS) code = agreed;
    if (code == MPI_SUCCESS && all[1] != -all[2]) code = MPI_ERR_TRUNCATE; /* other counts */
    *had = all[0] != 0;
    if (code == MPI_SUCCESS && *had) {
        ct_segment_release(h);
        *segment = (ct_segment_t){shared, (char *)shared + head, half, bytes, 0};
        h->segment = segment;
        return MPI_SUCCESS;
    }
    if (shared) munmap(shared, bytes);
    free(segment);
    return code;
}

int ct_segment(ct_hierarchy_t *h, size_t bytes, int *had) {
    *had = h->segment && bytes <= h->segment->half;
    if (*had || (h->limit && bytes >= h->limit)) return MPI_SUCCESS;
    size_t half = SMALLEST_HALF;
    while (half < bytes && half < LARGEST_HALF) half *= 2;
    half = rounded(half < bytes ? bytes : half, 4096);
    int code = make(h, half, had);
    if (code != MPI_SUCCESS || *had) return code;
    h->limit = half;
    ct_log(1, "no shared memory of %zu bytes on every node: it is tried with less", 2 * half);
    return MPI_SUCCESS;
}

size_t ct_segment_most(const ct_hierarchy_t *h) {
    if (!h->limit || h->limit > LARGEST_HALF) return LARGEST_HALF;
    return h->limit > SMALLEST_HALF ? h->limit / 2 : 0;
}

void ct_segment_release(ct_hierarchy_t *h) {
    if (!h->segment) return;
    munmap(h->segment->shared, h->segment->mapped);
    free(h->segment);
    h->segment = NULL;
}

/* ---- waiting ---- */

int ct_wait_turn(const ct_hierarchy_t *h, ct_wait_t *wait) {
    if (++wait->turns < FEW_TURNS) return MPI_SUCCESS;
    if (wait->turns % PROBE_EVERY == 0 || wait->is_long) {
        int found;
        int code = PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, h->work, &found, MPI_STATUS_IGNORE);
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

static int await(ct_hierarchy_t *h, const atomic_ullong *counter, unsigned long long value) {
    ct_wait_t wait = {0};
    while (atomic_load_explicit(counter, memory_order_acquire) < value) {
        int code = ct_failed(h);
        if (code == MPI_SUCCESS) code = ct_wait_turn(h, &wait);
        if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
}

/* ---- rounds ---- */

int ct_round_begin(ct_hierarchy_t *h, char **half) {
    ct_segment_t *segment = h->segment;
    unsigned long long round = ++segment->round;
    *half = segment->halves + (round % 2) * segment->half;
    int code = ct_failed(h);
    for (int i = 0; i < h->ppn && code == MPI_SUCCESS && round > 2; i++)
        code = await(h, &segment->shared->processes[i].done, round - 2);
    return code;
}

void ct_round_end(ct_hierarchy_t *h) {
    process_line_t *mine = &h->segment->shared->processes[h->local];
    atomic_store_explicit(&mine->done, h->segment->round, memory_order_release);
}

void ct_written(ct_hierarchy_t *h, size_t bytes) {
    process_line_t *mine = &h->segment->shared->processes[h->local];
    atomic_ullong *place = &mine->bytes[h->segment->round % 2];
    atomic_store_explicit(place, bytes, memory_order_relaxed); /* the mark releases it */
    ct_mark(h, CT_WRITTEN);
}

int ct_await_written(ct_hierarchy_t *h, size_t bytes, int first, int end) {
    int code = ct_await(h, CT_WRITTEN, first, end);
    for (int i = first; i < end && code == MPI_SUCCESS; i++) {
        process_line_t *other = &h->segment->shared->processes[i];
        atomic_ullong *place = &other->bytes[h->segment->round % 2];
        if (atomic_load_explicit(place, memory_order_relaxed) != bytes) code = MPI_ERR_TRUNCATE;
    }
    return code;
}

void ct_mark(ct_hierarchy_t *h, ct_mark_t mark) {
    process_line_t *mine = &h->segment->shared->processes[h->local];
    atomic_store_explicit(&mine->marks[mark], h->segment->round, memory_order_release);
}

int ct_await(ct_hierarchy_t *h, ct_mark_t mark, int first, int end) {
    process_line_t *processes = h->segment->shared->processes;
    int code = MPI_SUCCESS;
    for (int i = first; i < end && code == MPI_SUCCESS; i++)
        code = await(h, &processes[i].marks[mark], h->segment->round);
    return code;
}

/* Leader k's counter is on the k-th line, whichever process it is. */
void ct_arrive(ct_hierarchy_t *h, int k, int chunks) {
    unsigned long long value = h->segment->round << CHUNKS_BITS | (unsigned)chunks;
    atomic_store_explicit(&h->segment->shared->processes[k].arrived, value, memory_order_release);
}

int ct_arrived(ct_hierarchy_t *h, int k) {
    unsigned long long value =
        atomic_load_explicit(&h->segment->shared->processes[k].arrived, memory_order_acquire);
    unsigned long long round = value >> CHUNKS_BITS, all = (1ull << CHUNKS_BITS) - 1;
    if (round < h->segment->round) return 0;
    /* a leader that is a round ahead had all chunks of this one */
    return (int)(round > h->segment->round ? all : value & all);
}

int ct_fail(ct_hierarchy_t *h, int code) {
    if (code != MPI_SUCCESS) atomic_store(&h->segment->shared->error, code);
    return code;
}

int ct_failed(const ct_hierarchy_t *h) {
    return atomic_load_explicit(&h->segment->shared->error, memory_order_relaxed);
}
