/* Lets two configurations race, one RATIO times slower, in noise of our making.
 *
 * usage: race RATIO NOISE BETWEEN SECONDS REPS
 * NOISE: deviation of the logarithm of each repetition; BETWEEN: of each visit. Prints the shares of
 * 1000 races in which the slower and the faster one were abandoned within five visits, and the mean
 * number of repetitions of the slower one. Linked with racing.c. */
#include "collbench.h"

#include <math.h>
#include <stdlib.h>

enum { RACES = 1000, VISITS = 5, COLD = 2 };

plan_t plan;

void die(const char *what, const char *detail) {
    fprintf(stderr, "%s%s\n", what, detail);
    exit(1);
}

static double uniform(void) { return (rand() + 1.0) / (RAND_MAX + 2.0); }
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307 * uniform()); }

/* One visit; returns its repetitions. */
static int visit(int cell, double seconds, double noise, int reps) {
    racing_visit(cell);
    for (int i = 0; i < reps; i++) {
        double cold = i < COLD ? 3 : 1;
        if (racing_note(cell, cold * seconds * exp(noise * normal())) && racing_hopeless(cell)) {
            plan.cells[cell].closed = 1;
            return i + 1;
        }
    }
    return reps;
}

int main(int argc, char **argv) {
    cell_t cells[2 * RACES] = {0};
    int slower = 0, faster = 0, reps = 0;
    if (argc != 6) die("usage: race RATIO NOISE BETWEEN SECONDS REPS", "");
    double ratio = atof(argv[1]), noise = atof(argv[2]), between = atof(argv[3]);
    plan.cells = cells;
    plan.n_cells = 2 * RACES;
    for (int first = 0; first < 2 * RACES; first += 2) {
        cells[first] = (cell_t){.first = first, .next = first + 1};
        cells[first + 1] = (cell_t){.first = first, .next = -1};
        for (int i = 0; i < 2 * VISITS; i++) {
            int cell = first + i % 2;
            double level = atof(argv[4]) * (i % 2 ? ratio : 1) * exp(between * normal());
            if (cells[cell].closed || (cells[cell].closed = racing_hopeless(cell))) continue;
            int n = visit(cell, level, noise, atoi(argv[5]));
            if (i % 2) reps += n;
        }
        faster += cells[first].closed;
        slower += cells[first + 1].closed;
    }
    printf("%g %g %g\n", (double)slower / RACES, (double)faster / RACES, (double)reps / RACES);
    return 0;
}
