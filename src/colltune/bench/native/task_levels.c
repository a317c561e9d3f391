/* Communicators of the two levels, each served by a component of our choice.
 *
 * Open MPI's coll/han makes its own in the same way (coll_han_subcomms.c): an info key raises one
 * component above all others and leaves out coll/han itself (coll_base_comm_select.c). */
#include "tasks.h"

#include <string.h>

typedef struct {
    const group_t *group;
    int is_up;
    char component[COMPONENT_LENGTH];
    MPI_Comm comm;
} level_t;

static level_t *known;
static int n_known;

static int exists(const char *component) {
    char name[COMPONENT_LENGTH + 16];
    int index;
    snprintf(name, sizeof name, "coll_%s_priority", component);
    return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS;
}

static MPI_Comm served_by(MPI_Comm plain, const char *component) {
    char preference[COMPONENT_LENGTH + 8];
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info;
    snprintf(preference, sizeof preference, "%s,^han", component);
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", preference);
    if (MPI_Comm_dup_with_info(plain, info, &comm) != MPI_SUCCESS) comm = MPI_COMM_NULL;
    else MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Info_free(&info);
    return comm;
}

/* Of the leaders, or of a node; MPI_COMM_NULL on those that are in none. */
static MPI_Comm new_level(const group_t *group, int is_up, const char *component) {
    int node = group->rank / group->ppn, slot = group->rank % group->ppn;
    int colour = is_up ? (slot ? MPI_UNDEFINED : 0) : node;
    MPI_Comm plain, comm;
    if (MPI_Comm_split(group->base, colour, group->rank, &plain) != MPI_SUCCESS)
        die("cannot split a communicator", "");
    if (plain == MPI_COMM_NULL) return MPI_COMM_NULL;
    comm = served_by(plain, component);
    if (comm == MPI_COMM_NULL) die("cannot make a communicator for coll/", component);
    MPI_Comm_free(&plain);
    return comm;
}

static MPI_Comm level(const group_t *group, int is_up, const char *component) {
    for (int i = 0; i < n_known; i++)
        if (known[i].group == group && known[i].is_up == is_up &&
            !strcmp(known[i].component, component))
            return known[i].comm;
    known = grown(known, n_known, sizeof *known);
    level_t *made = &known[n_known++];
    *made = (level_t){.group = group, .is_up = is_up};
    strcpy(made->component, component);
    return made->comm = new_level(group, is_up, component);
}

int levels_of(const series_t *wanted, group_t *group, levels_t *found, const char **culprit) {
    double lacking = !exists(wanted->up) || !exists(wanted->low);
    exchange(group, &lacking, 1);
    *culprit = "the library has no such component";
    if (lacking > 0) return 0;
    found->up = level(group, 1, wanted->up);
    found->low = level(group, 0, wanted->low);
    return 1;
}
