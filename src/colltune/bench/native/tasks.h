/* The tasks of coll/han: what the parts of it share. tasks.c tells what its files hold. */
#ifndef COLLTUNE_TASKS_H
#define COLLTUNE_TASKS_H

#include "collbench.h"

enum { COMPONENT_LENGTH = 16 };

/* ---- tasks.c ---- */

/* Tasks in a row, as coll/han runs them for one call of a collective. */
typedef struct {
    const collective_t *collective;
    int nodes, ppn;
    size_t segment; /* bytes */
    char up[COMPONENT_LENGTH], low[COMPONENT_LENGTH];
    int config;
    int least, most; /* segments: more than the least only until the tasks are steady */
    int reps;
    double tolerance;
} series_t;

extern series_t *series;
extern int n_series;

void parse_series(const char *line);
/* Time all series of the plan; 1 if the budget is over. */
int measure_tasks(void);

/* ---- task_pipeline.c ---- */

/* A node's communicator, and one of the leaders of all nodes; up: MPI_COMM_NULL on others. */
typedef struct { MPI_Comm up, low; } levels_t;

/* Communicators whose collectives the named components serve; 0: `culprit` tells why there are
 * none. Collective over the group. */
int levels_of(const series_t *wanted, group_t *group, levels_t *found, const char **culprit);

typedef struct {
    levels_t levels;
    call_t call; /* of the whole message */
    int segments, count; /* elements of a segment */
    size_t segment;
} pipeline_t;

/* How many tasks there are, and which of them are of the steady kind. */
int tasks_of(const series_t *s, int segments);
int first_steady(const series_t *s);

/* Run all tasks; ends[0] is the global time before the first, ends[i + 1] after task i. Returns an
 * MPI error, after which the data are not to be trusted. */
int run_pipeline(const pipeline_t *p, const series_t *s, const group_t *group, double *ends);

/* ---- task_timing.c ---- */

void time_series(int index, group_t *group, const call_t *buffers);

#endif
