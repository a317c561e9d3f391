/* An application for where none is installed: heat in a square, cut into rows, and how much it
   changed in all, by a reduction after every step.
   usage: application_overhead ROWS STEPS
   prints: SECONDS of the steps */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double step(const double *from, double *to, int rows, int columns) {
    double change = 0;
    for (int i = 1; i <= rows; i++) {
        const double *at = from + (size_t)i * (size_t)columns;
        double *result = to + (size_t)i * (size_t)columns;
        for (int j = 1; j < columns - 1; j++) {
            result[j] = .25 * (at[j - 1] + at[j + 1] + at[j - columns] + at[j + columns]);
            change += fabs(result[j] - at[j]);
        }
    }
    return change;
}

static void exchange(double *field, int rows, int columns, int rank, int size) {
    int above = rank ? rank - 1 : MPI_PROC_NULL, below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    double *last = field + (size_t)rows * (size_t)columns;
    MPI_Sendrecv(field + columns, columns, MPI_DOUBLE, above, 0, last + columns, columns, MPI_DOUBLE,
                 below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, columns, MPI_DOUBLE, below, 0, field, columns, MPI_DOUBLE, above, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int all = argc > 2 ? atoi(argv[1]) : 0, steps = argc > 2 ? atoi(argv[2]) : 0;
    int rows = all / size, columns = all;
    size_t cells = (size_t)(rows + 2) * (size_t)columns;
    double *field = calloc(cells, sizeof *field), *next = calloc(cells, sizeof *next), change = 1;
    if (rows < 1 || steps < 1 || !field || !next) MPI_Abort(MPI_COMM_WORLD, 2);
    /* one side is hot */
    for (int i = 0; i < rows + 2; i++)
        field[(size_t)i * (size_t)columns] = next[(size_t)i * (size_t)columns] = 100;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int s = 0; s < steps && change > 0; s++) {
        exchange(field, rows, columns, rank, size);
        double mine = step(field, next, rows, columns), *other = field;
        MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        field = next;
        next = other;
    }
    double mine = MPI_Wtime() - start, slowest;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (!rank) printf("%.6f\n", slowest);
    free(field);
    free(next);
    MPI_Finalize();
    return 0;
}
