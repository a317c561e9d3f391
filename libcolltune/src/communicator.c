/* What is known of each communicator: an attribute of it, made at the first call that is looked at;
 * and communicators of our own.
 *
 * The attribute is not copied to duplicates and goes when the communicator is freed. Each thread
 * remembers the communicator it used last, so that repeated calls ask MPI nothing; `generation`
 * grows whenever an attribute goes, since MPI may then give the same handle to another
 * communicator. */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    MPI_Comm comm;
    unsigned long generation;
    ct_comm_t *state;
} remembered_t;

static _Thread_local remembered_t last;
static _Atomic unsigned long generation = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list of all states */
static ct_comm_t *newest;
static int keyval = MPI_KEYVAL_INVALID;
static MPI_Group world;
static int has_world;

/* A communicator of our own. Users' communicators of the same processes in the same order share one:
 * calls on them come in the same order on all of their processes, since they may wait for each
 * other. Threads at once may have another order, and share none. */
struct ct_base {
    struct ct_base *next;
    MPI_Comm comm;
    int users, size;
    int *ranks; /* in MPI_COMM_WORLD; NULL: not to be shared */
};
static struct ct_base *bases;
/* MPICH has about 2000 communicators in all, and most of them are to stay the program's. */
#ifdef OPEN_MPI
enum { MOST = 1024 };
#else
enum { MOST = 128 };
#endif
static _Atomic int made;

/* ---- what is kept ---- */

static void release(ct_kept_t *kept) {
    kept->release(kept->data);
    free(kept);
}

void *ct_find(ct_comm_t *c, const void *key, long number) {
    for (ct_kept_t **at = &c->kept; *at; at = &(*at)->next) {
        ct_kept_t *kept = *at;
        if (kept->key != key || kept->number != number) continue;
        *at = kept->next;
        kept->next = c->kept;
        c->kept = kept;
        return kept->data;
    }
    return NULL;
}

void *ct_keep(ct_comm_t *c, const void *key, long number, void *data, void (*release)(void *)) {
    ct_kept_t *kept = data ? malloc(sizeof *kept) : NULL;
    if (!kept && data) release(data);
    if (!kept) return NULL;
    *kept = (ct_kept_t){key, number, data, release, c->kept};
    c->kept = kept;
    return data;
}

void ct_limit(ct_comm_t *c, const void *key, int most) {
    int n = 0;
    for (ct_kept_t **at = &c->kept; *at;) {
        ct_kept_t *kept = *at;
        if (kept->key != key || n++ < most) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        release(kept);
    }
}

/* ---- states ---- */

static void link_state(ct_comm_t *c) {
    pthread_mutex_lock(&lock);
    c->older = newest;
    if (newest) newest->newer = c;
    newest = c;
    pthread_mutex_unlock(&lock);
}

static void unlink_state(ct_comm_t *c) {
    pthread_mutex_lock(&lock);
    if (c->older) c->older->newer = c->newer;
    if (c->newer) c->newer->older = c->older;
    else newest = c->older;
    pthread_mutex_unlock(&lock);
}

static void leave_base(ct_comm_t *c) {
    struct ct_base *base = c->of_base;
    int last = 0;
    if (!base) return;
    pthread_mutex_lock(&lock);
    if (!--base->users) {
        struct ct_base **at = &bases;
        while (*at != base) at = &(*at)->next;
        *at = base->next;
        last = 1;
    }
    pthread_mutex_unlock(&lock);
    if (!last) return;
    ct_give_back(&base->comm);
    free(base->ranks);
    free(base);
}

/* MPI's own (MPI_COMM_NULL_COPY_FN) are functions of some libraries. */
int ct_no_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

int ct_no_deletion(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

/* MPI calls it when the communicator is freed, and we in MPI_Finalize. */
static int forget(MPI_Comm comm, int key, void *value, void *extra) {
    ct_comm_t *c = value;
    (void)comm, (void)key, (void)extra;
    atomic_fetch_add(&generation, 1);
    unlink_state(c);
    while (c->kept) {
        ct_kept_t *kept = c->kept;
        c->kept = kept->next;
        release(kept);
    }
    leave_base(c);
    free(c->node_of);
    free(c);
    return MPI_SUCCESS;
}

int *ct_world_ranks(MPI_Comm comm, int size) {
    MPI_Group group;
    int *mine = malloc((size_t)size * sizeof *mine), *found = malloc((size_t)size * sizeof *found);
    for (int r = 0; mine && r < size; r++) mine[r] = r;
    if (mine && found && PMPI(Comm_group)(comm, &group) == MPI_SUCCESS) {
        int failed = PMPI(Group_translate_ranks)(group, size, mine, world, found) != MPI_SUCCESS;
        PMPI(Group_free)(&group);
        free(mine);
        if (!failed) return found;
        free(found);
        return NULL;
    }
    free(mine);
    free(found);
    return NULL;
}

/* Processes of other worlds were told other settings and may decide otherwise. */
static int within_world(MPI_Comm comm, int size) {
    int within = 1, *ranks = ct_world_ranks(comm, size);
    if (!ranks) return 0;
    for (int r = 0; r < size && within; r++) within = ranks[r] != MPI_UNDEFINED;
    free(ranks);
    return within;
}

static ct_comm_t *new_state(MPI_Comm comm) {
    int is_inter = 1;
    ct_comm_t *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->comm = comm;
    c->base = MPI_COMM_NULL;
    if (PMPI(Comm_test_inter)(comm, &is_inter) != MPI_SUCCESS ||
        PMPI(Comm_size)(comm, &c->size) != MPI_SUCCESS ||
        PMPI(Comm_rank)(comm, &c->rank) != MPI_SUCCESS) {
        free(c);
        return NULL;
    }
    c->left_out = is_inter || c->size < 2 || !within_world(comm, c->size);
    link_state(c);
    if (PMPI(Comm_set_attr)(comm, keyval, c) == MPI_SUCCESS) return c;
    unlink_state(c);
    free(c);
    return NULL;
}

static ct_comm_t *look_up(MPI_Comm comm, unsigned long now) {
    ct_comm_t *c = NULL;
    int found = 0;
    if (comm == MPI_COMM_NULL || comm == (MPI_Comm)0 || keyval == MPI_KEYVAL_INVALID) return NULL;
    if (PMPI(Comm_get_attr)(comm, keyval, &c, &found) != MPI_SUCCESS) return NULL;
    if (!found) c = new_state(comm);
    if (!c) return NULL;
    last = (remembered_t){comm, now, c->left_out ? NULL : c};
    return last.state;
}

ct_comm_t *ct_comm(MPI_Comm comm) {
    unsigned long now = atomic_load_explicit(&generation, memory_order_acquire);
    if (last.comm == comm && last.generation == now) return last.state;
    return look_up(comm, now);
}

int ct_communicators_begin(void) {
    int error = PMPI(Comm_group)(MPI_COMM_WORLD, &world);
    if (error != MPI_SUCCESS) return error;
    has_world = 1;
    return PMPI(Comm_create_keyval)(ct_no_copy, forget, &keyval, NULL);
}

/* Newest first: what is made later may rest on what was there. */
void ct_communicators_end(void) {
    atomic_fetch_add(&generation, 1);
    while (newest) {
        ct_comm_t *c = newest;
        if (PMPI(Comm_delete_attr)(c->comm, keyval) != MPI_SUCCESS || newest == c) break;
    }
    if (keyval != MPI_KEYVAL_INVALID) PMPI(Comm_free_keyval)(&keyval);
    if (has_world) PMPI(Group_free)(&world);
    has_world = 0;
}

/* ---- communicators of our own ---- */

void ct_give_back(MPI_Comm *own) {
    PMPI(Comm_free)(own);
    atomic_fetch_sub(&made, 1);
}

/* Split `comm` if all of its processes may have one more communicator; the same everywhere. */
static int split_agreed(MPI_Comm comm, int able, int colour, int order, MPI_Comm *part) {
    int room = able && atomic_fetch_add(&made, 1) < MOST, all = room;
    int error = PMPI(Allreduce)(&room, &all, 1, MPI_INT, MPI_MIN, comm);
    *part = MPI_COMM_NULL;
    if (error == MPI_SUCCESS && !all) error = MPI_ERR_COMM;
    if (error == MPI_SUCCESS) error = PMPI(Comm_split)(comm, colour, order, part);
    if (error == MPI_SUCCESS && *part != MPI_COMM_NULL)
        error = PMPI(Comm_set_errhandler)(*part, CT_ERRORS_RETURN);
    if (able && *part == MPI_COMM_NULL) atomic_fetch_sub(&made, 1);
    return error;
}

/* Errors of what we do on the user's communicator are ours to deal with. */
static int split_quietly(MPI_Comm comm, int able, int rank, MPI_Comm *own) {
    MPI_Errhandler theirs;
    int error = PMPI(Comm_get_errhandler)(comm, &theirs);
    if (error != MPI_SUCCESS) return error;
    if (theirs != CT_ERRORS_RETURN) PMPI(Comm_set_errhandler)(comm, CT_ERRORS_RETURN);
    error = split_agreed(comm, able, 0, rank, own); /* a duplicate would copy attributes */
    if (theirs != CT_ERRORS_RETURN) PMPI(Comm_set_errhandler)(comm, theirs);
    PMPI(Errhandler_free)(&theirs);
    return error;
}

static int is_sharable(void) {
    int level;
    return PMPI(Query_thread)(&level) == MPI_SUCCESS && level != MPI_THREAD_MULTIPLE;
}

/* One of the same processes in the same order; all of them have it, or none. */
static struct ct_base *shared_base(const int *ranks, int size) {
    struct ct_base *base;
    pthread_mutex_lock(&lock);
    for (base = bases; base; base = base->next)
        if (base->ranks && base->size == size && !memcmp(base->ranks, ranks, (size_t)size * sizeof *ranks))
            break;
    if (base) base->users++;
    pthread_mutex_unlock(&lock);
    return base;
}

static int new_base(ct_comm_t *c, int *ranks) {
    struct ct_base *base = calloc(1, sizeof *base);
    MPI_Comm own = MPI_COMM_NULL;
    int error = split_quietly(c->comm, base != NULL, c->rank, &own);
    if (error != MPI_SUCCESS) {
        free(base);
        free(ranks);
        return error;
    }
    pthread_mutex_lock(&lock);
    *base = (struct ct_base){.next = bases, .comm = own, .users = 1, .size = c->size, .ranks = ranks};
    c->of_base = bases = base;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static int find_base(ct_comm_t *c) {
    int *ranks = is_sharable() ? ct_world_ranks(c->comm, c->size) : NULL;
    c->of_base = ranks ? shared_base(ranks, c->size) : NULL;
    if (!c->of_base) return new_base(c, ranks);
    free(ranks);
    return MPI_SUCCESS;
}

int ct_base(ct_comm_t *c) {
    if (c->base != MPI_COMM_NULL) return MPI_SUCCESS;
    if (c->refused) return MPI_ERR_COMM;
    int error = find_base(c);
    if (error == MPI_SUCCESS) c->base = c->of_base->comm;
    else {
        static _Atomic int told;
        c->refused = 1;
        if (!atomic_exchange(&told, 1))
            ct_log(0, "no more communicators of our own can be made: the MPI library runs all calls"
                   " on those of the program that have none");
    }
    return error;
}

int ct_split(ct_comm_t *c, int colour, int order, MPI_Comm *part) {
    int error = ct_base(c);
    *part = MPI_COMM_NULL;
    return error == MPI_SUCCESS ? split_agreed(c->base, 1, colour, order, part) : error;
}
