/* A conjugate gradient on a grid, as many programs have it: halos between neighbours, scalar products
 * over all, a profile that is summed up, and a histogram at the root. It prints what it computed, to
 * the last bit. usage: results_program */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, COLUMNS = 96, STEPS = 40, PROFILE = 2048, BINS = 64 };
typedef double grid_t[ROWS + 2][COLUMNS + 2];

static int rank, size;

static double product(grid_t a, grid_t b) {
    double mine = 0, all;
    for (int i = 1; i <= ROWS; i++)
        for (int j = 1; j <= COLUMNS; j++) mine += a[i][j] * b[i][j];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void exchange(grid_t a) {
    int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(a[1], COLUMNS + 2, MPI_DOUBLE, up, 0, a[ROWS + 1], COLUMNS + 2, MPI_DOUBLE, down, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(a[ROWS], COLUMNS + 2, MPI_DOUBLE, down, 1, a[0], COLUMNS + 2, MPI_DOUBLE, up, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void apply(grid_t a, grid_t b) {
    exchange(a);
    for (int i = 1; i <= ROWS; i++)
        for (int j = 1; j <= COLUMNS; j++)
            b[i][j] = 4.01 * a[i][j] - a[i - 1][j] - a[i + 1][j] - a[i][j - 1] - a[i][j + 1];
}

static uint64_t hash_of(const void *bytes, size_t n) {
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < n; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211U;
    return hash;
}

int main(int argc, char **argv) {
    static grid_t x, r, p, q;
    static double profile[PROFILE], all[PROFILE], bins[BINS], total[BINS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i <= ROWS; i++)
        for (int j = 1; j <= COLUMNS; j++) p[i][j] = r[i][j] = sin(1.7 * (rank * ROWS + i) + 0.3 * j * j);
    double before = product(r, r);
    for (int s = 0; s < STEPS; s++) {
        apply(p, q);
        double alpha = before / product(p, q);
        for (int i = 1; i <= ROWS; i++)
            for (int j = 1; j <= COLUMNS; j++) x[i][j] += alpha * p[i][j], r[i][j] -= alpha * q[i][j];
        double now = product(r, r);
        for (int i = 1; i <= ROWS; i++)
            for (int j = 1; j <= COLUMNS; j++) p[i][j] = r[i][j] + now / before * p[i][j];
        before = now;
        for (int k = 0; k < PROFILE; k++) profile[k] = x[1 + k % ROWS][1 + k % COLUMNS] * (1 + s);
        MPI_Allreduce(profile, all, PROFILE, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int k = 0; k < BINS; k++) bins[k] = r[1 + k % ROWS][1 + k % COLUMNS] + all[k];
        MPI_Reduce(bins, total, BINS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        before += 1e-13 * all[s];
        MPI_Bcast(total, BINS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        before += 1e-13 * fabs(total[s % BINS]);
    }
    uint64_t mine = hash_of(x, sizeof x), sum;
    MPI_Reduce(&mine, &sum, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    if (!rank) printf("RESULT %a %016llx\n", before, (unsigned long long)sum);
    MPI_Finalize();
    return 0;
}
