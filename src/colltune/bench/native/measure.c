/* Visits cells: checks a collective's result once, then times it. */
#include "collbench.h"
#include "numbers.h"

#include <stdlib.h>
#include <string.h>

#define SLACK_START 1e-4 /* seconds from the agreement on a start to the start */
#define SLACK_LEAST 1e-5
#define SLACK_MOST 0.1
#define SLACK_DECAY 0.99
enum { PAGE = 4096, ALIGNMENT = 16 }; /* malloc's, as in programs */
enum { MOST_INVALID_IN_A_ROW = 40, FEWEST = 3 }; /* of two, nobody knows which was disturbed */

/* What the processes tell each other before each repetition; the maximum counts. */
enum { FIRST_START, LAST_END, LAST_LATE, ORDER, START, MESSAGE_LENGTH };
enum { REFUSED, WRONG, RIGHT, TROUBLE_LENGTH }; /* what became of a first call */
enum { FAILED, WENT, OFF, HIGHEST, LOWEST, FOUND_LENGTH }; /* of numbers; the ends of hashes */
enum { REPEAT, LOOK, STOP, SYNCHRONISE }; /* orders of the root; LOOK: know the last one first */

double timed;
int cut_short;
static call_t buffers; /* send, recv, counts, displs of the largest cell */
static int marks;
static double slack = SLACK_START;
static long n_valid, n_invalid;

static unsigned char *new_buffer(size_t length) {
    size_t whole = (length + 2 * PAGE - 1) / PAGE * PAGE; /* room for `placed` */
    unsigned char *buffer = aligned_alloc(PAGE, whole);
    if (!buffer) die("out of memory for message buffers", "");
    memset(buffer, 1, whole);
    return buffer;
}

call_t new_buffers(size_t send, size_t recv) {
    call_t made;
    memset(&made, 0, sizeof made);
    made.send = new_buffer(send);
    made.recv = new_buffer(recv);
    made.counts = calloc((size_t)world_size, sizeof *made.counts);
    made.displs = calloc((size_t)world_size, sizeof *made.displs);
    if (!made.counts || !made.displs) die("out of memory for message buffers", "");
    return made;
}

/* As good as random, but the same in each launch. */
static size_t place(unsigned number) {
    unsigned x = number * 2654435761U + (unsigned)world_rank * 668265263U + 374761393U;
    x = (x ^ (x >> 15)) * 2246822519U;
    x = (x ^ (x >> 13)) * 3266489917U;
    return (x >> 24) * ALIGNMENT;
}

call_t placed(const call_t *whole) {
    static unsigned number;
    call_t call = *whole;
    call.send += place(number++);
    call.recv += place(number++);
    return call;
}

void allocate_buffers(void) {
    size_t send = 1, recv = 1;
    for (int i = 0; i < plan.n_cells; i++) {
        const cell_t *cell = &plan.cells[i];
        const collective_t *c = cell->collective;
        size_t all = cell->msize * (size_t)cell->nodes * (size_t)cell->ppn;
        size_t need_send = c->send_blocks < 0 ? all : cell->msize * (size_t)c->send_blocks;
        size_t need_recv = c->recv_blocks < 0 ? all : cell->msize * (size_t)c->recv_blocks;
        if (need_send > send) send = need_send;
        if (need_recv > recv) recv = need_recv;
    }
    buffers = new_buffers(send, recv);
    marks = world_rank == 0 && getenv("COLLBENCH_MARK") != NULL;
}

static void close_cell(int index, const group_t *group, const char *status, const char *text) {
    plan.cells[index].closed = 1;
    if (group->rank == 0) output_problem(index, status, text);
}

const char *check_numbers(const call_t *call, const collective_t *collective, const group_t *group,
                          int (*run)(call_t *call, void *with), void *with, const char **status) {
    for (int i = 0; i < kinds_to_check(collective); i++) {
        number_t kind = summed_kind(i);
        sums_t seen = sum_numbers(call, collective, &kind, run, with);
        int failed = seen.code != MPI_SUCCESS;
        double hash = seen.hash, found[FOUND_LENGTH] = {failed, !failed, seen.wrong, hash, -hash};
        exchange(group, found, FOUND_LENGTH);
        *status = found[FAILED] > 0 ? "not_applicable" : "wrong_result";
        if (found[FAILED] > 0 && found[WENT] > 0) return "only some ranks were refused a call";
        if (found[FAILED] > 0) continue; /* some algorithms need an element for each rank */
        if (found[OFF] > 0) return "a sum of doubles is wrong";
        if (ranks_must_agree(collective) && found[HIGHEST] != -found[LOWEST])
            return "ranks hold different bits of a sum";
    }
    return NULL;
}

static int run_as_it_is(call_t *call, void *collective) {
    return ((const collective_t *)collective)->run(call);
}

/* First calls of a cell: is the library able, and is the result right? */
static void check_cell(int index, call_t *call, const group_t *group) {
    cell_t *cell = &plan.cells[index];
    const char *wrong = "the received data are wrong", *status = "", *sums = NULL;
    double trouble[TROUBLE_LENGTH] = {0}, nothing = 0;
    int answer;
    cell->checked = 1;
    prepare_check(call, cell->collective);
    exchange(group, &nothing, 1);
    if (cell->collective->send_blocks || cell->collective->recv_blocks) {
        answer = cell->collective->run(call) == MPI_SUCCESS ? cell->collective->wrong(call) : -1;
    } else {
        wrong = "a process left before all had entered";
        answer = barrier_leaks(call, group->base);
    }
    trouble[answer < 0 ? REFUSED : answer ? WRONG : RIGHT] = 1;
    if (marks) mark_call(cell->collective, call);
    exchange(group, trouble, TROUBLE_LENGTH);
    if (trouble[REFUSED] > 0)
        close_cell(index, group, "not_applicable", "the library refused the call");
    else if (trouble[WRONG] > 0)
        close_cell(index, group, "wrong_result", wrong);
    else
        sums = check_numbers(call, cell->collective, group, run_as_it_is,
                             (void *)cell->collective, &status);
    if (sums) close_cell(index, group, status, sums);
    /* a call that went wrong, or that only some refused, may have left messages behind */
    if (sums || trouble[WRONG] > 0 || (trouble[REFUSED] > 0 && trouble[RIGHT] > 0))
        give_up_communicator(cell->config, group);
}

/* ---- one visit ---- */

typedef struct {
    const step_t *step;
    group_t *group;
    double began;      /* now() */
    int valid, invalid_in_a_row, hopeless;
} visit_t;

/* The root takes note of the repetition whose maximum over processes has just become known. */
static void note(visit_t *visit, double seconds, int late) {
    int cell = visit->step->cell;
    if (plan.window) slack *= late ? 2 : SLACK_DECAY;
    if (slack > SLACK_MOST) slack = SLACK_MOST;
    if (slack < SLACK_LEAST) slack = SLACK_LEAST;
    n_valid += !late;
    n_invalid += late;
    if (late) {
        visit->invalid_in_a_row++;
        return;
    }
    visit->invalid_in_a_row = 0;
    visit->valid++;
    plan.cells[cell].timed = 1;
    output_time(seconds);
    if (racing_note(cell, seconds) && racing_hopeless(cell)) visit->hopeless = 1;
}

/* What is to be done next? `pending`: a repetition is not known to all yet. */
static int order(const visit_t *visit, int begun, int pending) {
    const step_t *step = visit->step;
    double t = now(), spent = t - visit->began;
    double left = step->max_seconds - spent, total = plan.budget - (t - started);
    double next = begun ? spent / begun : 0;
    if (visit->hopeless || visit->invalid_in_a_row >= MOST_INVALID_IN_A_ROW) return STOP;
    if (visit->valid >= step->max_reps) return STOP;
    if (total <= next) cut_short = 1;
    if (total <= next) return STOP;
    if (begun && left < next &&
        (visit->valid + pending >= FEWEST || next > FEWEST * step->max_seconds))
        return STOP;
    if (visit->valid + pending >= step->max_reps) return plan.window ? LOOK : STOP;
    return plan.window && clocks_are_stale(visit->group) ? SYNCHRONISE : REPEAT;
}

/* In a window it takes from the first start to the last end, by the global clock. Without one, each
 * process takes its own time. */
static void repetition(const group_t *group, call_t *call, const collective_t *collective,
                       double start, double *message) {
    message[LAST_LATE] = plan.window && !wait_until(group, start);
    double began = plan.window ? global_now(group) : now();
    collective->run(call);
    double ended = plan.window ? global_now(group) : now();
    message[FIRST_START] = plan.window ? -began : 0; /* negative, as the maximum counts */
    message[LAST_END] = plan.window ? ended : ended - began;
}

static void synchronise(visit_t *visit) {
    double t = now();
    synchronise_clocks(visit->group);
    visit->began += now() - t; /* no part of the visit's time */
}

static void time_cell(visit_t *visit, call_t *call, const collective_t *collective) {
    double message[MESSAGE_LENGTH] = {0};
    group_t *group = visit->group;
    int begun = 0, pending = 0;
    double nothing = 0;
    for (;;) {
        if (group->rank == 0) {
            message[ORDER] = order(visit, begun, pending);
            if (group->clock) message[START] = global_now(group) + slack;
        }
        exchange(group, message, MESSAGE_LENGTH);
        if (group->rank == 0 && pending)
            note(visit, message[LAST_END] + message[FIRST_START], message[LAST_LATE] > 0);
        int next = (int)message[ORDER];
        if (next == STOP) return;
        if (next == SYNCHRONISE) synchronise(visit);
        pending = next == REPEAT;
        begun += pending;
        if (pending) {
            for (int i = 1; i < plan.barriers; i++) exchange(group, &nothing, 1);
            repetition(group, call, collective, message[START], message);
        }
        message[ORDER] = message[START] = 0;
    }
}

static void finish(const visit_t *visit) {
    int cell = visit->step->cell;
    timed += now() - visit->began;
    if (visit->hopeless) close_cell(cell, visit->group, "abandoned", "slower than another one");
    else if (visit->invalid_in_a_row >= MOST_INVALID_IN_A_ROW && !plan.cells[cell].timed)
        close_cell(cell, visit->group, "not_applicable", "the processes cannot start together");
}

static void visit_cell(const step_t *step, group_t *group) {
    cell_t *cell = &plan.cells[step->cell];
    const char *culprit = "";
    if (group->rank == 0) output_begin(step->cell);
    MPI_Comm comm = configured(cell->config, group, &culprit);
    if (comm == MPI_COMM_NULL) {
        close_cell(step->cell, group, "not_applicable", culprit);
    } else {
        call_t call = placed(&buffers);
        call.comm = comm;
        call.rank = group->rank;
        call.size = group->size;
        call.msize = cell->msize;
        prepare_call(&call, cell->collective);
        if (!cell->checked) check_cell(step->cell, &call, group);
        if (!cell->closed && step->max_reps > 0) {
            visit_t visit = {.step = step, .group = group, .began = now()};
            if (group->rank == 0) racing_visit(step->cell);
            time_cell(&visit, &call, cell->collective);
            if (group->rank == 0) finish(&visit);
        }
        withdraw();
    }
    if (group->rank == 0) output_end(step->cell, "%s", "");
}

/* ---- one block ---- */

/* Side by side, all configurations of an instance meet on the same nodes. */
static int is_mine(int cell, const group_t *group) {
    return plan.cells[cell].instance % sets_of(group->nodes) == group->set;
}

/* The root's choice of the next step to execute; `end`: none. */
static int next_step(int at, int end, const group_t *group) {
    for (; at < end; at++) {
        int cell = plan.steps[at].cell;
        if (!is_mine(cell, group) || plan.cells[cell].closed) continue;
        if (!racing_hopeless(cell)) return at;
        close_cell(cell, group, "abandoned", "slower than another one");
    }
    return end;
}

int run_block(int first, int end) {
    const cell_t *cell = &plan.cells[plan.steps[first].cell];
    group_t *group = group_of(cell->nodes, cell->ppn);
    int at = first, over = 0;
    if (!group) return 0;
    if (group->rank == 0) open_output(group->set * group->nodes);
    for (;; at++) {
        double next = 0;
        if (group->rank == 0) {
            over = now() - started >= plan.budget || owner_is_gone();
            next = over ? end : next_step(at, end, group);
        }
        exchange(group, &next, 1);
        at = (int)next;
        if (at >= end) break;
        visit_cell(&plan.steps[at], group);
    }
    trim_communicators(group);
    return over;
}

void report_synchronisation(void) {
    if (!plan.window) {
        output_fact("sync", "barrier: dissemination barrier before each repetition");
        output_fact("barriers", "%d", plan.barriers);
        return;
    }
    output_fact("sync", "window: common start on a global clock, hca3 with a linear model per node");
    if (n_valid + n_invalid)
        output_fact("late_repetitions", "%ld of %ld", n_invalid, n_valid + n_invalid);
}
