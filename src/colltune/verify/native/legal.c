/* legal: what a collective does to the many things that a legal program may do.
 *
 * usage: legal PLAN RESULTS LIMIT
 *
 * PLAN has the lines
 *   config [NAME=VALUE ...]   control variables (MPI_T), or colltune.COLLECTIVE=ID of libcolltune, for
 *                             the cases that follow
 *   limit SECONDS              that a call of the cases that follow may take, in place of LIMIT
 *   case NUMBER COLLECTIVE MODE VARIANT INTS
 * Each case is one call, or a few, on all processes. What is right, the program computes itself: every
 * byte of what is received, of the gaps in it and around it, and of what was sent. To RESULTS it
 * appends, at once, so that a crash takes nothing with it:
 *   begin NUMBER, then done NUMBER right|wrong|aborts, or skip NUMBER where there is no such case;
 *                             of the mode bits the line goes on with what the bits were
 *   note NUMBER RANK TEXT     what a rank saw
 *   hangs NUMBER, aborts NUMBER SIGNAL, refused NUMBER   the program ends; refused: a rank got an
 *                             error while others wait for it
 *   cannot NAME               that variable cannot be written; the configuration's cases are left out
 *   end                       after all
 * A call may take LIMIT seconds. Around the calls nothing but messages between two processes is used,
 * over a communicator of their own. */
#define _GNU_SOURCE
#include "collectives.h"
#include "cvar.h"
#include "legal.h"
#include "numbers.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 4096, TAG = 5, MOST_SETTINGS = 16, AFTER_ERROR_S = 2, IN_A_ROW = 5, PENDING = 30000,
       WHOLE_ELEMENTS = 12, HUNDRED = 100 };

int world_rank, world_size;
char reason[256];

static MPI_Comm quiet;      /* for what happens around the calls */
static MPI_Comm base, comm; /* comm: on which the configuration under test is in effect */
static int results, limit_s;
static volatile sig_atomic_t under_way = -1, failed;

/* ---- telling ---- */

static void tell(const char *format, ...) {
    char line[LINE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
    line[length++] = '\n';
    if (write(results, line, (size_t)length) < 0) _exit(4);
}

void quit(const char *what, const char *detail) {
    fprintf(stderr, "legal: %s%s\n", what, detail);
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

/* Only what may be called in a signal's handler. */
static void tell_last(const char *word, int number) {
    char line[64] = "", digits[16];
    size_t n = strlen(word), d = 0;
    memcpy(line, word, n);
    int rest = (int)under_way;
    line[n++] = ' ';
    do digits[d++] = (char)('0' + rest % 10);
    while (rest /= 10);
    while (d) line[n++] = digits[--d];
    if (number >= 10) line[n++] = ' ', line[n++] = (char)('0' + number / 10);
    else if (number) line[n++] = ' ';
    if (number) line[n++] = (char)('0' + number % 10);
    line[n++] = '\n';
    if (write(results, line, n) < 0) _exit(4);
}

static void on_alarm(int signal_number) {
    (void)signal_number;
    if (under_way >= 0) tell_last(failed ? "refused" : "hangs", 0);
    _exit(9);
}

static void on_signal(int signal_number) {
    if (under_way >= 0) tell_last("aborts", signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_signals(void) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) signal(fatal[i], on_signal);
    signal(SIGALRM, on_alarm);
}

answer_t told(int code, int wrong, const char *what) {
    int length = 0;
    *reason = '\0';
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        /* others may wait for this rank for ever */
        failed = 1;
        alarm(AFTER_ERROR_S);
        MPI_Error_string(code, text, &length);
        text[strcspn(text, "\n")] = '\0';
        snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1, text);
        return ABORTS;
    }
    if (wrong) snprintf(reason, sizeof reason, "%s", what);
    return wrong ? WRONG : RIGHT;
}

/* ---- among all processes ---- */

/* The largest of all processes' answers; nobody leaves before all have entered. */
int worst(int mine) {
    int other;
    if (world_rank) {
        MPI_Send(&mine, 1, MPI_INT, 0, TAG, quiet);
        MPI_Recv(&mine, 1, MPI_INT, 0, TAG, quiet, MPI_STATUS_IGNORE);
        return mine;
    }
    for (int r = 1; r < world_size; r++) {
        MPI_Recv(&other, 1, MPI_INT, r, TAG, quiet, MPI_STATUS_IGNORE);
        if (other > mine) mine = other;
    }
    for (int r = 1; r < world_size; r++) MPI_Send(&mine, 1, MPI_INT, r, TAG, quiet);
    return mine;
}

unsigned all_hashed(unsigned mine, int *equal) {
    unsigned other, all[2] = {mine, 1};
    if (world_rank) MPI_Send(&mine, 1, MPI_UNSIGNED, 0, TAG, quiet);
    for (int r = 1; !world_rank && r < world_size; r++) {
        MPI_Recv(&other, 1, MPI_UNSIGNED, r, TAG, quiet, MPI_STATUS_IGNORE);
        all[1] &= other == mine;
        all[0] = (all[0] ^ other) * 16777619U;
    }
    for (int r = 1; !world_rank && r < world_size; r++) MPI_Send(all, 2, MPI_UNSIGNED, r, TAG, quiet);
    if (world_rank) MPI_Recv(all, 2, MPI_UNSIGNED, 0, TAG, quiet, MPI_STATUS_IGNORE);
    *equal = (int)all[1];
    return all[0];
}

static void pause_for(long microseconds) {
    struct timespec t = {0, microseconds * 1000};
    nanosleep(&t, NULL);
}

/* Libraries call this while they wait. On fewer cores than processes, those that wait must let the
 * others run, which the kernel's own does not. */
int sched_yield(void) {
    const struct timespec moment = {0, 10000};
    return nanosleep(&moment, NULL);
}

/* ---- configurations ---- */

static const char OWN[] = "colltune.";
extern int colltune_force(const char *collective, const char *id) __attribute__((weak));

static ct_cvar_t written[MOST_SETTINGS];
static char names[MOST_SETTINGS][WORD], own_name[WORD];
static int n_written, usable;

static void take_back(void) {
    if (comm != MPI_COMM_NULL && comm != base) MPI_Comm_free(&comm);
    comm = MPI_COMM_NULL;
    while (n_written-- > 0) {
        ct_cvar_restore(&written[n_written]);
        ct_cvar_close(&written[n_written]);
    }
    n_written = 0;
    if (*own_name && colltune_force) colltune_force(own_name, "");
    *own_name = '\0';
}

static int write_setting(char *word) {
    ct_why_t why;
    char *equals = strchr(word, '=');
    if (!equals || n_written == MOST_SETTINGS) quit("bad setting ", word);
    *equals = '\0';
    snprintf(names[n_written], WORD, "%s", word);
    if (!strncmp(word, OWN, sizeof OWN - 1)) {
        snprintf(own_name, sizeof own_name, "%s", word + sizeof OWN - 1);
        return !colltune_force || colltune_force(own_name, equals + 1);
    }
    ct_cvar_t *variable = &written[n_written];
    if (ct_cvar_open(variable, names[n_written], equals + 1, &why)) return 1;
    n_written++;
    return ct_cvar_write(variable);
}

/* Open MPI reads most variables when a communicator is made, others at every call. */
static void renew(void) {
#ifdef OPEN_MPI
    MPI_Comm_dup(base, &comm);
#else
    MPI_Comm_dup(quiet, &comm);
#endif
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

static void configure(char *words) {
    take_back();
#ifndef OPEN_MPI
    renew();
#endif
    usable = 1;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        int refused = worst(write_setting(word));
        if (refused && !world_rank) tell("cannot %s", word);
        if (refused) usable = 0;
    }
#ifdef OPEN_MPI
    renew();
#endif
}

/* ---- modes ---- */

static int is(const case_t *one, const char *mode) { return !strcmp(one->mode, mode); }
static int of(const case_t *one, const char *collective) {
    return !strcmp(one->collective, collective);
}

/* Shapes by which ranks name the same values; each number of ints that is asked for fits all. */
static shape_t mixed(const case_t *one, int rank) {
    static const shape_t ways[][3] = {
        {INTS, WHOLE, WHOLE}, {WHOLE, INTS, INTS}, {INTS, HUNDREDS, RESIZED}, {GAPS, BACKWARDS, BELOW}};
    shape_t found = ways[one->variant][one->variant < 2 ? rank > 0 : rank % 3];
    if (found == HUNDREDS && (!one->ints || one->ints % HUNDRED)) return WHOLE;
    return found == WHOLE && !one->ints ? INTS : found;
}

static int with_shapes(const case_t *one, way_t *w) {
    static const shape_t layouts[][2] = {{INTS, COLUMN}, {COLUMN, INTS}, {GAPS, INTS}, {RESIZED, BACKWARDS}};
    static const shape_t gaps[] = {GAPS, BACKWARDS, RESIZED};
    int v = one->variant;
    if (!is_move(one->collective)) return 0;
    if (is(one, "layouts")) {
        if (v > 3 || of(one, "bcast")) return 0;
        w->out = layouts[v][0];
        w->in = layouts[v][1];
    } else if (is(one, "mixed_types")) {
        if (v > 3) return 0;
        w->out = mixed(one, world_rank);
        w->in = mixed(one, world_rank + (v > 1));
    } else if (is(one, "gaps")) {
        if (v > 2) return 0;
        w->out = w->in = gaps[v];
    } else if (is(one, "lower_bounds")) {
        if (v) return 0;
        w->out = w->in = BELOW;
    } else if (is(one, "zero_size")) {
        if (v > 1) return 0;
        w->out = w->in = v ? EMPTY_WIDE : EMPTY;
    } else if (is(one, "absolute")) {
        if (v > 1) return 0;
        w->absolute = 1;
        w->out = w->in = v ? GAPS : INTS;
    } else {
        return 0;
    }
    return 1;
}

static int with_operations(const case_t *one, way_t *w, int rest) {
    if (!is_reduction(one->collective)) return 0;
    if (rest > 3 || (rest && is(one, "operations"))) return 0;
    if (rest % 2 && !of(one, "reduce")) return 0;
    w->root = rest % 2 ? world_size - 1 : 0;
    w->in_place = rest / 2;
    return 1;
}

static int with_counts(const case_t *one, way_t *w) {
    if (!has_counts(one->collective) || one->variant > 2) return 0;
    if (one->variant && is_reduction(one->collective)) return 0;
    w->uneven = 1;
    w->shared = one->variant == 1;
    if (w->shared && !of(one, "alltoallv")) return 0;
    if (one->variant == 2) w->out = w->in = GAPS;
    return 1;
}

static int with_in_place(const case_t *one, way_t *w) {
    int v = one->variant;
    if (of(one, "bcast") || v > 3 || (v > 1 && !is_move(one->collective))) return 0;
    w->in_place = 1;
    w->without_ignored = v == 1;
    if (v == 2) w->out = w->in = GAPS;
    if (v == 3) w->uneven = 1;
    if (v == 3 && !has_counts(one->collective)) return 0;
    if (v) w->root = world_size - 1;
    return 1;
}

/* What a case is; 0: there is none. */
static int way_of(const case_t *one, way_t *w) {
    const int roots[] = {world_size - 1, 1, world_size / 2};
    memset(w, 0, sizeof *w);
    int rest = choose_element(one->mode, one->variant, w);
    if (is(one, "tidy") || is(one, "few_elements")) return !one->variant;
    if (is(one, "bits")) return one->variant < 6 && is_reduction(one->collective);
    if (is(one, "operations") || is(one, "non_commutative") || is(one, "own_operations") ||
        is(one, "pairs"))
        return with_operations(one, w, rest);
    if (is(one, "in_place")) return with_in_place(one, w);
    if (is(one, "uneven")) return with_counts(one, w);
    if (is(one, "roots")) {
        if (!is_rooted(one->collective) || one->variant > 2) return 0;
        w->root = roots[one->variant];
        w->without_ignored = 1;
        return 1;
    }
    if (is(one, "odd_addresses")) {
        w->out = w->in = BYTES;
        w->shift = 1 + 2 * one->variant;
        return one->variant < 2;
    }
    if (is(one, "constant")) {
        w->constant = 1;
        return !one->variant && !of(one, "bcast");
    }
    if (is(one, "communicators")) return one->variant < 5;
    if (is(one, "between_groups"))
        return one->variant < 2 && !of(one, "scan") && !of(one, "exscan");
    if (is(one, "in_a_row")) return !one->variant;
    if (is(one, "pending")) return one->variant < 2;
    if (is(one, "large")) return !one->variant && is_large_known(one->collective);
    return with_shapes(one, w);
}

/* ---- calls ---- */

static answer_t call_on(const place_t *place, const case_t *one, const way_t *way) {
    if (is_move(one->collective)) return move(place, one, way);
    if (is_reduction(one->collective)) return reduce(place, one, way);
    return told(MPI_Barrier(place->comm), 0, "");
}

static answer_t call_barrier(void) {
    call_t call = {.comm = comm, .rank = world_rank, .size = world_size};
    int leaked = barrier_leaks(&call, quiet);
    return leaked < 0 ? told(MPI_ERR_OTHER, 0, "") : told(MPI_SUCCESS, leaked, "some leave early");
}

static MPI_Comm made_of(const case_t *one) {
    int dimensions[2] = {0, 0}, periodic[2] = {0, 1};
    MPI_Comm made;
    switch (one->variant) {
    case 0: MPI_Comm_dup(comm, &made); break;
    case 1: MPI_Comm_split(comm, 0, -world_rank, &made); break;
    case 2: MPI_Comm_split(comm, world_rank % 2, world_rank, &made); break;
    case 3: MPI_Comm_split(comm, world_rank, 0, &made); break;
    default:
        MPI_Dims_create(world_size, 2, dimensions);
        MPI_Cart_create(comm, 2, dimensions, periodic, 0, &made);
    }
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}

static answer_t on_another(const case_t *one, const way_t *way) {
    MPI_Comm made = made_of(one);
    place_t place = place_in(made, 0, 0);
    answer_t answer = call_on(&place, one, way);
    if (answer == RIGHT) MPI_Comm_free(&made);
    return answer;
}

static answer_t between_groups(const case_t *one, const way_t *way) {
    int first = one->variant ? 1 : world_size / 2, upper = world_rank >= first;
    MPI_Comm part, made;
    MPI_Comm_split(comm, upper, world_rank, &part);
    MPI_Intercomm_create(part, 0, comm, upper ? 0 : first, TAG, &made);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    place_t place = place_in(made, 0, upper);
    answer_t answer = call_on(&place, one, way);
    if (answer == RIGHT) MPI_Comm_free(&made), MPI_Comm_free(&part);
    return answer;
}

/* Several calls that nothing keeps apart, to each of which another process comes late. */
static answer_t in_a_row(const case_t *one, const way_t *way) {
    answer_t answer = RIGHT;
    for (int i = 0; i < IN_A_ROW && answer == RIGHT; i++) {
        case_t each = *one;
        place_t place = place_in(comm, i, 0);
        each.ints = one->ints * (size_t)(1 + i % 3) / 2;
        if (i % world_size == world_rank) pause_for(300);
        answer = call_on(&place, &each, way);
    }
    return answer;
}

/* Messages of the program are under way on the same communicator. */
static answer_t with_pending(const case_t *one, const way_t *way) {
    int n = one->variant ? 10 : PENDING, *sent = room((size_t)n * 4), *got = room((size_t)n * 4);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    place_t place = place_in(comm, 0, 0);
    for (int i = 0; i < n; i++) sent[i] = world_rank + i;
    if (!one->variant)
        MPI_Irecv(got, n, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
    MPI_Isend(sent, n, MPI_INT, (world_rank + 1) % world_size, 0, comm, &requests[1]);
    answer_t answer = call_on(&place, one, way);
    if (one->variant) MPI_Irecv(got, n, MPI_INT, MPI_ANY_SOURCE, 0, comm, &requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    int from = (world_rank + world_size - 1) % world_size, wrong = 0;
    for (int i = 0; i < n; i++) wrong |= got[i] != from + i;
    free(sent), free(got);
    return answer == RIGHT ? told(MPI_SUCCESS, wrong, "a message was changed") : answer;
}

static char were[2 * WORD]; /* the bits of the last call of that mode */

static answer_t called(const case_t *one, const way_t *way) {
    *were = '\0';
    if (is(one, "communicators")) return on_another(one, way);
    if (is(one, "between_groups")) return between_groups(one, way);
    if (is(one, "in_a_row")) return in_a_row(one, way);
    if (is(one, "pending")) return with_pending(one, way);
    if (of(one, "barrier")) return call_barrier();
    place_t place = place_in(comm, way->root, 0);
    if (is(one, "large")) return large(&place, one);
    if (is(one, "bits")) return bits(&place, one, were);
    return call_on(&place, one, way);
}

static int exists(const case_t *one, way_t *way) {
    int barrier = of(one, "barrier");
    if (!is_move(one->collective) && !is_reduction(one->collective) && !barrier)
        quit("unknown collective ", one->collective);
    if (!usable || !way_of(one, way)) return 0;
    return !barrier || is(one, "tidy") || is(one, "communicators") || is(one, "between_groups") ||
           is(one, "in_a_row") || is(one, "pending");
}

/* Of all processes: one of them looks. */
static int is_short_of_memory(const case_t *one) {
    int found = is(one, "large") && worst(!world_rank && !has_room_for(one, world_size));
    if (found && !world_rank) tell("note %d 0 short of memory", one->number);
    return found;
}

static int has_several(shape_t shape) {
    return shape == GAPS || shape == BACKWARDS || shape == BELOW;
}

static void run_case(case_t *one) {
    static const char *const words[] = {"right", "skip", "wrong", "aborts"};
    way_t way;
    if (!exists(one, &way) || is_short_of_memory(one)) {
        if (!world_rank) tell("skip %d", one->number);
        return;
    }
    if (has_several(way.out) || has_several(way.in))
        one->ints = (one->ints + WHOLE_ELEMENTS - 1) / WHOLE_ELEMENTS * WHOLE_ELEMENTS;
    if (!world_rank) tell("begin %d", one->number);
    under_way = one->number; /* no process is still in the call before */
    failed = 0;
    alarm((unsigned)limit_s);
    answer_t answer = called(one, &way);
    if (answer != RIGHT) tell("note %d %d %s", one->number, world_rank, reason);
    answer = (answer_t)worst((int)answer);
    alarm(0);
    under_way = -1;
    if (!world_rank) tell("done %d %s %s", one->number, words[answer], were);
    if (answer != RIGHT) {
        /* what a failed call has left behind must not reach the next one; so it is never freed */
        renew();
    }
}

static void run_plan(const char *path) {
    char line[LINE];
    FILE *plan = fopen(path, "r");
    if (!plan) quit("cannot read ", path);
    while (fgets(line, sizeof line, plan)) {
        case_t one = {0};
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, "config", 6)) configure(line + 6);
        else if (sscanf(line, "limit %d", &limit_s) == 1) continue;
        else if (sscanf(line, "case %d %95s %95s %d %zu", &one.number, one.collective, one.mode,
                        &one.variant, &one.ints) == 5)
            run_case(&one);
        else quit("bad line ", line);
    }
    fclose(plan);
    take_back();
}

int main(int count, char **arguments) {
    int provided;
    if (count != 4) return 2;
    setenv("COLLTUNE_FIRST_CALLS", "0", 1);
    results = open(arguments[2], O_WRONLY | O_APPEND | O_CREAT, 0600);
    limit_s = atoi(arguments[3]);
    if (results < 0 || limit_s < 1) return 2;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_dup(MPI_COMM_WORLD, &quiet);
    MPI_Comm_dup(MPI_COMM_WORLD, &base);
    comm = MPI_COMM_NULL;
    make_elements();
    make_numbers();
    watch_signals();
    run_plan(arguments[1]);
    if (worst(0) == 0 && !world_rank) tell("end");
    MPI_Finalize();
    return 0;
}
