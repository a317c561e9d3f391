/* Times a collective at some message sizes, and knows nothing of colltune.

   confirmed_again COLLECTIVE REPETITIONS BYTES... prints a line "BYTES SECONDS..." for each size:
   the median over repetitions of the slowest process's time, counted from a barrier on; the mean
   over calls and processes of a process's own time, with a barrier after each call, as the OSU
   benchmarks have it; and the time of a call and a barrier in a loop. Blocks are per process where
   each process has one for every other. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compared(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void call(const char *name, char *in, char *out, int *counts, int *places, int bytes)
{
    MPI_Comm world = MPI_COMM_WORLD;
    int whole = bytes % (int)sizeof(int) == 0, n = whole ? bytes / (int)sizeof(int) : bytes;
    MPI_Datatype type = whole ? MPI_INT : MPI_BYTE;
    MPI_Op op = whole ? MPI_SUM : MPI_BOR;
    if (!strcmp(name, "bcast"))
        MPI_Bcast(in, bytes, MPI_BYTE, 0, world);
    else if (!strcmp(name, "reduce"))
        MPI_Reduce(in, out, n, type, op, 0, world);
    else if (!strcmp(name, "allreduce"))
        MPI_Allreduce(in, out, n, type, op, world);
    else if (!strcmp(name, "scan"))
        MPI_Scan(in, out, n, type, op, world);
    else if (!strcmp(name, "exscan"))
        MPI_Exscan(in, out, n, type, op, world);
    else if (!strcmp(name, "alltoall"))
        MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, world);
    else if (!strcmp(name, "allgather"))
        MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, world);
    else if (!strcmp(name, "gather"))
        MPI_Gather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, 0, world);
    else if (!strcmp(name, "scatter"))
        MPI_Scatter(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, 0, world);
    else if (!strcmp(name, "allgatherv"))
        MPI_Allgatherv(in, bytes, MPI_BYTE, out, counts, places, MPI_BYTE, world);
    else if (!strcmp(name, "alltoallv"))
        MPI_Alltoallv(in, counts, places, MPI_BYTE, out, counts, places, MPI_BYTE, world);
    else if (!strcmp(name, "reduce_scatter_block"))
        MPI_Reduce_scatter_block(in, out, n, type, op, world);
    else if (!strcmp(name, "barrier"))
        MPI_Barrier(world);
    else
        MPI_Abort(world, 2);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int repetitions = argc > 2 ? atoi(argv[2]) : 0;
    double *times = malloc(sizeof(double) * (size_t)(repetitions + 1));
    int *counts = malloc(sizeof(int) * (size_t)size), *places = malloc(sizeof(int) * (size_t)size);
    for (int at = 3; at < argc; at++) {
        int bytes = atoi(argv[at]);
        size_t room = (size_t)(bytes + 8) * (size_t)size;
        char *in = calloc(room, 1), *out = calloc(room, 1);
        if (!times || !in || !out || !counts || !places)
            MPI_Abort(MPI_COMM_WORLD, 3);
        for (int peer = 0; peer < size; peer++) {
            counts[peer] = bytes;
            places[peer] = peer * bytes;
        }
        for (int i = 0; i < repetitions / 5 + 2; i++)
            call(argv[1], in, out, counts, places, bytes);
        for (int i = 0; i < repetitions; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begins = MPI_Wtime();
            call(argv[1], in, out, counts, places, bytes);
            double own = MPI_Wtime() - begins;
            MPI_Reduce(&own, &times[i], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime(), own = 0, mean = 0;
        for (int i = 0; i < repetitions; i++) {
            double begins = MPI_Wtime();
            call(argv[1], in, out, counts, places, bytes);
            own += MPI_Wtime() - begins;
            MPI_Barrier(MPI_COMM_WORLD);
        }
        double loop = MPI_Wtime() - began;
        MPI_Reduce(&own, &mean, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            qsort(times, (size_t)repetitions, sizeof *times, compared);
            printf("%d %.9f %.9f %.9f\n", bytes, times[repetitions / 2],
                   mean / size / repetitions, loop / repetitions);
        }
        free(in);
        free(out);
    }
    MPI_Finalize();
    return 0;
}
