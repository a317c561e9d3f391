/* hantasks: times the tasks of coll/han's broadcast and allreduce on the two levels of a machine.
 *
 * usage: hantasks PLAN RAW
 *
 * PLAN (text, read by rank 0):
 *   colltune-han-plan 1
 *   layout NODES PPN                        what is launched
 *   budget SECONDS                          the launch ends itself after this wall time
 *   owner HOST PID                          who wants the results; without it there is no use
 *   config NAME=VALUE ...                   control variables of configuration 0, 1, 2, ...
 *   series CONFIG COLLECTIVE NODES PPN SEGMENT UP LOW LEAST MOST REPS TOLERANCE
 *                                           tasks of a call with segments of so many bytes, from
 *                                           LEAST to MOST of them: as many as it takes until the
 *                                           tasks cost the same within TOLERANCE (0.1: 10 %);
 *                                           UP and LOW are components: adapt, libnbc, tuned, sm
 *
 * RAW (text, appended line by line, so that a killed run keeps what it measured):
 *   colltune-han-raw 1
 *   f NAME TEXT                             a fact about the launch
 *   s SERIES                                the series begins
 *   t SERIES SEGMENTS REP LEADER SECONDS... what each task took on the leader of that node
 *   x SERIES STATUS TEXT                    wrong_result, not_applicable
 *   e SERIES steady|bounded|exact|none WALL the series has ended; bounded: MOST was not enough
 *   end plan|budget WALL                    why the program ended
 *
 * A broadcast of u segments has the tasks ib, u - 1 times sbib, sb; an allreduce sr, irsr, ibirsr,
 * u - 3 times sbibirsr, sbibir, sbib, sb, of which there are less with one or two segments: sr,
 * ir, ib, sb and sr, irsr, ibir, sbib, sb. Nodes are found as collbench does (layout.c). */
#include "hantasks.h"

#include <stdlib.h>
#include <string.h>

int cut_short;

static unsigned char *new_buffer(size_t length) {
    size_t whole = (length + 4095) / 4096 * 4096;
    unsigned char *buffer = aligned_alloc(4096, whole);
    if (!buffer) die("out of memory for message buffers", "");
    memset(buffer, 1, whole);
    return buffer;
}

static call_t new_buffers(void) {
    call_t buffers;
    memset(&buffers, 0, sizeof buffers);
    size_t length = longest_message();
    buffers.send = new_buffer(length);
    buffers.recv = new_buffer(length);
    buffers.counts = calloc((size_t)world_size, sizeof *buffers.counts);
    buffers.displs = calloc((size_t)world_size, sizeof *buffers.displs);
    if (!buffers.counts || !buffers.displs) die("out of memory", "");
    return buffers;
}

static void free_buffers(call_t *buffers) {
    free(buffers->send);
    free(buffers->recv);
    free(buffers->counts);
    free(buffers->displs);
}

static int same_shape(const series_t *a, const series_t *b) {
    return a->nodes == b->nodes && a->ppn == b->ppn;
}

/* The series first..end-1, all of one shape; 1 if the budget is over. */
static int measure_block(int first, int end, const call_t *buffers) {
    group_t *group = group_of(series[first].nodes, series[first].ppn);
    double over = 0;
    for (int i = first; group && i < end && !(over > 0); i++) {
        time_series(i, group, buffers);
        over = cut_short;
        exchange(group, &over, 1);
    }
    return over > 0;
}

static void measure(const call_t *buffers) {
    int over = 0;
    for (int at = 0, end; at < n_series && !over; at = end) {
        for (end = at + 1; end < n_series && same_shape(&series[at], &series[end]);) end++;
        /* those that are not in the group wait here, without burning cores */
        over = polite_maximum(measure_block(at, end, buffers)) > 0;
    }
    close_record(over ? "budget" : "plan");
}

int main(int argc, char **argv) {
    int provided;
    double mine = now();
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc != 3) die("usage: hantasks PLAN RAW", "");
    if (world_rank == 0) open_record(argv[2]);
    load_series(argv[1]);
    agree_on_start(mine);
    discover_layout();
    report_layout();
    call_t buffers = new_buffers();
    measure(&buffers);
    free_buffers(&buffers);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
