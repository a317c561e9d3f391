/* All that is asked of the user's datatypes and operations.
 *
 * Errors of questions that name no communicator go to the error handler of MPI_COMM_WORLD or
 * MPI_COMM_SELF, which is the user's and may abort. So the MPI library is first asked on a
 * communicator of ours, which returns errors, whether it takes the object. Calls with objects that
 * it does not take are passed on to it as they are. */
#include "core.h"

#include <pthread.h>
#include <stdint.h>

static MPI_Comm quiet;
static int has_quiet;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of collectives on it */

int ct_objects_begin(void) {
    int error = PMPI(Comm_dup)(MPI_COMM_SELF, &quiet);
    has_quiet = error == MPI_SUCCESS;
    return has_quiet ? PMPI(Comm_set_errhandler)(quiet, CT_ERRORS_RETURN) : error;
}

void ct_objects_end(void) {
    if (has_quiet) PMPI(Comm_free)(&quiet);
    has_quiet = 0;
}

/* ---- datatypes ---- */

/* A message to nobody: the MPI library looks at its datatype, and does nothing. */
static int is_taken(MPI_Datatype type) {
    const char nothing = 0;
    return type != MPI_DATATYPE_NULL &&
           PMPI(Send)(&nothing, 1, type, MPI_PROC_NULL, 0, quiet) == MPI_SUCCESS;
}

/* How a type was made. Those that large counts made have a large envelope only. */
#if MPI_VERSION >= 4
typedef struct {
    MPI_Count integers, addresses, counts, types;
    int combiner;
} envelope_t;

static int read_envelope(MPI_Datatype type, envelope_t *e) {
    return PMPI(Type_get_envelope_c)(type, &e->integers, &e->addresses, &e->counts, &e->types,
                                    &e->combiner);
}

static int read_content(MPI_Datatype type, const envelope_t *e, MPI_Datatype *content) {
    int integer;
    MPI_Aint address;
    MPI_Count count;
    return PMPI(Type_get_contents_c)(type, e->integers, 0, e->counts, 1, &integer, &address, &count,
                                    content);
}
#else
typedef struct {
    int integers, addresses, counts, types, combiner;
} envelope_t;

static int read_envelope(MPI_Datatype type, envelope_t *e) {
    e->counts = 0;
    return PMPI(Type_get_envelope)(type, &e->integers, &e->addresses, &e->types, &e->combiner);
}

static int read_content(MPI_Datatype type, const envelope_t *e, MPI_Datatype *content) {
    int integer;
    MPI_Aint address;
    return PMPI(Type_get_contents)(type, e->integers, 0, 1, &integer, &address, content);
}
#endif

static int is_named(MPI_Datatype type) {
    envelope_t e;
    return read_envelope(type, &e) == MPI_SUCCESS && e.combiner == MPI_COMBINER_NAMED;
}

static int has_no_gaps(MPI_Datatype type) {
    MPI_Count size, low, extent;
    return PMPI(Type_size_x)(type, &size) == MPI_SUCCESS &&
           PMPI(Type_get_extent_x)(type, &low, &extent) == MPI_SUCCESS && !low && extent == size;
}

int ct_type_is_plain(MPI_Datatype type) {
    envelope_t e;
    MPI_Datatype content;
    if (read_envelope(type, &e) != MPI_SUCCESS) return 0;
    if (e.combiner == MPI_COMBINER_NAMED) return has_no_gaps(type);
    if (e.combiner != MPI_COMBINER_DUP && e.combiner != MPI_COMBINER_CONTIGUOUS) return 0;
    if (e.integers > 1 || e.addresses || e.counts > 1 || e.types != 1) return 0;
    if (read_content(type, &e, &content) != MPI_SUCCESS) return 0;
    int plain = ct_type_is_plain(content);
    if (!is_named(content)) PMPI(Type_free)(&content);
    return plain;
}

/* Sizes of predefined datatypes, which nobody frees: their handles stay what they are. */
enum { SIZES = 64 };
typedef struct {
    MPI_Datatype type;
    size_t size;
    int known;
} size_entry_t;
static _Thread_local size_entry_t sizes[SIZES];

static size_entry_t *size_entry(MPI_Datatype type) {
    uintptr_t bits = (uintptr_t)type; /* MPICH's handles are ints, Open MPI's addresses */
    return &sizes[(bits ^ bits >> 4 ^ bits >> 8) % SIZES];
}

static int ask_size(MPI_Datatype type, size_entry_t *entry, size_t *size) {
    MPI_Count found;
    if (!is_taken(type) || PMPI(Type_size_x)(type, &found) != MPI_SUCCESS || found < 0) return 1;
    *size = (size_t)found;
    if (is_named(type)) *entry = (size_entry_t){type, *size, 1};
    return 0;
}

int ct_type_size(MPI_Datatype type, size_t *size) {
    size_entry_t *entry = size_entry(type);
    if (entry->type != type || !entry->known) return ask_size(type, entry, size);
    *size = entry->size;
    return 0;
}

/* ---- packing ---- */

/* MPICH neither packs from MPI_BOTTOM nor unpacks to it. The same data as one element which begins
 * elsewhere; `moved` is what it made of `count` elements of a type. */
enum { ELSEWHERE = 64 };

static int move_from_bottom(int count, MPI_Datatype type, MPI_Datatype *moved) {
    const MPI_Aint back = -ELSEWHERE;
    int error = PMPI(Type_create_hindexed)(1, &count, &back, type, moved);
    return error == MPI_SUCCESS ? PMPI(Type_commit)(moved) : error;
}

int ct_pack_from(const void *buffer, int count, MPI_Datatype type, void *bytes, int room, int *at,
                 MPI_Comm comm) {
    MPI_Datatype moved;
    if (buffer || !count) return PMPI(Pack)(buffer, count, type, bytes, room, at, comm);
    int error = move_from_bottom(count, type, &moved);
    if (error != MPI_SUCCESS) return error;
    error = PMPI(Pack)((const char *)buffer + ELSEWHERE, 1, moved, bytes, room, at, comm);
    PMPI(Type_free)(&moved);
    return error;
}

int ct_unpack_to(const void *bytes, int length, int *at, void *buffer, int count, MPI_Datatype type,
                 MPI_Comm comm) {
    MPI_Datatype moved;
    if (buffer || !count) return PMPI(Unpack)(bytes, length, at, buffer, count, type, comm);
    int error = move_from_bottom(count, type, &moved);
    if (error != MPI_SUCCESS) return error;
    error = PMPI(Unpack)(bytes, length, at, (char *)buffer + ELSEWHERE, 1, moved, comm);
    PMPI(Type_free)(&moved);
    return error;
}

/* ---- operations ---- */

/* On one process nothing is combined. */
static int takes(MPI_Op op, MPI_Datatype type) {
    char nothing = 0;
    pthread_mutex_lock(&lock);
    int error = PMPI(Allreduce)(MPI_IN_PLACE, &nothing, 0, type, op, quiet);
    pthread_mutex_unlock(&lock);
    return error == MPI_SUCCESS;
}

int ct_op_commutes(MPI_Op op, MPI_Datatype type) {
    int commutes = 0;
    return takes(op, type) && PMPI(Op_commutative)(op, &commutes) == MPI_SUCCESS && commutes;
}
