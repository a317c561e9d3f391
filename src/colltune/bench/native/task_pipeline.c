/* The tasks of coll/han's pipelined ("intra") broadcast and allreduce, one after another.
 *
 * Each task starts when the one before has ended on that process, so that the leaders start it as
 * far apart as the previous tasks have left them (Luo et al., CLUSTER 2020, sec. III-A.2). Calls
 * and their order within a task are those of coll_han_bcast.c and coll_han_allreduce.c. */
#include "tasks.h"

#include <string.h>

/* Communicators of two levels are each served by a component of our choice.
 *
 * Open MPI's coll/han makes its own in the same way (coll_han_subcomms.c): an info key raises one
 * component above all others and leaves out coll/han itself (coll_base_comm_select.c). */
typedef struct {
    const group_t *group;
    int is_up;
    char component[COMPONENT_LENGTH];
    MPI_Comm comm;
} level_t;

static level_t *known;
static int n_known;

static int exists(const char *component) {
    char name[COMPONENT_LENGTH + 16];
    int index;
    snprintf(name, sizeof name, "coll_%s_priority", component);
    return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS;
}

static MPI_Comm served_by(MPI_Comm plain, const char *component) {
    char preference[COMPONENT_LENGTH + 8];
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info;
    snprintf(preference, sizeof preference, "%s,^han", component);
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", preference);
    if (MPI_Comm_dup_with_info(plain, info, &comm) != MPI_SUCCESS) comm = MPI_COMM_NULL;
    else MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Info_free(&info);
    return comm;
}

/* Of the leaders, or of a node; MPI_COMM_NULL on those that are in none. */
static MPI_Comm new_level(const group_t *group, int is_up, const char *component) {
    int node = group->rank / group->ppn, slot = group->rank % group->ppn;
    int colour = is_up ? (slot ? MPI_UNDEFINED : 0) : node;
    MPI_Comm plain, comm;
    if (MPI_Comm_split(group->base, colour, group->rank, &plain) != MPI_SUCCESS)
        die("cannot split a communicator", "");
    if (plain == MPI_COMM_NULL) return MPI_COMM_NULL;
    comm = served_by(plain, component);
    if (comm == MPI_COMM_NULL) die("cannot make a communicator for coll/", component);
    MPI_Comm_free(&plain);
    return comm;
}

static MPI_Comm level(const group_t *group, int is_up, const char *component) {
    for (int i = 0; i < n_known; i++)
        if (known[i].group == group && known[i].is_up == is_up &&
            !strcmp(known[i].component, component))
            return known[i].comm;
    known = grown(known, n_known, sizeof *known);
    level_t *made = &known[n_known++];
    *made = (level_t){.group = group, .is_up = is_up};
    strcpy(made->component, component);
    return made->comm = new_level(group, is_up, component);
}

int levels_of(const series_t *wanted, group_t *group, levels_t *found, const char **culprit) {
    double lacking = !exists(wanted->up) || !exists(wanted->low);
    exchange(group, &lacking, 1);
    *culprit = "the library has no such component";
    if (lacking > 0) return 0;
    found->up = level(group, 1, wanted->up);
    found->low = level(group, 0, wanted->low);
    return 1;
}

/* ---- tasks ---- */

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
