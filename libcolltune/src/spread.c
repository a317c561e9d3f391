/* Which process is on which node. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

static int *world_leaders; /* lowest rank in MPI_COMM_WORLD on the node of each; NULL: unknown */

/* COLLTUNE_NODES=by-rank:PPN; 0: as the machine is. */
static int pretended_ppn(void) {
    static const char rule[] = "by-rank:";
    const char *text = ct_setting("COLLTUNE_NODES");
    char *end;
    if (!text || strncmp(text, rule, sizeof rule - 1)) return 0;
    long ppn = strtol(text + sizeof rule - 1, &end, 10);
    return *end || ppn < 1 || ppn > ct_world_size ? 0 : (int)ppn;
}

/* The lowest rank in `comm` on the node of each of its processes. Collective. */
static int find_leaders(MPI_Comm comm, int rank, int *leaders) {
    MPI_Comm node;
    int leader = rank, ppn = pretended_ppn(), error;
    if (ppn) error = PMPI(Comm_split)(comm, ct_world_rank / ppn, rank, &node);
    else error = PMPI(Comm_split_type)(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    if (error != MPI_SUCCESS) return error;
    error = PMPI(Bcast)(&leader, 1, MPI_INT, 0, node);
    PMPI(Comm_free)(&node);
    if (error != MPI_SUCCESS) return error;
    return PMPI(Allgather)(&leader, 1, MPI_INT, leaders, 1, MPI_INT, comm);
}

/* Number the nodes by the first process on each; `leaders` tells any process of the same node, of
 * numbers below `most`. */
static int number_nodes(ct_comm_t *c, const int *leaders, int most) {
    int nodes = 0, *number = malloc((size_t)most * sizeof *number);
    int *node_of = malloc((size_t)c->size * sizeof *node_of);
    int *filled = calloc((size_t)c->size, sizeof *filled);
    int error = number && node_of && filled ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    for (int n = 0; !error && n < most; n++) number[n] = -1;
    for (int r = 0; !error && r < c->size; r++) {
        if (number[leaders[r]] < 0) number[leaders[r]] = nodes++;
        node_of[r] = number[leaders[r]];
        filled[node_of[r]]++;
    }
    if (!error) {
        c->ppn = filled[0];
        for (int n = 1; n < nodes; n++)
            if (filled[n] != c->ppn) c->ppn = 0;
        c->node_of = node_of;
        c->nodes = nodes;
    } else free(node_of);
    free(number);
    free(filled);
    return error;
}

/* From what is known of MPI_COMM_WORLD, which all processes of c are in. */
static int spread_of_part(ct_comm_t *c) {
    int *leaders = ct_world_ranks(c->comm, c->size);
    if (!leaders) return MPI_ERR_NO_MEM;
    for (int r = 0; r < c->size; r++) leaders[r] = world_leaders[leaders[r]];
    int error = number_nodes(c, leaders, ct_world_size);
    free(leaders);
    return error;
}

int ct_spread(ct_comm_t *c) {
    if (c->nodes) return MPI_SUCCESS;
    if (world_leaders) return spread_of_part(c);
    int error = ct_base(c);
    if (error != MPI_SUCCESS) return error;
    int *leaders = malloc((size_t)c->size * sizeof *leaders);
    if (!leaders) return MPI_ERR_NO_MEM;
    error = find_leaders(c->base, c->rank, leaders);
    if (error == MPI_SUCCESS) error = number_nodes(c, leaders, c->size);
    free(leaders);
    return error;
}

void ct_spread_begin(void) {
    int *leaders = malloc((size_t)ct_world_size * sizeof *leaders), known = leaders != NULL;
    const char *rule = ct_setting("COLLTUNE_NODES");
    PMPI(Allreduce)(MPI_IN_PLACE, &known, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rule && !pretended_ppn()) ct_log(0, "COLLTUNE_NODES=%s is not by-rank:PPN: ignored", rule);
    if (known && find_leaders(MPI_COMM_WORLD, ct_world_rank, leaders) == MPI_SUCCESS)
        world_leaders = leaders;
    else free(leaders);
}

int ct_world_ppn(void) {
    int ppn = 0;
    if (!world_leaders) return ct_world_size;
    for (int r = 0; r < ct_world_size; r++) ppn += world_leaders[r] == world_leaders[ct_world_rank];
    return ppn;
}

void ct_spread_end(void) {
    free(world_leaders);
    world_leaders = NULL;
}
