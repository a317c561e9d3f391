/* A program that changes libcolltune's rules while it runs; without libcolltune it runs as ever. */
#include "colltune_rules.h"

#include <stdio.h>
#include <string.h>

static char bytes[40000];

/* Rank 0 alone writes the rules; all processes let them hold. */
static int change(const colltune_rules_t *rules, int rank, const char *configuration) {
    if (rank == 0) {
        rules->set("large", 20000);
        rules->configuration("piped", configuration);
        rules->rule_named("by-size", COLLTUNE_MSIZE, COLLTUNE_GTEQ, "large", "piped", "table");
        rules->start("bcast", "by-size");
    }
    return rules->commit_all(MPI_COMM_WORLD);
}

static void broadcast(int rank, int count) {
    memset(bytes, rank ? 0 : 7, sizeof bytes);
    MPI_Bcast(bytes, count, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (bytes[count - 1] != 7) fprintf(stderr, "WRONG\n");
    if (rank == 0) fprintf(stderr, "MARK bcast 3 %d\n", count);
}

int main(int n, char **arguments) {
    const colltune_rules_t *rules = colltune_rules();
    int rank;
    MPI_Init(&n, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    broadcast(rank, 40000);
    if (rules && n > 1) {
        if (change(rules, rank, arguments[1])) fprintf(stderr, "rank %d: %s\n", rank, rules->error());
        broadcast(rank, 40000);
        broadcast(rank, 10000);
        rules->set_all(MPI_COMM_WORLD, "large", rank ? 0 : 5000); /* rank 0's counts */
        broadcast(rank, 10000);
    }
    MPI_Finalize();
    return 0;
}
