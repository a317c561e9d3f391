/* collbench: times many configurations of MPI collectives, or tasks (tasks.c), inside one launch.
 *
 * usage: collbench PLAN RAW
 *
 * PLAN (text, read by rank 0):
 *   colltune-plan 2
 *   layout NODES PPN                        what is launched
 *   budget SECONDS                          the launch ends itself after this wall time
 *   sync barrier|window                     how processes start a repetition together
 *   barriers N                              before each repetition, if not 1
 *   side_by_side 1                          disjoint sets of nodes measure at once
 *   owner HOST PID                          who wants the results; without it there is no use
 *   config NAME=VALUE ...                   control variables of configuration 0, 1, 2, ...;
 *                                           VALUE: a number, an item of an enumeration, a string
 *   cell CONFIG COLLECTIVE MSIZE NODES PPN [keep]
 *                                           cell 0, 1, 2, ...; keep: never abandoned
 *   step CELL MAXREPS MAXSECONDS            executed in this order; MAXREPS 0: call once, check only
 *
 * RAW (text, appended line by line, so that a killed run keeps what it measured):
 *   colltune-raw 2
 *   f NAME TEXT                             a fact about the launch
 *   s CELL                                  the step begins
 *   r CELL NUMBER SECONDS...                repetitions: maximum over ranks, in order
 *   x CELL STATUS TEXT                      wrong_result, not_applicable, abandoned
 *   e CELL                                  the step has ended (a crash is the fault of one without)
 *   end plan|budget TIMED WALL              why it ended; seconds inside timed loops and in all
 * RAW.live holds the repetitions of the step under way (output.c). Side by side, the leader of
 * another set writes RAW.NODE and RAW.NODE.live.
 *
 * Version 1 had NPROCS in place of NODES and PPN, and wrote repetitions in chunks without a number.
 *
 * A cell is measured by the first PPN processes of each of the first NODES nodes; the others wait
 * without burning cores. Which processes share a node is asked of MPI; with COLLBENCH_NODES=by-rank
 * in the environment rank r is on node r / PPN, for tests on one host. With COLLBENCH_MARK set, rank
 * 0 prints a MARK line on stderr after each first call. */
#include "tasks.h"

/* First step after `at` of another shape. */
static int end_of_block(int at) {
    const cell_t *first = &plan.cells[plan.steps[at].cell];
    for (at++; at < plan.n_steps; at++) {
        const cell_t *cell = &plan.cells[plan.steps[at].cell];
        if (cell->nodes != first->nodes || cell->ppn != first->ppn) break;
    }
    return at;
}

static int measure_cells(void) {
    int over = 0;
    allocate_buffers();
    for (int at = 0, end; at < plan.n_steps && !over; at = end) {
        end = end_of_block(at);
        over = polite_maximum(run_block(at, end)) > 0;
    }
    if (world_rank == 0) report_synchronisation();
    return over || cut_short;
}

int main(int argc, char **argv) {
    int provided;
    double mine = now();
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc != 3) die("usage: collbench PLAN RAW", "");
    output_path = argv[2];
    load_plan(argv[1]);
    if (world_rank == 0) open_output(0);
    agree_on_start(mine);
    discover_layout();
    report_layout();
    close_output((plan.of_tasks ? measure_tasks() : measure_cells()) ? "budget" : "plan");
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
