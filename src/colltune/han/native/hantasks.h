/* What the parts of hantasks share; hantasks.c tells what it does and what its files hold. */
#ifndef COLLTUNE_HANTASKS_H
#define COLLTUNE_HANTASKS_H

#include "collbench.h"

enum { COMPONENT_LENGTH = 16 };

/* ---- series.c ---- */

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

void load_series(const char *path);
size_t longest_message(void); /* bytes of all segments of any series */

/* ---- levels.c ---- */

/* A node's communicator, and one of the leaders of all nodes; up: MPI_COMM_NULL on others. */
typedef struct { MPI_Comm up, low; } levels_t;

/* Communicators whose collectives the named components serve; 0: `culprit` tells why there are
 * none. Collective over the group. */
int levels_of(const series_t *wanted, group_t *group, levels_t *found, const char **culprit);

/* ---- pipeline.c ---- */

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

/* ---- timing.c ---- */

void time_series(int index, group_t *group, const call_t *buffers);

/* ---- record.c ---- */

void open_record(const char *path);
void record_begin(int index);
void record_times(int index, int segments, int rep, int leader, const double *seconds, int n);
void record_problem(int index, const char *status, const char *text);
void record_end(int index, const char *how, double seconds);
void close_record(const char *reason);

#endif
