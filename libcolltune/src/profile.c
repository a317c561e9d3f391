/* The profile: what a job spends in collectives, counted per communicator while it runs.
 *
 * A communicator's numbers belong to it alone. MPI lets no two threads be in collectives of one
 * communicator at once, so that counting takes no lock; one is taken when a communicator comes or
 * goes. In MPI_Finalize the processes' numbers are added up along a tree, and rank 0 writes one file
 * (profile_file.c). Every call is counted. The first calls of a kind are timed, then one in `rate`
 * at random distances, so that no pattern of the program hides between them. */
#include "core.h"
#include "profile.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BINS = 65, FIRST_CALLS = 16, TAG = 1, MOST_RECORDS = 1 << 16 };
enum { SITE_RATE = 20, CHUNK = 1 << 16 };

/* The calls of one kind that one configuration ran. */
typedef struct cell {
    ct_record_t sum;
    uint64_t first; /* of its calls: timed without exception; the others are a sample */
    double first_s, later_s;
    uint64_t later;
    struct cell *next;
} cell_t;

/* The calls of one collective with one size of messages. */
typedef struct {
    uint64_t calls;
    uint32_t untimed; /* calls until the next that is timed */
    cell_t *cells;    /* by configuration, the latest first */
} bin_t;

typedef struct profile {
    int size, nodes, ppn;
    uint64_t random;
    bin_t **bins[CT_COLLECTIVES];
    bin_t *now; /* of the call under way */
    uint64_t now_bytes;
    struct profile *next, *before;
} profile_t;

int ct_profiling;

static uint32_t rate = 1;
static double started;
static ct_place_t users, sites; /* on rank 0 */
static ct_shape_t world;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static profile_t *live;
static ct_records_t finished; /* of communicators that are gone */

/* ---- adding up ---- */

static int by_kind(const void *left, const void *right) {
    const ct_record_t *a = left, *b = right;
    const int keys[][2] = {{a->collective, b->collective}, {a->size, b->size},
                           {a->nodes, b->nodes}, {a->ppn, b->ppn}, {a->bin, b->bin}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1]) return keys[i][0] < keys[i][1] ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* The times of `more` are added or handed over. */
static void add_times(ct_record_t *sum, ct_record_t *more) {
    for (int i = 0; sum->times && more->times && i < CT_TIMES; i++) sum->times[i] += more->times[i];
    if (sum->times) free(more->times);
    else sum->times = more->times;
    more->times = NULL;
}

static void add_to(ct_record_t *sum, ct_record_t *more) {
    if (more->timed && (!sum->timed || more->least_s < sum->least_s)) sum->least_s = more->least_s;
    if (more->most_s > sum->most_s) sum->most_s = more->most_s;
    if (more->least_bytes < sum->least_bytes) sum->least_bytes = more->least_bytes;
    if (more->most_bytes > sum->most_bytes) sum->most_bytes = more->most_bytes;
    sum->calls += more->calls;
    sum->bytes += more->bytes;
    sum->timed += more->timed;
    sum->timed_s += more->timed_s;
    sum->squares_s2 += more->squares_s2;
    sum->time_s += more->time_s;
    add_times(sum, more);
}

/* Sort the records and add up those of one kind. */
static void merge_records(ct_records_t *records) {
    size_t n = 0;
    if (records->n) qsort(records->items, records->n, sizeof *records->items, by_kind);
    for (size_t i = 0; i < records->n; i++) {
        ct_record_t *record = &records->items[i];
        if (n && !by_kind(&records->items[n - 1], record)) add_to(&records->items[n - 1], record);
        else records->items[n++] = *record;
    }
    records->n = n;
}

static int has_room(ct_records_t *records) {
    if (records->n < records->room) return 1;
    merge_records(records);
    size_t room = records->room ? 2 * records->room : 64;
    if ((records->n && records->n <= records->room / 2) || room > MOST_RECORDS)
        return records->n < records->room;
    ct_record_t *items = realloc(records->items, room * sizeof *items);
    if (!items) return records->n < records->room;
    records->items = items;
    records->room = room;
    return 1;
}

/* The record's times are handed over. */
static void add_record(ct_records_t *records, const ct_record_t *more) {
    if (has_room(records)) {
        records->items[records->n++] = *more;
        return;
    }
    records->lost_calls += more->calls;
    free(more->times);
}

/* Seconds of all calls of the cell: those timed without exception, and the mean of the sample for
 * the others. */
static double estimate(const cell_t *cell) {
    uint64_t others = cell->sum.calls - cell->first;
    if (!others) return cell->first_s;
    double mean = cell->later ? cell->later_s / (double)cell->later
                  : cell->first ? cell->first_s / (double)cell->first : 0;
    return cell->first_s + mean * (double)others;
}

/* Add the numbers of a communicator to `records`, and give its memory back. */
static void finish(profile_t *p, ct_records_t *records) {
    for (int c = 0; c < CT_COLLECTIVES; c++) {
        for (int b = 0; p->bins[c] && b < BINS; b++) {
            if (!p->bins[c][b]) continue;
            for (cell_t *cell = p->bins[c][b]->cells, *next; cell; cell = next) {
                next = cell->next;
                cell->sum.time_s = estimate(cell);
                add_record(records, &cell->sum);
                free(cell);
            }
            free(p->bins[c][b]);
        }
        free(p->bins[c]);
    }
    free(p);
}

/* The communicator is freed. After ct_profile_end nothing is left of its numbers. */
static void release(void *data) {
    pthread_mutex_lock(&lock);
    if (ct_profiling) {
        profile_t *p = data;
        if (p->before) p->before->next = p->next;
        else live = p->next;
        if (p->next) p->next->before = p->before;
        finish(data, &finished);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- counting ---- */

static const char key;

/* The numbers of a communicator at its first call; NULL: no memory. Every process of it comes here
 * at once, so that they can find out where they are. */
static profile_t *begin_profile(ct_comm_t *c) {
    profile_t *p = calloc(1, sizeof *p);
    ct_spread(c);
    if (!p) return NULL;
    p->size = c->size;
    p->nodes = c->nodes;
    p->ppn = c->ppn;
    p->random = (uint64_t)(uintptr_t)p ^ (uint64_t)(ct_now() * 1e9) ^ 0x9e3779b97f4a7c15u;
    pthread_mutex_lock(&lock);
    p->next = live;
    if (live) live->before = p;
    live = p;
    pthread_mutex_unlock(&lock);
    return c->profile = ct_keep(c, &key, 0, p, release);
}

/* What the caller passes per process, where it differs among them: the mean. */
static uint64_t mean_bytes(const ct_call_t *call, int size) {
    int here = call->sendbuf == MPI_IN_PLACE;
    size_t item;
    const int *counts = here ? call->recvcounts : call->sendcounts;
    MPI_Datatype type = here ? call->recvtype : call->sendtype;
    if (!counts || ct_type_size(type, &item)) return 0;
    uint64_t sum = 0;
    for (int i = 0; i < size; i++) {
        MPI_Count count = ct_count_at(call, counts, i);
        sum += count > 0 ? (uint64_t)count : 0;
    }
    return sum * item / (uint64_t)size;
}

/* 0 for 0 bytes, then one bin per power of two. */
static int bin_of(uint64_t bytes) { return bytes ? 64 - __builtin_clzll(bytes) : 0; }

static uint64_t bytes_of(const ct_call_t *call, int size) {
    return call->collective == CT_ALLTOALLV ? mean_bytes(call, size) : call->msize;
}

static bin_t *bin_at(profile_t *p, ct_collective_t collective, int number) {
    bin_t ***bins = &p->bins[collective];
    if (!*bins && !(*bins = calloc(BINS, sizeof **bins))) return NULL;
    bin_t **bin = &(*bins)[number];
    if (!*bin) *bin = calloc(1, sizeof **bin);
    return *bin;
}

/* Calls from one that is timed to the next: 1 to 2 rate - 1, rate in the mean. */
static uint32_t distance(profile_t *p) {
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return rate == 1 ? 1 : 1 + (uint32_t)((p->random >> 11) % (2 * (uint64_t)rate - 1));
}

int ct_profile_wants(ct_comm_t *c, const ct_call_t *call) {
    profile_t *p = c->profile;
    if (!p && !(p = begin_profile(c))) return 0;
    p->now_bytes = bytes_of(call, p->size);
    bin_t *bin = p->now = bin_at(p, call->collective, bin_of(p->now_bytes));
    if (!bin) return 0;
    if (bin->calls++ < FIRST_CALLS) return 1;
    if (bin->untimed == 0) bin->untimed = distance(p);
    return --bin->untimed == 0;
}

static cell_t *new_cell(const profile_t *p, const ct_call_t *call, const char *id) {
    cell_t *cell = calloc(1, sizeof *cell);
    if (!cell) return NULL;
    ct_record_t *sum = &cell->sum; /* field by field: its padding is sent, too */
    sum->collective = call->collective;
    sum->size = p->size;
    sum->nodes = p->nodes;
    sum->ppn = p->ppn;
    sum->bin = bin_of(p->now_bytes);
    sum->least_bytes = p->now_bytes;
    snprintf(sum->id, sizeof sum->id, "%s", id);
    cell->next = p->now->cells;
    p->now->cells = cell;
    return cell;
}

static cell_t *cell_of(const profile_t *p, const ct_call_t *call, const char *id) {
    for (cell_t *cell = p->now->cells; cell; cell = cell->next)
        if (*id == *cell->sum.id && (!*id || !strcmp(cell->sum.id, id))) return cell;
    return new_cell(p, call, id);
}

void ct_profile_note(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t *configuration,
                     double seconds) {
    profile_t *p = c->profile;
    if (!p || !p->now) return;
    cell_t *cell = cell_of(p, call, configuration ? configuration->id : "");
    if (!cell) return;
    ct_record_t *sum = &cell->sum;
    sum->calls++;
    sum->bytes += p->now_bytes;
    if (p->now_bytes < sum->least_bytes) sum->least_bytes = p->now_bytes;
    if (p->now_bytes > sum->most_bytes) sum->most_bytes = p->now_bytes;
    int first = p->now->calls <= FIRST_CALLS;
    cell->first += (uint64_t)first;
    if (seconds < 0) return;
    *(first ? &cell->first_s : &cell->later_s) += seconds;
    cell->later += (uint64_t)!first;
    if (!sum->timed++ || seconds < sum->least_s) sum->least_s = seconds;
    if (seconds > sum->most_s) sum->most_s = seconds;
    sum->timed_s += seconds;
    sum->squares_s2 += seconds * seconds;
    if (!sum->times) sum->times = calloc(CT_TIMES, sizeof *sum->times);
    if (sum->times) sum->times[ct_bucket(seconds) - CT_FIRST_TIME]++;
}

/* ---- MPI_Init ---- */

/* Rank 0: take `path` if it is a folder, or can be made one. */
static int take(ct_place_t *place, const char *path) {
    struct stat found;
    if (strlen(path) >= sizeof place->folder) return 0;
    /* the site reads what users write */
    if (mkdir(path, 0777) == 0 && place->is_site && chmod(path, 0755)) return 0;
    if (stat(path, &found) || !S_ISDIR(found.st_mode) || access(path, W_OK | X_OK)) return 0;
    strcpy(place->folder, path);
    return 1;
}

/* Rank 0: read what the site wants, which says nothing to the user; 0: no profile. Processes may die
 * where faults are tolerated, and the site's numbers are worth no wait for them. */
static uint32_t sites_rate(void) {
    const char *path = ct_setting("COLLTUNE_RECORD"), *all = getenv("COLLTUNE");
    int is_off = !path || *path != '/' || ct_fault_tolerant || (all && !strcmp(all, "off"));
    sites.is_site = 1;
    if (is_off) return 0;
    if (take(&sites, path)) return (uint32_t)ct_number("COLLTUNE_RECORD_RATE", SITE_RATE);
    ct_log(1, "COLLTUNE_RECORD: no folder that can be written: %s; nothing is recorded", path);
    return 0;
}

/* Rank 0: what the user wants comes first. */
static uint32_t asked_rate(void) {
    uint32_t usual = sites_rate();
    const char *path = ct_setting("COLLTUNE_PROFILE");
    if (!path || !*path) return usual;
    if (take(&users, path)) return (uint32_t)ct_number("COLLTUNE_PROFILE_RATE", 1);
    ct_log(0, "COLLTUNE_PROFILE: no folder that can be written: %s; no profile is kept", path);
    return usual;
}

void ct_profile_begin(void) {
    if (ct_world_rank == 0) rate = asked_rate();
    PMPI(Bcast)(&rate, 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
    ct_comm_t *c = rate ? ct_comm(MPI_COMM_WORLD) : NULL;
    if (!c || ct_spread(c) != MPI_SUCCESS) return;
    world = (ct_shape_t){c->size, c->nodes, c->ppn};
    started = ct_now();
    ct_profiling = 1;
}

/* ---- MPI_Finalize ---- */

static void merge(ct_totals_t *into, const ct_totals_t *more) {
    into->lost_calls += more->lost_calls;
    into->collective_s += more->collective_s;
    if (more->least_s < into->least_s) into->least_s = more->least_s;
    if (more->most_s > into->most_s) into->most_s = more->most_s;
    if (more->wall_s > into->wall_s) into->wall_s = more->wall_s;
}

/* Records travel many at once: their number, and each with those of its buckets that count any. */
static char chunk[CHUNK];
typedef struct {
    uint64_t bucket, calls;
} bucket_t;
enum { MOST_PACKED = sizeof(ct_record_t) + sizeof(uint64_t) + CT_TIMES * sizeof(bucket_t) };

/* Bytes that the record takes in the chunk from `at` on. */
static size_t pack(size_t at, const ct_record_t *record) {
    bucket_t buckets[CT_TIMES];
    uint64_t n = 0;
    for (int i = 0; record->times && i < CT_TIMES; i++)
        if (record->times[i]) buckets[n++] = (bucket_t){(uint64_t)i, record->times[i]};
    memcpy(chunk + at, record, sizeof *record);
    memcpy(chunk + at + sizeof *record, &n, sizeof n);
    memcpy(chunk + at + sizeof *record + sizeof n, buckets, n * sizeof *buckets);
    return sizeof *record + sizeof n + n * sizeof *buckets;
}

static size_t unpack(size_t at, ct_record_t *record) {
    bucket_t buckets[CT_TIMES];
    uint64_t n;
    memcpy(record, chunk + at, sizeof *record);
    memcpy(&n, chunk + at + sizeof *record, sizeof n);
    memcpy(buckets, chunk + at + sizeof *record + sizeof n, n * sizeof *buckets);
    record->times = n ? calloc(CT_TIMES, sizeof *record->times) : NULL;
    for (uint64_t i = 0; record->times && i < n; i++)
        record->times[buckets[i].bucket] = buckets[i].calls;
    return sizeof *record + sizeof n + n * sizeof *buckets;
}

/* Take what `source` has sent. */
static int receive(MPI_Comm comm, int source, ct_records_t *records, ct_totals_t *totals) {
    ct_totals_t more;
    int status = PMPI(Recv)(&more, sizeof more, MPI_BYTE, source, TAG, comm, MPI_STATUS_IGNORE);
    if (status != MPI_SUCCESS) return status;
    merge(totals, &more);
    for (uint64_t left = more.n, n; left; left -= n) {
        size_t at = sizeof n;
        status = PMPI(Recv)(chunk, CHUNK, MPI_BYTE, source, TAG, comm, MPI_STATUS_IGNORE);
        if (status != MPI_SUCCESS) return status;
        memcpy(&n, chunk, sizeof n);
        for (uint64_t i = 0; i < n; i++) {
            ct_record_t record;
            at += unpack(at, &record);
            add_record(records, &record);
        }
    }
    merge_records(records);
    return MPI_SUCCESS;
}

static int send_all(MPI_Comm comm, int to, const ct_records_t *records, const ct_totals_t *totals) {
    int status = PMPI(Send)(totals, sizeof *totals, MPI_BYTE, to, TAG, comm);
    for (size_t i = 0; status == MPI_SUCCESS && i < records->n;) {
        uint64_t n = 0;
        size_t at = sizeof n;
        for (; i < records->n && at + MOST_PACKED <= CHUNK; i++, n++)
            at += pack(at, &records->items[i]);
        memcpy(chunk, &n, sizeof n);
        status = PMPI(Send)(chunk, (int)at, MPI_BYTE, to, TAG, comm);
    }
    return status;
}

/* Add up the numbers of all processes on rank 0, along a binomial tree. */
static int add_up(MPI_Comm comm, int rank, int size, ct_records_t *records, ct_totals_t *totals) {
    for (int step = 1; step < size; step *= 2) {
        if (rank & step) {
            totals->n = records->n;
            totals->lost_calls += records->lost_calls;
            return send_all(comm, rank - step, records, totals);
        }
        if (rank + step >= size) continue;
        int status = receive(comm, rank + step, records, totals);
        if (status != MPI_SUCCESS) return status;
    }
    totals->lost_calls += records->lost_calls;
    return MPI_SUCCESS;
}

/* The numbers of all communicators of this process. */
static ct_records_t collected(void) {
    pthread_mutex_lock(&lock);
    ct_profiling = 0;
    while (live) {
        profile_t *p = live;
        live = p->next;
        finish(p, &finished);
    }
    merge_records(&finished);
    ct_records_t records = finished;
    finished = (ct_records_t){0};
    pthread_mutex_unlock(&lock);
    return records;
}

void ct_profile_end(void) {
    if (!ct_profiling) return;
    ct_run_t run = {rate, world, collected(), {.wall_s = ct_now() - started}};
    ct_records_t *records = &run.records;
    ct_totals_t *totals = &run.totals;
    for (size_t i = 0; i < records->n; i++) totals->collective_s += records->items[i].time_s;
    totals->least_s = totals->most_s = totals->collective_s;
    ct_comm_t *c = ct_comm(MPI_COMM_WORLD);
    int status = c ? ct_base(c) : MPI_ERR_COMM;
    if (status == MPI_SUCCESS) status = add_up(c->base, c->rank, c->size, records, totals);
    if (status != MPI_SUCCESS) ct_log(0, "the profile is lost: the processes' numbers could not be gathered");
    else if (c->rank == 0) {
        if (*users.folder) ct_profile_write(&users, &run);
        if (*sites.folder) ct_profile_write(&sites, &run);
    }
    for (size_t i = 0; i < records->n; i++) free(records->items[i].times);
    free(records->items);
}
