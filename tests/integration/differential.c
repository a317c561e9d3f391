/* Performs a list of calls, read from the file that its one argument names, in one launch. Lines are
     comm <ranks> <split|group>      makes a communicator of the first `ranks` ranks of the world
     call <comm> <collective> <bytes> <element> <variant> <root> <ignored>
   `comm` is the number of a communicator in the order of their making, -1 the world; `bytes` is what
   the caller passes: the buffer, or the block per peer; `element` the bytes of the datatype. Variants:
   plain; inplace; user, noncommutative (an operation of the program). `ignored` are the bytes of the
   send type that an in-place call passes beside its own count, 0 for empty send arguments.
   Errors are returned, not fatal: rank 0 prints, for every call of which it is a part,
     MARK <collective> <size of the communicator> <bytes> <0 or the error's class> <component>
   to stderr; the component of Open MPI that owns the collective there is found in its communicator. Results are not checked: what the list makes an algorithm do may be wrong to do. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 256 };

typedef struct {
    char collective[32], variant[32];
    int comm, bytes, element, root, ignored;
} request;

static MPI_Comm made[MOST];
static int made_count, world_rank;
static MPI_Op user, noncommutative;

/* what it computes does not matter, only whether MPI was told that it commutes */
static void fold(void *in, void *inout, int *length, MPI_Datatype *type)
{
    int bytes;
    MPI_Type_size(*type, &bytes);
    for (long i = 0; i < (long)bytes * *length; i++) ((unsigned char *)inout)[i] ^= ((unsigned char *)in)[i];
}

static void *buffer(size_t bytes)
{
    void *memory = calloc(bytes + 64, 1);
    if (!memory) MPI_Abort(MPI_COMM_WORLD, 3);
    return memory;
}

static MPI_Datatype type_of(int element)
{
    if (element == 1) return MPI_BYTE;
    if (element == 4) return MPI_INT;
    if (element == 8) return MPI_INT64_T;
    MPI_Abort(MPI_COMM_WORLD, 4);
    return MPI_DATATYPE_NULL;
}

static void make(int ranks, const char *how)
{
    MPI_Comm *new = &made[made_count++];
    if (made_count > MOST) MPI_Abort(MPI_COMM_WORLD, 5);
    if (!strcmp(how, "split")) {
        MPI_Comm_split(MPI_COMM_WORLD, world_rank < ranks ? 0 : MPI_UNDEFINED, world_rank, new);
    } else { /* calls no collective of the world, whose rules may break it */
        int range[3] = {0, ranks - 1, 1};
        MPI_Group all, first;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_range_incl(all, 1, &range, &first);
        *new = MPI_COMM_NULL;
        if (world_rank < ranks) MPI_Comm_create_group(MPI_COMM_WORLD, first, made_count, new);
        MPI_Group_free(&all);
        MPI_Group_free(&first);
    }
    if (*new != MPI_COMM_NULL) MPI_Comm_set_errhandler(*new, MPI_ERRORS_RETURN);
}

/* reads memory that may not be there */
static int peek(uintptr_t from, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)from, bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* an object of Open MPI begins with its class, and that with its name: mca_coll_tuned_module_t */
static int name_of(uintptr_t module, char name[64])
{
    uintptr_t class, text;
    memset(name, 0, 64);
    if (!peek(module, &class, sizeof class) || !peek(class, &text, sizeof text)) return 0;
    for (int i = 0; i < 63 && peek(text + (uintptr_t)i, name + i, 1) && name[i]; i++) continue;
    return !strncmp(name, "mca_coll_", 9);
}

/* a communicator points to a table with a function and a module for each collective in turn */
static const char *owner(MPI_Comm comm, const char *collective)
{
    static const char *const order[] = {"allgather", "allgatherv", "allreduce", "alltoall", "alltoallv",
        "alltoallw", "barrier", "bcast", "exscan", "gather", "gatherv", "reduce", "reduce_scatter",
        "reduce_scatter_block", "scan", "scatter"};
    static char name[64];
    uintptr_t table, pair[2];
    size_t at = 0;
    while (strcmp(order[at], collective)) at++;
    for (uintptr_t offset = 0; offset < 2048; offset += sizeof table) {
        if (!peek((uintptr_t)comm + offset, &table, sizeof table)) break;
        if (!peek(table, pair, sizeof pair) || !name_of(pair[1], name)) continue;
        if (!peek(table + at * sizeof pair, pair, sizeof pair) || !name_of(pair[1], name)) continue;
        *strchr(name + 9, '_') = 0;
        return name + 9;
    }
    return "unknown";
}

static int call(const request *r, MPI_Comm comm)
{
    const char *c = r->collective;
    int size, rank, n = r->bytes / r->element, rc = MPI_SUCCESS, root = r->root;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    int inplace = !strcmp(r->variant, "inplace"), at_root = inplace && rank == root;
    size_t total = (size_t)r->bytes * (size_t)size;
    MPI_Datatype type = type_of(r->element), sent_type = type;
    MPI_Op op = r->element == 1 ? MPI_BXOR : MPI_SUM;
    if (!strcmp(r->variant, "user")) op = user;
    if (!strcmp(r->variant, "noncommutative")) op = noncommutative;
    if (inplace) sent_type = r->ignored ? type_of(r->ignored) : MPI_DATATYPE_NULL;
    int sent = inplace && !r->ignored ? 0 : n, *counts = buffer(sizeof(int) * (size_t)size), *starts = buffer(sizeof(int) * (size_t)size);
    void *in = buffer(total), *out = buffer(total), *from = inplace ? MPI_IN_PLACE : in;
    int parts = !strcmp(c, "reduce_scatter");
    for (int i = 0; i < size; i++) {
        counts[i] = parts ? n / size + (i < n % size) : n;
        starts[i] = i * n;
    }
    if (!strcmp(c, "bcast")) rc = MPI_Bcast(out, n, type, root, comm);
    else if (!strcmp(c, "barrier")) rc = MPI_Barrier(comm);
    else if (!strcmp(c, "allreduce")) rc = MPI_Allreduce(from, out, n, type, op, comm);
    else if (!strcmp(c, "reduce")) rc = MPI_Reduce(at_root ? MPI_IN_PLACE : in, out, n, type, op, root, comm);
    else if (!strcmp(c, "scan")) rc = MPI_Scan(from, out, n, type, op, comm);
    else if (!strcmp(c, "exscan")) rc = MPI_Exscan(from, out, n, type, op, comm);
    else if (parts) rc = MPI_Reduce_scatter(from, out, counts, type, op, comm);
    else if (!strcmp(c, "reduce_scatter_block")) rc = MPI_Reduce_scatter_block(from, out, n, type, op, comm);
    else if (!strcmp(c, "allgather")) rc = MPI_Allgather(from, sent, sent_type, out, n, type, comm);
    else if (!strcmp(c, "allgatherv")) rc = MPI_Allgatherv(from, sent, sent_type, out, counts, starts, type, comm);
    else if (!strcmp(c, "alltoall")) rc = MPI_Alltoall(from, sent, sent_type, out, n, type, comm);
    else if (!strcmp(c, "alltoallv")) rc = MPI_Alltoallv(from, counts, starts, type, out, counts, starts, type, comm);
    else if (!strcmp(c, "gather"))
        rc = MPI_Gather(at_root ? MPI_IN_PLACE : in, at_root ? 0 : n, at_root ? MPI_DATATYPE_NULL : type, out, n, type, root, comm);
    else if (!strcmp(c, "scatter"))
        rc = MPI_Scatter(in, n, type, at_root ? MPI_IN_PLACE : out, at_root ? 0 : n, at_root ? MPI_DATATYPE_NULL : type, root, comm);
    else MPI_Abort(MPI_COMM_WORLD, 6);
    free(in);
    free(out);
    free(counts);
    free(starts);
    return rc;
}

static void perform(const request *r)
{
    MPI_Comm comm = r->comm < 0 ? MPI_COMM_WORLD : made[r->comm];
    int size, class = 0;
    if (comm == MPI_COMM_NULL) return;
    MPI_Comm_size(comm, &size);
    MPI_Error_class(call(r, comm), &class);
    if (world_rank == 0) fprintf(stderr, "MARK %s %d %d %d %s\n", r->collective, size, r->bytes, class, owner(comm, r->collective));
}

int main(int argc, char **argv)
{
    char line[256], how[32];
    int ranks;
    request r;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Op_create(fold, 1, &user);
    MPI_Op_create(fold, 0, &noncommutative);
    FILE *list = fopen(argc > 1 ? argv[1] : "", "r");
    if (!list) MPI_Abort(MPI_COMM_WORLD, 7);
    while (fgets(line, sizeof line, list)) {
        if (sscanf(line, "comm %d %31s", &ranks, how) == 2) make(ranks, how);
        else if (sscanf(line, "call %d %31s %d %d %31s %d %d", &r.comm, r.collective, &r.bytes, &r.element, r.variant, &r.root, &r.ignored) == 7)
            perform(&r);
        else MPI_Abort(MPI_COMM_WORLD, 8);
    }
    fclose(list);
    MPI_Op_free(&user);
    MPI_Op_free(&noncommutative);
    MPI_Finalize();
    return 0;
}
