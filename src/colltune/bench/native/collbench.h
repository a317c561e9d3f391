/* What the parts of collbench share; collbench.c tells what it does and what its files hold. */
#ifndef COLLTUNE_COLLBENCH_H
#define COLLTUNE_COLLBENCH_H

#include "collectives.h"

#include <stdint.h>
#include <stdio.h>

enum { MAX_SETTINGS = 16, NAME_LENGTH = 96, VALUE_LENGTH = 128, SYNC_TAG = 7, CLOCK_TAG = 8 };

/* ---- plan.c ---- */

typedef struct { char name[NAME_LENGTH], value[VALUE_LENGTH]; } setting_t;
typedef struct { int n; setting_t settings[MAX_SETTINGS]; } config_t;
typedef struct {
    const collective_t *collective;
    size_t msize;
    int config, nodes, ppn;
    int keep;     /* never to be abandoned */
    int instance;    /* number of its collective, size and shape */
    int first, next; /* of the list of its instance's cells; next: -1 at the end */
    int checked;
    int timed;   /* the root knows a repetition of it */
    int closed;  /* not to be visited any more; the root's knowledge */
} cell_t;
typedef struct { int cell, max_reps; double max_seconds; } step_t;

typedef struct {
    int nodes, ppn; /* what is launched */
    int window, side_by_side;
    int barriers; /* before each repetition */
    int of_tasks; /* those of coll/han (tasks.c), which has no cells and steps */
    double budget;
    char owner_host[NAME_LENGTH];
    long owner; /* process that wants the results; 0: unknown */
    int n_configs, n_cells, n_steps;
    config_t *configs;
    cell_t *cells;
    step_t *steps;
} plan_t;

extern plan_t plan;

/* Read the plan on rank 0 and hand it to all. */
void load_plan(const char *path);

/* ---- world.c ---- */

extern int world_rank, world_size;
extern double started; /* seconds of now() at which rank 0 started, on this node's clock */

/* Seconds of this node's monotonic clock, which no one ever sets. */
double now(void);
int owner_is_gone(void); /* 1: nobody waits for the results any more */
void pause_for(double seconds);
void die(const char *what, const char *detail);
void *grown(void *array, int n, size_t item); /* make room for item number n */

/* Let all nodes' clocks count from `mine`, the moment at which rank 0 started. Collective. */
void agree_on_start(double mine);

/* The text of a file that rank 0 reads, on all processes; to be freed. Collective. */
char *read_shared_text(const char *path);

/* ---- layout.c ---- */

/* The processes that measure together: the first ppn of each of `nodes` nodes, node-major. */
typedef struct {
    int nodes, ppn, set; /* set: which of several disjoint sets of nodes */
    int rank, size;      /* rank % ppn == 0: first process of its node */
    MPI_Comm base;       /* under the library's own decisions */
    struct group_clock *clock;
} group_t;

/* Find out which process is on which node; die where the plan asks for more than there is. */
void discover_layout(void);

/* The group of the given shape that this process is in, made at first use; NULL: in none. */
group_t *group_of(int nodes, int ppn);

/* Into how many sets the launched nodes are split for shapes of `nodes` nodes. */
int sets_of(int nodes);

/* Write facts about hosts, binding, library and clocks. Collective over all processes. */
void report_layout(void);

/* ---- settings.c ---- */

/* Append to the plan a configuration that is written as name=value words; changes the text. */
void parse_config(char *words);

/* A communicator of the group on which the configuration is in effect until `withdraw` is called;
 * MPI_COMM_NULL: `culprit` tells why not. Collective over the group. */
MPI_Comm configured(int config, group_t *group, const char **culprit);
void withdraw(void);

/* Write a configuration's variables until `withdraw` is called; 1: `culprit` cannot be written. */
int apply_settings(const config_t *config, const char **culprit);

/* Never use again the communicator that the configuration has been on. */
void give_up_communicator(int config, const group_t *group);

/* At the end of a block: give back communicators where the library may run out of them. */
void trim_communicators(group_t *group);

/* ---- barriers (world.c) ---- */

/* Elementwise maximum over the group, known to all; nobody leaves before all have entered. */
void exchange(const group_t *group, double *values, int n);

/* The same for one number of all processes, without burning cores while waiting. */
double polite_maximum(double value);

/* ---- clock.c ---- */

/* Make the group's processes agree on a global clock. Collective over the group. */
void synchronise_clocks(group_t *group);
int clocks_are_stale(const group_t *group);
double global_now(const group_t *group);

/* Wait until the global clock shows `start`; 0 if it already showed more. */
int wait_until(const group_t *group, double start);

/* ---- measure.c ---- */

/* Execute steps first..end-1, all of one shape; 1 if the budget is over. */
int run_block(int first, int end);
void allocate_buffers(void);
/* The largest that are needed, and room for `placed`; die where memory is out. */
call_t new_buffers(size_t send, size_t recv);
/* The buffers, beginning elsewhere in their pages each time. Some processors copy 5 times slower
 * between addresses that differ by 1 to 31 bytes modulo a page: buffers that stay beside what the
 * library allocates would bend all times of an algorithm alike. */
call_t placed(const call_t *buffers);
/* Sum numbers of several kinds as the call does its ints, by `run`, which is told `with`. Returns what
 * is wrong, with the cell's status, on all processes; NULL: nothing. What all ranks are refused tells
 * nothing. Afterwards the call's buffers hold anything. Collective over the group. */
const char *check_numbers(const call_t *call, const collective_t *collective, const group_t *group,
                          int (*run)(call_t *call, void *with), void *with, const char **status);
void report_synchronisation(void);
extern double timed;  /* seconds in timed loops */
extern int cut_short; /* some step ended because the budget did */

/* ---- racing.c ---- */

void racing_visit(int cell);                /* a visit begins */
int racing_note(int cell, double seconds);  /* a repetition of it; 1: it is worth asking again */
/* Is the cell, at high confidence, slower than another one of its instance? */
int racing_hopeless(int cell);

/* ---- output.c ---- */

extern const char *output_path;
void open_output(int node); /* of a leader on that node; nothing if it is open already */
void output_fact(const char *key, const char *format, ...);
void output_begin(int number);
void output_time(double seconds); /* one repetition: safe from now on, whatever happens */
/* What follows the number; of tasks only. */
void output_end(int number, const char *format, ...) __attribute__((format(printf, 2, 3)));
void output_task(int series, int segments, int rep, int leader, const double *seconds, int n);
void output_problem(int cell, const char *status, const char *text);
void close_output(const char *reason);

#endif
