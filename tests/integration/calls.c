/* Runs a list of steps and checks every result. A step is
     collective:bytes[:variant[:ranks]]  one call on a fresh communicator of the first `ranks` ranks
     set:name=value                      writes a control variable (MPI_T) of the MPI library
   Variants: plain; inplace; null (arguments that MPI ignores are NULL); noncommutative; types (the
   ranks name the same data by different datatypes). `bytes` is the buffer, or the block per peer.
   Around a call every rank prints CALL <rank> and DONE <rank> to stderr, and after it rank 0 prints
   MARK <collective> <size of the communicator> <bytes>. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int a, b, c, d; } matrix;
typedef struct {
    char collective[32], variant[32];
    int bytes, ranks;
} step;

static int world_rank, rank, size, wrong;
static MPI_Comm comm;

static unsigned char value(int from, int to, int at) { return (unsigned char)(from * 31 + to * 7 + at); }

static void *buffer(size_t bytes)
{
    void *memory = malloc(bytes + 64);
    if (!memory) MPI_Abort(MPI_COMM_WORLD, 3);
    memset(memory, 0xa5, bytes + 64);
    return memory;
}

static void expect(int right) { wrong += !right; }

static matrix element(int of, int at)
{
    matrix m = {of + at + 1, of * 3 + 2, at % 17 + 3, of * 5 + at % 13 + 1};
    return m;
}

static matrix times(matrix x, matrix y)
{
    matrix z = {(x.a * y.a + x.b * y.c) % 251, (x.a * y.b + x.b * y.d) % 251,
                (x.c * y.a + x.d * y.c) % 251, (x.c * y.b + x.d * y.d) % 251};
    return z;
}

static void multiply(void *in, void *inout, int *length, MPI_Datatype *type)
{
    matrix *x = in, *y = inout;
    (void)type;
    for (int i = 0; i < *length; i++) y[i] = times(x[i], y[i]);
}

/* allreduce or reduce of matrix products, which depend on the order of the ranks */
static void noncommutative(const step *s)
{
    int count = s->bytes / (int)sizeof(matrix), everywhere = !strcmp(s->collective, "allreduce");
    matrix *in = buffer((size_t)s->bytes), *out = buffer((size_t)s->bytes);
    MPI_Datatype type;
    MPI_Op op;
    MPI_Type_contiguous(4, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(multiply, 0, &op);
    for (int i = 0; i < count; i++) in[i] = element(rank, i);
    if (everywhere) MPI_Allreduce(in, out, count, type, op, comm);
    else MPI_Reduce(in, out, count, type, op, 0, comm);
    for (int i = 0; i < count && (everywhere || rank == 0); i++) {
        matrix product = element(0, i);
        for (int r = 1; r < size; r++) product = times(product, element(r, i));
        expect(!memcmp(&product, &out[i], sizeof product));
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    free(in);
    free(out);
}

static void reduction(const step *s)
{
    int n = s->bytes, everywhere = !strcmp(s->collective, "allreduce");
    int inplace = !strcmp(s->variant, "inplace") && (everywhere || rank == 0);
    unsigned char *in = buffer((size_t)n), *out = buffer((size_t)n);
    for (int i = 0; i < n; i++) in[i] = out[i] = value(rank, 0, i);
    if (everywhere) MPI_Allreduce(inplace ? MPI_IN_PLACE : in, out, n, MPI_BYTE, MPI_BXOR, comm);
    else MPI_Reduce(inplace ? MPI_IN_PLACE : in, out, n, MPI_BYTE, MPI_BXOR, 0, comm);
    for (int i = 0; i < n && (everywhere || rank == 0); i++) {
        unsigned char sum = 0; /* not MPI_SUM: the library adds bytes with saturation where AVX does */
        for (int r = 0; r < size; r++) sum ^= value(r, 0, i);
        expect(out[i] == sum);
    }
    free(in);
    free(out);
}

static unsigned char folded(int ranks, int to, int at)
{
    unsigned char sum = 0;
    for (int r = 0; r < ranks; r++) sum ^= value(r, to, at);
    return sum;
}

/* reduce_scatter, reduce_scatter_block: everybody gets one block of the sum of all buffers */
static void reduction_in_blocks(const step *s)
{
    int blocks = !strcmp(s->collective, "reduce_scatter_block"), n = blocks ? s->bytes : s->bytes / size;
    unsigned char *in = buffer((size_t)n * (size_t)size), *out = buffer((size_t)n);
    int *counts = buffer(sizeof(int) * (size_t)size);
    for (int r = 0; r < size; r++) {
        counts[r] = n;
        for (int i = 0; i < n; i++) in[(size_t)r * n + i] = value(rank, r, i);
    }
    if (blocks) MPI_Reduce_scatter_block(in, out, n, MPI_BYTE, MPI_BXOR, comm);
    else MPI_Reduce_scatter(in, out, counts, MPI_BYTE, MPI_BXOR, comm);
    for (int i = 0; i < n; i++) expect(out[i] == folded(size, rank, i));
    free(in);
    free(out);
    free(counts);
}

/* scan, exscan: the sum of the buffers of the ranks before */
static void prefix(const step *s)
{
    int n = s->bytes, with_own = !strcmp(s->collective, "scan");
    unsigned char *in = buffer((size_t)n), *out = buffer((size_t)n);
    for (int i = 0; i < n; i++) in[i] = value(rank, 0, i);
    if (with_own) MPI_Scan(in, out, n, MPI_BYTE, MPI_BXOR, comm);
    else MPI_Exscan(in, out, n, MPI_BYTE, MPI_BXOR, comm);
    for (int i = 0; i < n && rank + with_own > 0; i++) expect(out[i] == folded(rank + with_own, 0, i));
    free(in);
    free(out);
}

static void broadcast(const step *s)
{
    unsigned char *data = buffer((size_t)s->bytes);
    for (int i = 0; i < s->bytes && rank == 0; i++) data[i] = value(0, 0, i);
    MPI_Bcast(data, s->bytes, MPI_BYTE, 0, comm);
    for (int i = 0; i < s->bytes; i++) expect(data[i] == value(0, 0, i));
    free(data);
}

/* allgather(v), alltoall(v): everybody gets a block from everybody */
static void exchange(const step *s)
{
    int n = s->bytes, inplace = !strcmp(s->variant, "inplace"), all = !strncmp(s->collective, "alltoall", 8);
    size_t total = (size_t)n * (size_t)size;
    unsigned char *in = buffer(total), *out = buffer(total);
    int *counts = buffer(sizeof(int) * (size_t)size), *starts = buffer(sizeof(int) * (size_t)size);
    for (int r = 0; r < size; r++) {
        counts[r] = n;
        starts[r] = r * n;
        for (int i = 0; i < n; i++) in[(size_t)r * n + i] = value(rank, all ? r : 0, i);
    }
    if (inplace) memcpy(all ? out : out + (size_t)rank * n, all ? in : in, all ? total : (size_t)n);
    const void *send = inplace ? MPI_IN_PLACE : in;
    MPI_Datatype type = inplace ? MPI_DATATYPE_NULL : MPI_BYTE, block;
    int sent = inplace ? 0 : n;
    if (!strcmp(s->variant, "types") && rank % 2) { /* the same n bytes as one element */
        MPI_Type_contiguous(n, MPI_BYTE, &block);
        MPI_Type_commit(&block);
        type = block;
        sent = 1;
    }
    if (!strcmp(s->collective, "alltoallv"))
        MPI_Alltoallv(in, counts, starts, MPI_BYTE, out, counts, starts, MPI_BYTE, comm);
    else if (all) MPI_Alltoall(send, sent, type, out, n, MPI_BYTE, comm);
    else if (!strcmp(s->collective, "allgather")) MPI_Allgather(send, sent, type, out, n, MPI_BYTE, comm);
    else MPI_Allgatherv(send, sent, type, out, counts, starts, MPI_BYTE, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) expect(out[(size_t)r * n + i] == value(r, all ? rank : 0, i));
    free(in);
    free(out);
    free(counts);
    free(starts);
}

static void gather(const step *s)
{
    int n = s->bytes, inplace = !strcmp(s->variant, "inplace") && rank == 0;
    int null = !strcmp(s->variant, "null") && rank != 0;
    unsigned char *in = buffer((size_t)n), *out = buffer((size_t)n * (size_t)size);
    for (int i = 0; i < n; i++) in[i] = out[(size_t)rank * n + i] = value(rank, 0, i);
    if (inplace) MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, n, MPI_BYTE, 0, comm);
    else MPI_Gather(in, n, MPI_BYTE, null ? NULL : out, null ? 0 : n, null ? MPI_DATATYPE_NULL : MPI_BYTE, 0, comm);
    for (int r = 0; r < size && rank == 0; r++)
        for (int i = 0; i < n; i++) expect(out[(size_t)r * n + i] == value(r, 0, i));
    free(in);
    free(out);
}

static void scatter(const step *s)
{
    int n = s->bytes, inplace = !strcmp(s->variant, "inplace") && rank == 0;
    int null = strcmp(s->variant, "plain") && rank != 0;
    unsigned char *in = buffer((size_t)n * (size_t)size), *out = buffer((size_t)n);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) in[(size_t)r * n + i] = value(r, 0, i);
    if (inplace) MPI_Scatter(in, n, MPI_BYTE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, comm);
    else MPI_Scatter(null ? NULL : in, null ? 0 : n, null ? MPI_DATATYPE_NULL : MPI_BYTE, out, n, MPI_BYTE, 0, comm);
    for (int i = 0; i < n && !inplace; i++) expect(out[i] == value(rank, 0, i));
    free(in);
    free(out);
}

static void write_variable(const char *assignment)
{
    char name[128];
    int given, index, count, rc;
    MPI_T_cvar_handle handle;
    if (sscanf(assignment, "%127[^=]=%d", name, &given) != 2) MPI_Abort(MPI_COMM_WORLD, 4);
    rc = MPI_T_cvar_get_index(name, &index);
    if (rc == MPI_SUCCESS) rc = MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
    if (rc == MPI_SUCCESS) rc = MPI_T_cvar_write(handle, &given);
    if (rc != MPI_SUCCESS) {
        fprintf(stderr, "cannot set %s: %d\n", name, rc);
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    MPI_T_cvar_handle_free(&handle);
}

static void run(const step *s)
{
    const char *c = s->collective;
    fprintf(stderr, "CALL %d\n", world_rank);
    if (!strcmp(s->variant, "noncommutative")) noncommutative(s);
    else if (!strcmp(c, "bcast")) broadcast(s);
    else if (!strcmp(c, "allreduce") || !strcmp(c, "reduce")) reduction(s);
    else if (!strcmp(c, "scan") || !strcmp(c, "exscan")) prefix(s);
    else if (!strncmp(c, "reduce_scatter", 14)) reduction_in_blocks(s);
    else if (!strcmp(c, "gather")) gather(s);
    else if (!strcmp(c, "scatter")) scatter(s);
    else if (!strcmp(c, "barrier")) MPI_Barrier(comm);
    else exchange(s);
    fprintf(stderr, "DONE %d\n", world_rank);
    if (world_rank == 0) fprintf(stderr, "MARK %s %d %d\n", c, size, s->bytes);
}

int main(int argc, char **argv)
{
    int provided, world_size, failures = 0, sum;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    for (int a = 1; a < argc; a++) {
        step s = {"", "plain", 0, world_size};
        if (!strncmp(argv[a], "set:", 4)) {
            write_variable(argv[a] + 4);
            continue;
        }
        if (sscanf(argv[a], "%31[^:]:%d:%31[^:]:%d", s.collective, &s.bytes, s.variant, &s.ranks) < 2)
            MPI_Abort(MPI_COMM_WORLD, 2);
        MPI_Comm_split(MPI_COMM_WORLD, world_rank < s.ranks ? 0 : MPI_UNDEFINED, world_rank, &comm);
        if (comm == MPI_COMM_NULL) continue;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        wrong = 0;
        run(&s);
        if (wrong) fprintf(stderr, "WRONG %s on rank %d: %d values\n", argv[a], rank, wrong);
        failures += wrong;
        MPI_Comm_free(&comm);
    }
    MPI_Allreduce(&failures, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_T_finalize(); /* before MPI_Finalize: btl/tcp of 5.0 writes to freed memory otherwise */
    MPI_Finalize();
    return sum != 0;
}
