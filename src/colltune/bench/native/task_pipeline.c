/* The tasks of coll/han's pipelined ("intra") broadcast and allreduce, one after another.
 *
 * Each task starts when the one before has ended on that process, so that the leaders start it as
 * far apart as the previous tasks have left them (Luo et al., CLUSTER 2020, sec. III-A.2). Calls
 * and their order within a task are those of coll_han_bcast.c and coll_han_allreduce.c. */
#include "tasks.h"

#include <string.h>

enum { ROOT = 0, MOST_REQUESTS = 2 };

/* After the last segment has entered the pipeline, so many tasks remain. */
enum { BCAST_DEPTH = 1, ALLREDUCE_DEPTH = 3 };

static int is_bcast(const series_t *s) { return !strcmp(s->collective->name, "bcast"); }

int first_steady(const series_t *s) { return is_bcast(s) ? BCAST_DEPTH : ALLREDUCE_DEPTH; }

int tasks_of(const series_t *s, int segments) { return segments + first_steady(s); }

static int leads(const pipeline_t *p) { return p->levels.up != MPI_COMM_NULL; }

static int has(const pipeline_t *p, int i) { return i >= 0 && i < p->segments; }

static unsigned char *received(const pipeline_t *p, int i) {
    return p->call.recv + (size_t)i * p->segment;
}

static int sb(const pipeline_t *p, int i) {
    return MPI_Bcast(received(p, i), p->count, p->call.type, ROOT, p->levels.low);
}

static int ib(const pipeline_t *p, int i, MPI_Request *request) {
    return MPI_Ibcast(received(p, i), p->count, p->call.type, ROOT, p->levels.up, request);
}

static int sr(const pipeline_t *p, int i) {
    return MPI_Reduce(p->call.send + (size_t)i * p->segment, received(p, i), p->count, p->call.type,
                      p->call.op, ROOT, p->levels.low);
}

static int ir(const pipeline_t *p, int i, MPI_Request *request) {
    void *buffer = received(p, i), *from = p->call.rank == ROOT ? MPI_IN_PLACE : buffer;
    return MPI_Ireduce(from, buffer, p->count, p->call.type, p->call.op, ROOT, p->levels.up,
                       request);
}

/* ib(0), sbib(1), ..., sbib(u - 1), sb(u - 1); the first one is a blocking broadcast. */
static int bcast_task(const pipeline_t *p, int i) {
    MPI_Request request = MPI_REQUEST_NULL;
    int error = MPI_SUCCESS;
    if (i == 0)
        return leads(p) ? MPI_Bcast(received(p, 0), p->count, p->call.type, ROOT, p->levels.up)
                        : MPI_SUCCESS;
    if (leads(p) && has(p, i)) error = ib(p, i, &request);
    if (error == MPI_SUCCESS) error = sb(p, i - 1);
    return error == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : error;
}

/* sr(0), irsr(1), ibirsr(2), sbibirsr(3), ..., sbibirsr(u - 1), sbibir, sbib, sb; with fewer than
 * three segments those parts of them for which there is a segment. */
static int allreduce_task(const pipeline_t *p, int i) {
    MPI_Request requests[MOST_REQUESTS] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[MOST_REQUESTS];
    int error = MPI_SUCCESS;
    if (leads(p) && has(p, i - 2)) error = ib(p, i - 2, &requests[0]);
    if (error == MPI_SUCCESS && leads(p) && has(p, i - 1)) error = ir(p, i - 1, &requests[1]);
    if (error == MPI_SUCCESS && has(p, i)) error = sr(p, i);
    if (error == MPI_SUCCESS && has(p, i - 3)) error = sb(p, i - 3);
    if (error != MPI_SUCCESS) return error;
    return MPI_Waitall(MOST_REQUESTS, requests, statuses);
}

int run_pipeline(const pipeline_t *p, const series_t *s, const group_t *group, double *ends) {
    int (*task)(const pipeline_t *, int) = is_bcast(s) ? bcast_task : allreduce_task;
    int error = MPI_SUCCESS, n = tasks_of(s, p->segments);
    if (ends) ends[0] = global_now(group);
    for (int i = 0; i < n && error == MPI_SUCCESS; i++) {
        error = task(p, i);
        if (ends) ends[i + 1] = global_now(group);
    }
    return error;
}
