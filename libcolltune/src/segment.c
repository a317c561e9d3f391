/* Memory that the processes of one node share.
 *
 * POSIX shared memory rather than an MPI window: it is released without any communication, and so
 * communicators may be freed in any order. Its name is gone as soon as all have mapped it.
 *
 * Communicators with the same processes on this node, in the same order, use one segment: a process
 * is in one call at a time. Where threads may be in several, each communicator has its own. All
 * segments of a node together have COLLTUNE_SHM_MIB at most: each process may be charged its part,
 * and is charged the parts of its segments. Memory goes back to the system when calls need less of it
 * for a while, and with the last communicator. */
#define _DEFAULT_SOURCE /* madvise */
#include "core.h"
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, ATTEMPTS = 100 };
enum { REVIEWED = 256 }; /* calls on a communicator from one look at what it needs to the next */
enum { USUAL_MIB = 256 };
static const size_t SMALLEST_HALF = (size_t)1 << 16, LARGEST_HALF = (size_t)1 << 26;

static ct_segment_t *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of this list */

static size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static size_t head_of(int ppn) {
    return rounded(sizeof(ct_shared_t) + (size_t)ppn * sizeof(ct_line_t), PAGE);
}

/* ---- how much there may be ---- */

/* Bytes of all segments on a node. */
static double cap(void) { return (double)ct_number("COLLTUNE_SHM_MIB", USUAL_MIB) * (1 << 20); }

static double charge(size_t backed, int ppn) {
    return ((double)head_of(ppn) + 2 * (double)backed) / ppn;
}

/* What this process may still be charged, `spared` not counted. */
static double room(const ct_segment_t *spared) {
    double left = cap() / ct_world_ppn();
    pthread_mutex_lock(&lock);
    for (const ct_segment_t *s = all; s; s = s->next)
        if (s != spared) left -= charge(atomic_load(&s->shared->backed), s->ppn);
    pthread_mutex_unlock(&lock);
    return left;
}

/* ---- making it ---- */

static ct_shared_t *map(int file, size_t bytes) {
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return address == MAP_FAILED ? NULL : address;
}

/* What is to become of a node's segment: an old one may be kept. */
typedef enum { NOTHING, CAPPED, KEPT, MADE } fate_t;
typedef struct {
    fate_t fate;
    int file;
    char name[CT_SEGMENT_NAME];
    unsigned long long half;
    ct_shared_t *shared; /* MADE: as this process has mapped it */
} plan_t;

static size_t mapped_bytes(const plan_t *plan, int ppn) { return head_of(ppn) + 2 * plan->half; }

static int allocate(int file, size_t from, size_t bytes) {
    sigset_t before;
    ct_hold_limit(&before);
    int failed = posix_fallocate(file, (off_t)from, (off_t)bytes);
    ct_release_limit(&before);
    return !failed;
}

/* The first process of a node makes it. */
static void create(plan_t *plan, int ppn) {
    static atomic_uint made;
    size_t bytes = mapped_bytes(plan, ppn);
    for (int i = 0; i < ATTEMPTS && plan->file < 0; i++) {
        unsigned number = atomic_fetch_add(&made, 1);
        long long moment = (long long)(ct_now() * 1e9);
        snprintf(plan->name, CT_SEGMENT_NAME, "/colltune-%ld-%u-%llx", (long)getpid(), number, moment);
        plan->file = shm_open(plan->name, O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR);
        if (plan->file < 0 && errno != EEXIST) return;
    }
    if (plan->file < 0) return;
    /* allocated now: a full file system would kill the process at the first touch */
    if (allocate(plan->file, 0, bytes)) plan->shared = map(plan->file, bytes);
    if (plan->shared) atomic_store(&plan->shared->backed, plan->half);
    else shm_unlink(plan->name);
    plan->fate = plan->shared ? MADE : NOTHING;
}

static void attach(plan_t *plan, int ppn) {
    int file = shm_open(plan->name, O_RDWR, 0);
    if (file < 0) return;
    plan->shared = map(file, mapped_bytes(plan, ppn));
    close(file);
}

/* Have memory again for `half` bytes of both halves. */
static int back(ct_segment_t *segment, size_t half) {
    size_t backed = atomic_load(&segment->shared->backed), head = head_of(segment->ppn);
    for (size_t i = 0; i < 2 && backed < half; i++) {
        if (!allocate(segment->file, head + i * segment->half + backed, half - backed)) return 0;
    }
    if (backed < half) atomic_store(&segment->shared->backed, half);
    return 1;
}

/* What each process of a node tells its first one. */
typedef struct {
    char name[CT_SEGMENT_NAME]; /* of the segment that it has; empty: none */
    unsigned long long half;
    double room;
} offer_t;

static offer_t offer_of(const ct_segment_t *segment) {
    offer_t offer = {.room = room(segment)};
    if (!segment) return offer;
    memcpy(offer.name, segment->name, CT_SEGMENT_NAME);
    offer.half = segment->half;
    return offer;
}

/* The first process of a node decides, and makes it; the old one stays if it is large enough. */
static void settle(const ct_hierarchy_t *h, ct_segment_t *old, const offer_t *offers, plan_t *plan) {
    size_t backed = old ? atomic_load(&old->shared->backed) : 0, asked = plan->half;
    int keeps = old && asked <= old->half;
    double least = offers[0].room;
    for (int i = 0; i < h->ppn; i++) {
        if (strcmp(offers[i].name, offers[0].name)) keeps = 0;
        if (offers[i].half > plan->half) plan->half = offers[i].half; /* others rest on it */
        if (offers[i].room < least) least = offers[i].room;
    }
    size_t all_in_all = keeps ? (asked > backed ? asked : backed) : plan->half;
    if (charge(all_in_all, h->ppn) > least) plan->fate = CAPPED;
    else if (!keeps) create(plan, h->ppn);
    else if (back(old, asked)) plan->fate = KEPT;
}

/* The first process of a node hears what the others have, and tells them what becomes of it. */
static int lead(const ct_hierarchy_t *h, ct_segment_t *mine, plan_t *plan) {
    const int *ranks = h->ranks + h->first[h->node];
    offer_t *offers = calloc((size_t)h->ppn, sizeof *offers);
    int code = MPI_SUCCESS;
    if (!offers) return MPI_ERR_NO_MEM;
    offers[0] = offer_of(mine);
    for (int i = 1; i < h->ppn; i++)
        code = ct_first(code, PMPI(Recv)(&offers[i], sizeof *offers, MPI_BYTE, ranks[i], h->tag, h->work,
                                        MPI_STATUS_IGNORE));
    if (code == MPI_SUCCESS) settle(h, mine, offers, plan);
    for (int i = 1; i < h->ppn; i++)
        code = ct_first(code, PMPI(Send)(plan, sizeof *plan, MPI_BYTE, ranks[i], h->tag, h->work));
    free(offers);
    return code;
}

static int follow(const ct_hierarchy_t *h, ct_segment_t *mine, plan_t *plan) {
    int first = h->ranks[h->first[h->node]];
    offer_t offer = offer_of(mine);
    int code = PMPI(Send)(&offer, sizeof offer, MPI_BYTE, first, h->tag, h->work);
    code = ct_first(code, PMPI(Recv)(plan, sizeof *plan, MPI_BYTE, first, h->tag, h->work,
                                    MPI_STATUS_IGNORE));
    plan->shared = NULL;
    plan->file = -1;
    if (code == MPI_SUCCESS && plan->fate == MADE) attach(plan, h->ppn);
    if (plan->fate == MADE && !plan->shared) plan->fate = NOTHING;
    return code;
}

/* ---- whose it is ---- */

static int is_shared_by_communicators(void) {
    int level;
    return PMPI(Query_thread)(&level) == MPI_SUCCESS && level != MPI_THREAD_MULTIPLE;
}

/* The segment of this node's processes; NULL if there is none. */
static ct_segment_t *find(const ct_hierarchy_t *h) {
    if (h->segment || !is_shared_by_communicators()) return h->segment;
    ct_segment_t *s = all;
    while (s && (s->ppn != h->ppn || memcmp(s->world, h->world, (size_t)s->ppn * sizeof *s->world)))
        s = s->next;
    return s;
}

static ct_segment_t *new_segment(const ct_hierarchy_t *h) {
    size_t bytes = (size_t)h->ppn * sizeof *h->world;
    ct_segment_t *s = calloc(1, sizeof *s);
    if (s) *s = (ct_segment_t){.ppn = h->ppn, .file = -1, .world = malloc(bytes)};
    if (s && s->world) memcpy(s->world, h->world, bytes);
    else free(s), s = NULL;
    return s;
}

static void unmap(ct_segment_t *s) {
    if (s->shared) munmap(s->shared, s->mapped);
    if (s->file >= 0) close(s->file);
}

static void take(ct_segment_t *s, const plan_t *plan) {
    int is_new = !s->shared;
    unmap(s);
    s->shared = plan->shared;
    s->halves = (char *)plan->shared + head_of(s->ppn);
    s->half = plan->half;
    s->mapped = mapped_bytes(plan, s->ppn);
    s->file = plan->file;
    s->round = 0;
    memcpy(s->name, plan->name, CT_SEGMENT_NAME);
    if (!is_new) return;
    pthread_mutex_lock(&lock);
    s->next = all;
    all = s;
    pthread_mutex_unlock(&lock);
}

static void use(ct_hierarchy_t *h, ct_segment_t *s) {
    if (h->segment) return;
    h->segment = s;
    h->next = s->users;
    s->users = h;
}

static void give_back(ct_segment_t *s) {
    pthread_mutex_lock(&lock);
    for (ct_segment_t **at = &all; *at; at = &(*at)->next) {
        if (*at != s) continue;
        *at = s->next;
        break;
    }
    pthread_mutex_unlock(&lock);
    unmap(s);
    free(s->world);
    free(s);
}

void ct_segment_release(ct_hierarchy_t *h) {
    ct_segment_t *s = h->segment;
    if (!s) return;
    for (ct_hierarchy_t **at = &s->users; *at; at = &(*at)->next) {
        if (*at != h) continue;
        *at = h->next;
        break;
    }
    h->segment = NULL;
    s->trim = 1;
    if (!s->users) give_back(s);
}

/* ---- as much as all nodes have ---- */

/* Have halves of `half` bytes on all nodes; `fate` is what all came to. */
static int obtain(ct_hierarchy_t *h, size_t half, fate_t *fate) {
    ct_segment_t *old = find(h), *segment = old ? old : new_segment(h);
    plan_t plan = {.half = half, .file = -1};
    int code = h->local ? follow(h, old, &plan) : lead(h, old, &plan);
    int has = code == MPI_SUCCESS && segment ? (int)plan.fate : NOTHING;
    int mine = has < KEPT ? has : KEPT, least = NOTHING;
    int agreed = PMPI(Allreduce)(&mine, &least, 1, MPI_INT, MPI_MIN, h->work);
    if (!h->local && plan.fate == MADE) shm_unlink(plan.name); /* all have opened it, or never will */
    code = ct_first(code, agreed);
    *fate = (fate_t)least;
    if (code == MPI_SUCCESS && *fate == KEPT) {
        if (has == MADE) take(segment, &plan);
        use(h, segment);
        h->half = half;
        return code;
    }
    if (plan.shared) munmap(plan.shared, mapped_bytes(&plan, h->ppn));
    if (plan.file >= 0) close(plan.file);
    if (old) old->trim = 1;
    else if (segment) free(segment->world), free(segment);
    return code;
}

/* Enough for every comparison of sizes. */
static size_t smallest(const ct_hierarchy_t *h) {
    size_t bytes = rounded(CT_COMPARED_BYTES, CT_LINE) * ((size_t)h->size + 1);
    return rounded(bytes < SMALLEST_HALF ? SMALLEST_HALF : bytes, PAGE);
}

/* The size of halves for `bytes`. */
static size_t half_for(const ct_hierarchy_t *h, size_t bytes) {
    size_t half = smallest(h);
    while (half < bytes && half < LARGEST_HALF) half *= 2;
    return rounded(half < bytes ? bytes : half, PAGE);
}

int ct_segment_grow(ct_hierarchy_t *h, size_t bytes) {
    for (size_t half = half_for(h, bytes); half > h->half && half >= smallest(h); half /= 2) {
        fate_t fate;
        if (h->limit && half >= h->limit) continue;
        int code = obtain(h, half, &fate);
        if (code != MPI_SUCCESS || fate == KEPT) return code;
        h->limit = half;
        if (fate == CAPPED)
            ct_log(1, "shared memory of %zu bytes is more than COLLTUNE_SHM_MIB leaves: it is tried with"
                      " less", 2 * half);
        else ct_log(1, "no shared memory of %zu bytes on every node: it is tried with less", 2 * half);
    }
    return MPI_SUCCESS;
}

/* Give back what no call has needed of late, and allow to ask again for what could not be had. */
static int review(ct_hierarchy_t *h) {
    unsigned long long mine = h->needed, most = 0;
    if (h->half <= smallest(h) && !h->limit) return MPI_SUCCESS;
    int code = PMPI(Allreduce)(&mine, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, h->work);
    if (code != MPI_SUCCESS) return code;
    size_t enough = half_for(h, (size_t)most);
    h->needed = 0;
    h->limit = 0;
    if (enough > h->half / 4) return MPI_SUCCESS;
    h->half = enough;
    h->segment->trim = 1;
    return MPI_SUCCESS;
}

int ct_segment(ct_hierarchy_t *h, unsigned long calls) {
    int code = MPI_SUCCESS;
    if (calls / REVIEWED != h->calls / REVIEWED) code = review(h);
    h->calls = calls;
    if (code != MPI_SUCCESS || h->half || h->limit) return code;
    return ct_segment_grow(h, 0);
}

int ct_segment_has(ct_hierarchy_t *h, size_t bytes) {
    if (bytes > h->needed) h->needed = bytes;
    return bytes <= h->half;
}

size_t ct_segment_most(void) { return LARGEST_HALF; }

void ct_segment_trim(ct_segment_t *s) {
    size_t used = 0, backed = atomic_load(&s->shared->backed);
    s->trim = 0;
    for (const ct_hierarchy_t *h = s->users; h; h = h->next)
        if (h->half > used) used = h->half;
    if (used >= backed) return;
    for (size_t i = 0; i < 2; i++)
        if (madvise(s->halves + i * s->half + used, backed - used, MADV_REMOVE)) return;
    atomic_store(&s->shared->backed, used);
}
