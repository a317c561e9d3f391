/* Broadcasts under libcolltune, compared with those of the MPI library byte by byte.
     broadcasts check SAMPLES LIVES ID...  each configuration on several communicators, with
                                           datatypes, counts and roots drawn at random, the same on
                                           all processes; then errors that a handler gets to see, and
                                           LIVES communicators made, used and freed
     broadcasts messages ID...             prints "ID: n n n", the messages that each process sends
     broadcasts truncated ID               one process expects less than is sent: that is the end
   Prints "n right" or "WRONG ..." lines. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, START = 1 << 10, LAYOUTS = 9 };

static int world_rank, world_size, messages, right, wrong;
static char *got, *expected;
static int (*force)(const char *, const char *);

/* The library's messages are seen here: the program's functions come first. */
int PMPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request) {
    static int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Isend");
    messages++;
    return real(buffer, count, type, to, tag, comm, request);
}

int PMPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    static int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Send");
    messages += to != MPI_PROC_NULL; /* which asks whether the datatype can be sent */
    return real(buffer, count, type, to, tag, comm);
}

static int drawn(int n) {
    static unsigned long long state = 1;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state >> 33) % (unsigned long long)n);
}

static void use(const char *id) {
    if (force("bcast", id)) MPI_Abort(MPI_COMM_WORLD, 3);
}

/* ---- datatypes ---- */

/* A datatype of six ints by `layout`, or one of others; the last two have one signature. */
static MPI_Datatype made(int layout, int is_root) {
    MPI_Datatype type, inner;
    int lengths[] = {2, 1, 3}, places[] = {7, 0, 2}, six = 6;
    switch (layout) {
    case 0: MPI_Type_contiguous(1, MPI_INT, &type); break;
    case 1: MPI_Type_vector(3, 2, 5, MPI_INT, &type); break;
    case 2: MPI_Type_indexed(3, lengths, places, MPI_INT, &type); break;
    case 3:
        MPI_Type_contiguous(6, MPI_INT, &inner);
        MPI_Type_create_resized(inner, -8, 40, &type);
        MPI_Type_free(&inner);
        break;
    case 4:
        MPI_Type_create_hindexed(1, &six, (MPI_Aint[]){-24}, MPI_INT, &type);
        break;
    case 5: MPI_Type_contiguous(0, MPI_INT, &type); break;
    case 6: MPI_Type_contiguous(2, MPI_LONG_INT, &type); break;
    case 7: MPI_Type_vector(2, 1, -3, MPI_DOUBLE, &type); break;
    default:
        if (is_root) MPI_Type_vector(3, 2, 3, MPI_INT, &type);
        else MPI_Type_contiguous(6, MPI_INT, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

static void fill(char *buffer, int is_root) {
    for (int i = 0; i < ROOM; i++) buffer[i] = is_root ? (char)(i * 7 + i / 251) : (char)0xa5;
}

static void compare(const char *id, const char *name, MPI_Comm comm) {
    static const int counts[] = {0, 1, 2, 13, 300, 1201};
    int rank, size, layout = drawn(LAYOUTS), count = counts[drawn(6)];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int root = drawn(1 << 20) % size, named = layout == 0 && drawn(2);
    MPI_Datatype type = named ? MPI_INT : made(layout, rank == root);
    fill(got, rank == root);
    fill(expected, rank == root);
    int e = MPI_Bcast(got + START, count, type, root, comm);
    PMPI_Bcast(expected + START, count, type, root, comm);
    if (e == MPI_SUCCESS && !memcmp(got, expected, ROOM)) right++;
    else {
        wrong++;
        printf("WRONG %s %s rank %d root %d layout %d count %d\n", id, name, rank, root, layout, count);
    }
    if (!named) MPI_Type_free(&type);
}

static void compare_all(int samples, char **ids, int n) {
    static const char *const names[] = {"world", "duplicate", "reversed", "part"};
    MPI_Comm comms[4] = {MPI_COMM_WORLD};
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 3 == 1, world_rank, &comms[3]);
    for (int i = 0; i < n; i++) {
        use(ids[i]);
        for (int c = 0; c < 4; c++)
            for (int s = 0; s < samples; s++) compare(ids[i], names[c], comms[c]);
    }
    for (int c = 1; c < 4; c++) MPI_Comm_free(&comms[c]);
}

/* ---- messages ---- */

static void count_messages(char **ids, int n) {
    int sent[64] = {0};
    char buffer[5000] = {0};
    for (int i = 0; i < n; i++) {
        use(ids[i]);
        messages = 0;
        MPI_Bcast(buffer, sizeof buffer, MPI_BYTE, 1, MPI_COMM_WORLD);
        int mine = messages;
        PMPI_Gather(&mine, 1, MPI_INT, sent, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (world_rank) continue;
        printf("%s:", ids[i]);
        for (int r = 0; r < world_size; r++) printf(" %d", sent[r]);
        printf("\n");
    }
}

/* ---- errors ---- */

static int calls, seen_class;
static int returns_it; /* later releases of MPICH return MPI_SUCCESS behind a handler that returns */
static MPI_Comm seen_comm;

static void note(MPI_Comm *comm, int *error, ...) {
    calls++;
    seen_comm = *comm;
    MPI_Error_class(*error, &seen_class);
}

static void expect(const char *what, MPI_Comm comm, int error, int class) {
    int own, wanted = returns_it ? class : MPI_SUCCESS;
    MPI_Error_class(error, &own);
    if (calls == 1 && seen_class == class && own == wanted && seen_comm == comm) right++;
    else {
        wrong++;
        printf("WRONG %s: %d calls, class %d of %d, returned %d of %d\n", what, calls, seen_class, class,
               own, wanted);
    }
    calls = 0;
}

static void truncate(const char *id) {
    int numbers[64] = {0};
    use(id);
    MPI_Bcast(numbers, world_rank ? 2 : 64, MPI_INT, 0, MPI_COMM_WORLD);
}

static void check_errors(void) {
    int numbers[64] = {0}, error;
    MPI_Errhandler handler;
    MPI_Comm comm;
    MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank > 1, world_rank, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    returns_it = PMPI_Bcast(numbers, 1, MPI_INT, 9, comm) != MPI_SUCCESS;
    calls = 0;
    use("colltune.bcast.hierarchical:groups=1,inner=flat");
    error = MPI_Bcast(numbers, 1, MPI_INT, 9, comm);
    expect("root", comm, error, MPI_ERR_ROOT);
    error = MPI_Bcast(numbers, -1, MPI_INT, 0, comm);
    expect("count", comm, error, MPI_ERR_COUNT);
    error = MPI_Bcast(numbers, 1, MPI_DATATYPE_NULL, 0, comm);
    expect("datatype", comm, error, MPI_ERR_TYPE);
    returns_it = 1; /* libcolltune does */
    if (world_rank < 2) { /* the others wait in MPI_Comm_free */
        error = MPI_Bcast(numbers, world_rank ? 2 : 20, MPI_INT, 0, comm);
        if (world_rank) expect("truncated", comm, error, MPI_ERR_TRUNCATE);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        use("colltune.bcast.hierarchical:groups=1,inner=scatter_ring_allgather");
        error = MPI_Bcast(numbers, 4, MPI_INT, 2, comm);
        calls = error != MPI_SUCCESS;
        MPI_Error_class(error, &seen_class);
        expect("returned", comm, error, MPI_ERR_ROOT);
    }
    MPI_Comm_free(&comm);
    MPI_Errhandler_free(&handler);
}

/* ---- lifetimes ---- */

static void expect_number(const char *what, int number, int wanted) {
    if (number == wanted) right++;
    else {
        wrong++;
        printf("WRONG %s: %d, wanted %d\n", what, number, wanted);
    }
}

static void between_groups(void) {
    MPI_Comm half, inter, merged;
    int side = world_rank % 2, number = side ? 0 : 42;
    MPI_Comm_split(MPI_COMM_WORLD, side, world_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 5, &inter);
    int root = side ? 0 : world_rank ? MPI_PROC_NULL : MPI_ROOT;
    messages = 0;
    MPI_Bcast(&number, 1, MPI_INT, root, inter);
    expect_number("between groups", number, 42);
    expect_number("messages of ours", messages, 0);
    MPI_Intercomm_merge(inter, side, &merged);
    number = world_rank ? 0 : 43;
    MPI_Bcast(&number, 1, MPI_INT, 0, merged);
    expect_number("merged", number, 43);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void live_and_die(int n) {
    static const char *const ids[] = {"colltune.bcast.hierarchical:groups=2,inner=library",
                                      "colltune.bcast.hierarchical:groups=2,inner=flat"};
    int number = 7, alone;
    MPI_Comm kept = MPI_COMM_NULL;
    for (int i = 0; i < n; i++) {
        MPI_Comm comm;
        int rank, number = -1;
        use(ids[i % 16 != 0]);
        if (i % 2) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        else MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, i % 3 ? world_rank : -world_rank, &comm);
        MPI_Comm_rank(comm, &rank);
        if (rank == 0) number = i;
        MPI_Bcast(&number, 1, MPI_INT, 0, comm);
        if (number != i) expect_number("number", number, i);
        if (i == 3) kept = comm; /* the library ends with it alive */
        else MPI_Comm_free(&comm);
    }
    MPI_Comm_size(kept, &alone);
    expect_number("kept", alone, world_size);
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_SELF);
    expect_number("self", number, 7);
    between_groups();
}

int main(int argc, char **argv) {
    int totals[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    *(void **)&force = dlsym(RTLD_DEFAULT, "colltune_force");
    if (!force || argc < 2 || !(got = malloc(ROOM)) || !(expected = malloc(ROOM)))
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(argv[1], "messages")) count_messages(argv + 2, argc - 2);
    else if (!strcmp(argv[1], "truncated")) truncate(argv[2]);
    else {
        compare_all(atoi(argv[2]), argv + 4, argc - 4);
        check_errors();
        live_and_die(atoi(argv[3]));
    }
    PMPI_Reduce((int[]){right, wrong}, totals, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!world_rank) printf("%d right, %d wrong\n", totals[0], totals[1]);
    free(got);
    free(expected);
    MPI_Finalize();
    return 0;
}
