/* Reads the plan; collbench.c tells its lines. */
#include "tasks.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

plan_t plan = {.barriers = 1};
static struct { int first, last; } *instances;
static int n_instances;

static int same_instance(const cell_t *a, const cell_t *b) {
    return a->collective == b->collective && a->msize == b->msize && a->nodes == b->nodes &&
           a->ppn == b->ppn;
}

/* Note in the cell which instance it is of, and append it to that instance's list. */
static void join_instance(cell_t *cell, int index) {
    int i = 0;
    cell->next = -1;
    while (i < n_instances && !same_instance(cell, &plan.cells[instances[i].first])) i++;
    if (i < n_instances) {
        plan.cells[instances[i].last].next = index;
    } else {
        instances = grown(instances, n_instances++, sizeof *instances);
        instances[i].first = index;
    }
    instances[i].last = index;
    cell->instance = i;
    cell->first = instances[i].first;
}

static void parse_cell(const char *line) {
    char name[NAME_LENGTH], flag[8] = "";
    cell_t cell = {0};
    int found = sscanf(line, "%d %95s %zu %d %d %7s", &cell.config, name, &cell.msize, &cell.nodes,
                       &cell.ppn, flag);
    if (found < 5 || cell.config < 0 || cell.config >= plan.n_configs || cell.nodes < 1 ||
        cell.nodes > plan.nodes || cell.ppn < 1 || cell.ppn > plan.ppn || cell.msize > INT_MAX ||
        (*flag && strcmp(flag, "keep")))
        die("bad cell ", line);
    cell.collective = find_collective(name);
    if (!cell.collective) die("unknown collective ", name);
    cell.keep = *flag != '\0';
    plan.cells = grown(plan.cells, plan.n_cells, sizeof *plan.cells);
    join_instance(&cell, plan.n_cells);
    plan.cells[plan.n_cells++] = cell;
}

static void parse_step(const char *line) {
    step_t step;
    if (sscanf(line, "%d %d %lf", &step.cell, &step.max_reps, &step.max_seconds) != 3 ||
        step.cell < 0 || step.cell >= plan.n_cells)
        die("bad step ", line);
    plan.steps = grown(plan.steps, plan.n_steps, sizeof *plan.steps);
    plan.steps[plan.n_steps++] = step;
}

static int parse_head(const char *line) {
    if (!strncmp(line, "budget ", 7)) plan.budget = strtod(line + 7, NULL);
    else if (!strcmp(line, "sync barrier")) plan.window = 0;
    else if (!strcmp(line, "sync window")) plan.window = 1;
    else if (!strncmp(line, "barriers ", 9)) plan.barriers = atoi(line + 9);
    else if (!strcmp(line, "side_by_side 1")) plan.side_by_side = 1;
    else if (!strncmp(line, "owner ", 6))
        return sscanf(line + 6, "%95s %ld", plan.owner_host, &plan.owner) == 2;
    else if (!strncmp(line, "layout ", 7))
        return sscanf(line + 7, "%d %d", &plan.nodes, &plan.ppn) == 2;
    else return 0;
    return 1;
}

static void parse_line(char *line) {
    if (!strcmp(line, "config")) parse_config(line + 6);
    else if (!strncmp(line, "config ", 7)) parse_config(line + 7);
    else if (plan.of_tasks && !strncmp(line, "series ", 7)) parse_series(line + 7);
    else if (!strncmp(line, "cell ", 5)) parse_cell(line + 5);
    else if (!strncmp(line, "step ", 5)) parse_step(line + 5);
    else if (*line && !parse_head(line)) die("bad plan line ", line);
}

/* What follows the first line of a plan. */
static char *body(char *text, const char *path) {
    static const char cells[] = "colltune-plan 2\n", tasks[] = "colltune-han-plan 1\n";
    plan.of_tasks = !strncmp(text, tasks, sizeof tasks - 1);
    if (plan.of_tasks) return text + sizeof tasks - 1;
    if (strncmp(text, cells, sizeof cells - 1)) die("not a plan of version 2: ", path);
    return text + sizeof cells - 1;
}

void load_plan(const char *path) {
    char *text = read_shared_text(path), *end;
    for (char *line = body(text, path); line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        parse_line(line);
    }
    if (plan.nodes < 1 || plan.ppn < 1) die("no layout in ", path);
    free(text);
}
