/* Times collectives. Each argument is collective:bytes:ranks:repetitions, calls on the first `ranks`
   ranks; the repetitions of all arguments take turns. Rank 0 prints, for each of them,
     TIME collective:bytes:ranks seconds
   the shortest over the repetitions of the time of the slowest rank. `bytes` is the buffer, or
   the block per peer. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64 };

typedef struct {
    char collective[32];
    int bytes, ranks, repetitions;
    double shortest;
} step;

static MPI_Comm comms[MOST_RANKS + 1];
static char *in, *out;

static void call(const step *s, MPI_Comm comm)
{
    const char *c = s->collective;
    int n = s->bytes;
    if (!strcmp(c, "bcast")) MPI_Bcast(out, n, MPI_BYTE, 0, comm);
    else if (!strcmp(c, "allreduce")) MPI_Allreduce(in, out, n, MPI_BYTE, MPI_BXOR, comm);
    else if (!strcmp(c, "reduce")) MPI_Reduce(in, out, n, MPI_BYTE, MPI_BXOR, 0, comm);
    else if (!strcmp(c, "allgather")) MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, comm);
    else if (!strcmp(c, "alltoall")) MPI_Alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, comm);
    else if (!strcmp(c, "gather")) MPI_Gather(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, comm);
    else if (!strcmp(c, "scatter")) MPI_Scatter(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, comm);
    else MPI_Abort(MPI_COMM_WORLD, 2);
}

static double timed(const step *s)
{
    MPI_Comm comm = comms[s->ranks];
    double time, slowest = 0;
    MPI_Barrier(comm);
    time = MPI_Wtime();
    call(s, comm);
    time = MPI_Wtime() - time;
    MPI_Allreduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
    return slowest;
}

static size_t read_steps(step *steps, int argc, char **argv, int size, int *most)
{
    size_t largest = 1;
    for (int a = 1; a < argc; a++) {
        step *s = &steps[a];
        int read = sscanf(argv[a], "%31[^:]:%d:%d:%d", s->collective, &s->bytes, &s->ranks, &s->repetitions);
        if (read != 4 || s->ranks < 2 || s->ranks > size || s->repetitions < 1) MPI_Abort(MPI_COMM_WORLD, 2);
        s->shortest = 1e9;
        if (s->repetitions > *most) *most = s->repetitions;
        if ((size_t)s->bytes > largest) largest = (size_t)s->bytes;
    }
    return largest * (size_t)size;
}

int main(int argc, char **argv)
{
    int rank, size, most = 0;
    step *steps = calloc((size_t)argc, sizeof *steps);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > MOST_RANKS) MPI_Abort(MPI_COMM_WORLD, 3);
    size_t total = read_steps(steps, argc, argv, size, &most);
    in = calloc(1, total);
    out = calloc(1, total);
    for (int n = 2; n <= size; n++)
        MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &comms[n]);
    for (int i = 0; i < most; i++)
        for (int a = 1; a < argc; a++) {
            if (i >= steps[a].repetitions || rank >= steps[a].ranks) continue;
            double time = timed(&steps[a]);
            if (time < steps[a].shortest) steps[a].shortest = time;
        }
    for (int a = 1; a < argc && rank == 0; a++) {
        step *s = &steps[a];
        printf("TIME %s:%d:%d %.9f\n", s->collective, s->bytes, s->ranks, s->shortest);
    }
    MPI_Finalize();
    return 0;
}
