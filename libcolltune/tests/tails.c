/* A library whose functions end in a call of MPI, of which compilers make a jump: each function that
 * libcolltune has, once. tail_host.c calls them, so that MPI returns to a program without MPI. */
#include <mpi.h>
#include <stddef.h>

enum { MOST = 64 };
static int a[MOST], b[MOST], counts[MOST], places[MOST], level;
static MPI_Comm made;
static MPI_Request request;

#define SENT a, 1, MPI_INT
#define GOT b, 1, MPI_INT
#define WORLD MPI_COMM_WORLD
#define EACH(X)                                                                            \
    X(Init_thread, NULL, NULL, MPI_THREAD_SINGLE, &level)                                  \
    X(Allgather, SENT, GOT, WORLD)                                                         \
    X(Allgatherv, SENT, b, counts, places, MPI_INT, WORLD)                                 \
    X(Allreduce, a, b, 1, MPI_INT, MPI_SUM, WORLD)                                         \
    X(Alltoall, SENT, GOT, WORLD)                                                          \
    X(Alltoallv, a, counts, places, MPI_INT, b, counts, places, MPI_INT, WORLD)            \
    X(Barrier, WORLD)                                                                      \
    X(Bcast, SENT, 0, WORLD)                                                               \
    X(Exscan, a, b, 1, MPI_INT, MPI_SUM, WORLD)                                            \
    X(Gather, SENT, GOT, 0, WORLD)                                                         \
    X(Reduce, a, b, 1, MPI_INT, MPI_SUM, 0, WORLD)                                         \
    X(Reduce_scatter, a, b, counts, MPI_INT, MPI_SUM, WORLD)                               \
    X(Reduce_scatter_block, a, b, 1, MPI_INT, MPI_SUM, WORLD)                              \
    X(Scan, a, b, 1, MPI_INT, MPI_SUM, WORLD)                                              \
    X(Scatter, SENT, GOT, 0, WORLD)                                                        \
    X(Comm_idup, WORLD, &made, &request)
#if MPI_VERSION >= 4 || (defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5) /* which tells 3.1 */
static MPI_Session session;
#define EACH_OF_4(X)                                                                       \
    X(Comm_idup_with_info, WORLD, MPI_INFO_NULL, &made, &request)                          \
    X(Session_init, MPI_INFO_NULL, MPI_ERRORS_RETURN, &session)                            \
    X(Session_finalize, &session)
#define AFTER_4 {"MPI_Wait", free_duplicate},
#else
#define EACH_OF_4(X)
#define AFTER_4
#endif
#if MPI_VERSION >= 4
static MPI_Count large[MOST];
static MPI_Aint far[MOST];
#define EACH_LARGE(X)                                                                      \
    X(Allgather_c, SENT, GOT, WORLD)                                                       \
    X(Allgatherv_c, SENT, b, large, far, MPI_INT, WORLD)                                   \
    X(Allreduce_c, a, b, 1, MPI_INT, MPI_SUM, WORLD)                                       \
    X(Alltoall_c, SENT, GOT, WORLD)                                                        \
    X(Alltoallv_c, a, large, far, MPI_INT, b, large, far, MPI_INT, WORLD)                  \
    X(Bcast_c, SENT, 0, WORLD)                                                             \
    X(Exscan_c, a, b, 1, MPI_INT, MPI_SUM, WORLD)                                          \
    X(Gather_c, SENT, GOT, 0, WORLD)                                                       \
    X(Reduce_c, a, b, 1, MPI_INT, MPI_SUM, 0, WORLD)                                       \
    X(Reduce_scatter_c, a, b, large, MPI_INT, MPI_SUM, WORLD)                              \
    X(Reduce_scatter_block_c, a, b, 1, MPI_INT, MPI_SUM, WORLD)                            \
    X(Scan_c, a, b, 1, MPI_INT, MPI_SUM, WORLD)                                            \
    X(Scatter_c, SENT, GOT, 0, WORLD)
#else
#define EACH_LARGE(X)
#endif

#define FUNCTION(function, ...) \
    int tail_##function(void);  \
    int tail_##function(void) { return MPI_##function(__VA_ARGS__); }
#define STEP(function, ...) {"MPI_" #function, tail_##function},
EACH(FUNCTION)
EACH_OF_4(FUNCTION)
EACH_LARGE(FUNCTION)
int tail_Finalize(void);
int tail_Finalize(void) { return MPI_Finalize(); }

static int free_duplicate(void) {
    int error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    return error == MPI_SUCCESS ? MPI_Comm_free(&made) : error;
}

/* Whether MPI works; called by the host after each function but the last. */
int right(void);
int right(void) {
    int size = 1, sum = 0;
    for (int i = 0; i < MOST; i++) {
        a[i] = 1, b[i] = -1, counts[i] = 1, places[i] = i;
#if MPI_VERSION >= 4
        large[i] = 1, far[i] = i;
#endif
    }
    MPI_Comm_size(WORLD, &size);
    MPI_Reduce(a, &sum, 1, MPI_INT, MPI_SUM, 0, WORLD);
    MPI_Bcast(&sum, 1, MPI_INT, 0, WORLD);
    return sum == size;
}

const struct {
    const char *name;
    int (*call)(void);
} steps[] = {EACH(STEP){"MPI_Wait", free_duplicate}, EACH_OF_4(STEP) AFTER_4 EACH_LARGE(STEP){
                 "MPI_Finalize", tail_Finalize}, {NULL, NULL}};
