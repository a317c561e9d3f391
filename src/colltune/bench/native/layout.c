/* Which process is on which node, and the groups of processes that measure together. */
#include "collbench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FACT_LENGTH = 128, GROUP_TAG = 9, PING_TAG = 10, ROUND_TRIPS = 30 };

static int *ranks_on; /* world rank at node * most + slot, -1: none */
static int n_nodes, most, my_node, my_slot;
static group_t **groups;
static int n_groups;

/* The lowest world rank on this process's node. Tests lay several nodes on one host. */
static int leader_of_node(void) {
    const char *rule = getenv("COLLBENCH_NODES");
    if (rule && !strcmp(rule, "by-rank")) return world_rank - world_rank % plan.ppn;
    MPI_Comm node;
    int leader = world_rank;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &node);
    MPI_Bcast(&leader, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    return leader;
}

/* Number the nodes by their leaders; slots by rank. */
static void number_nodes(const int *leaders) {
    int *node_of = malloc((size_t)world_size * sizeof *node_of);
    int *filled = calloc((size_t)world_size, sizeof *filled);
    if (!node_of || !filled) die("out of memory", "");
    for (int r = 0; r < world_size; r++) {
        node_of[r] = leaders[r] == r ? n_nodes++ : node_of[leaders[r]];
        if (++filled[node_of[r]] > most) most = filled[node_of[r]];
    }
    ranks_on = malloc((size_t)n_nodes * (size_t)most * sizeof *ranks_on);
    if (!ranks_on) die("out of memory", "");
    memset(ranks_on, -1, (size_t)n_nodes * (size_t)most * sizeof *ranks_on);
    memset(filled, 0, (size_t)world_size * sizeof *filled);
    for (int r = 0; r < world_size; r++) {
        int slot = filled[node_of[r]]++;
        if (r == world_rank) my_slot = slot;
        ranks_on[node_of[r] * most + slot] = r;
    }
    my_node = node_of[world_rank];
    free(node_of);
    free(filled);
}

static int processes_on(int node) {
    int n = 0;
    while (n < most && ranks_on[node * most + n] >= 0) n++;
    return n;
}

static void insist_on_layout(void) {
    char text[160];
    int fewest = most;
    for (int node = 0; node < n_nodes; node++)
        if (processes_on(node) < fewest) fewest = processes_on(node);
    if (n_nodes >= plan.nodes && fewest >= plan.ppn) return;
    snprintf(text, sizeof text,
             "the plan needs %d nodes with %d processes each, but the launcher gave %d nodes with"
             " as few as %d",
             plan.nodes, plan.ppn, n_nodes, fewest);
    if (world_rank == 0) die("wrong layout: ", text);
    MPI_Barrier(MPI_COMM_WORLD); /* until rank 0 has ended all */
}

void discover_layout(void) {
    int leader = leader_of_node();
    int *leaders = malloc((size_t)world_size * sizeof *leaders);
    if (!leaders) die("out of memory", "");
    MPI_Allgather(&leader, 1, MPI_INT, leaders, 1, MPI_INT, MPI_COMM_WORLD);
    number_nodes(leaders);
    free(leaders);
    insist_on_layout();
}

/* ---- groups ---- */

int sets_of(int nodes) { return plan.side_by_side ? plan.nodes / nodes : 1; }

static group_t *new_group(int nodes, int ppn, int set) {
    MPI_Group world, part;
    group_t *group = calloc(1, sizeof *group);
    int *ranks = malloc((size_t)(nodes * ppn) * sizeof *ranks);
    if (!group || !ranks) die("out of memory", "");
    for (int i = 0; i < nodes * ppn; i++)
        ranks[i] = ranks_on[(set * nodes + i / ppn) * most + i % ppn];
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, nodes * ppn, ranks, &part);
    *group = (group_t){.nodes = nodes, .ppn = ppn, .set = set};
    MPI_Comm_create_group(MPI_COMM_WORLD, part, GROUP_TAG, &group->base);
    MPI_Comm_rank(group->base, &group->rank);
    MPI_Comm_size(group->base, &group->size);
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    free(ranks);
    return group;
}

group_t *group_of(int nodes, int ppn) {
    int set = my_node / nodes;
    if (set >= sets_of(nodes) || my_slot >= ppn) return NULL;
    for (int i = 0; i < n_groups; i++)
        if (groups[i]->nodes == nodes && groups[i]->ppn == ppn) return groups[i];
    groups = grown(groups, n_groups, sizeof *groups);
    return groups[n_groups++] = new_group(nodes, ppn, set);
}

/* ---- facts ---- */

typedef struct { char host[FACT_LENGTH], cores[FACT_LENGTH]; } place_t;

/* The processors this process may run on, as the kernel lists them. */
static void read_cores(char *text) {
    char line[512];
    FILE *status = fopen("/proc/self/status", "r");
    strcpy(text, "unknown");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Cpus_allowed_list: %127s", text) == 1) break;
    if (status) fclose(status);
}

static void report_places(const place_t *places) {
    char key[64];
    for (int node = 0; node < n_nodes; node++) {
        snprintf(key, sizeof key, "node.%d", node);
        output_fact(key, "%s, %d processes", places[ranks_on[node * most]].host,
                    processes_on(node));
    }
    for (int slot = 0; slot < processes_on(0); slot++) {
        snprintf(key, sizeof key, "binding.%d", slot);
        output_fact(key, "processors %s", places[ranks_on[slot]].cores);
    }
}

static void report_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    struct timespec resolution = {0, 0};
    int length;
    MPI_Get_library_version(text, &length);
    for (char *at = text; *at; at++)
        if (*at == '\t') *at = ' ';
    text[strcspn(text, "\n")] = '\0';
    output_fact("mpi_library", "%s", text);
    clock_getres(CLOCK_MONOTONIC, &resolution);
    output_fact("clock", "CLOCK_MONOTONIC, resolution %g s",
                (double)resolution.tv_sec + 1e-9 * (double)resolution.tv_nsec);
    output_fact("mpi_wtime_resolution_s", "%g", MPI_Wtick());
}

/* The shortest of several round trips between the first processes of the first two nodes. */
static void report_round_trip(void) {
    if (n_nodes < 2) return;
    int other = ranks_on[most], peer = world_rank ? 0 : other;
    double shortest = INFINITY;
    if (world_rank && world_rank != other) return;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        double before = now();
        if (!world_rank) MPI_Send(NULL, 0, MPI_BYTE, peer, PING_TAG, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, peer, PING_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (world_rank) MPI_Send(NULL, 0, MPI_BYTE, peer, PING_TAG, MPI_COMM_WORLD);
        double seconds = now() - before;
        if (seconds < shortest) shortest = seconds;
    }
    if (!world_rank) output_fact("round_trip_s", "%.3g", shortest);
}

void report_layout(void) {
    place_t mine, *places = NULL;
    memset(&mine, 0, sizeof mine);
    if (gethostname(mine.host, sizeof mine.host - 1)) strcpy(mine.host, "unknown");
    read_cores(mine.cores);
    if (world_rank == 0 && !(places = malloc((size_t)world_size * sizeof *places)))
        die("out of memory", "");
    MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, places, (int)sizeof mine, MPI_BYTE, 0,
               MPI_COMM_WORLD);
    report_round_trip();
    if (world_rank) return;
    report_places(places);
    report_library();
    free(places);
}
