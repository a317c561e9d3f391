/* collbench: times many configurations of MPI collectives inside one launch.
 *
 * usage: collbench PLAN RAW
 *
 * PLAN (text, read by rank 0):
 *   colltune-plan 1
 *   budget SECONDS                          the launch ends itself after this wall time
 *   config NAME=VALUE ...                   control variables of configuration 0, 1, 2, ...
 *   cell CONFIG COLLECTIVE MSIZE NPROCS     cell 0, 1, 2, ...; NPROCS: the first ranks of the world
 *   step CELL MAXREPS MAXSECONDS            executed in this order; MAXREPS 0: call once, check only
 *
 * RAW (text, appended line by line by rank 0, so that a killed run keeps what it measured):
 *   colltune-raw 1
 *   s CELL                                  the step begins (the last one is to blame for a crash)
 *   r CELL SECONDS...                       repetitions: maximum over ranks, in order
 *   x CELL STATUS TEXT                      wrong_result, not_applicable
 *   end plan|budget TIMED WALL              why it ended; seconds inside timed loops and in all
 *
 * A configuration is chosen by writing MPI_T control variables and then duplicating the
 * communicator; the variables are put back at once. Ranks are synchronised before each repetition
 * by a dissemination barrier made of point-to-point messages, so that no collective under test is
 * part of it. With COLLBENCH_MARK set, rank 0 prints a MARK line on stderr after each first call. */
#include "collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_CHUNK = 256, MAX_SETTINGS = 16, NAME_LENGTH = 96, SYNC_TAG = 7 };

typedef struct { char name[NAME_LENGTH]; long value; } setting_t;
typedef struct { int n; setting_t settings[MAX_SETTINGS]; } config_t;
typedef struct {
    int config, nprocs, checked, dead;
    const collective_t *collective;
    size_t msize;
} cell_t;
typedef struct { int cell, max_reps; double max_seconds; } step_t;
typedef struct { int config, nprocs; MPI_Comm comm; } comm_entry_t;

static double budget, started, timed;
static config_t *configs;
static cell_t *cells;
static step_t *steps;
static comm_entry_t *comms;
static int n_configs, n_cells, n_steps, n_comms;
static int world_rank, world_size, marks;
static FILE *raw;
static const char *raw_path;
static call_t buffers; /* send, recv, counts, displs of the largest cell */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *detail) {
    fprintf(stderr, "collbench: %s%s\n", what, detail);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void *grown(void *array, int n, size_t item) {
    if (n & (n - 1)) return array; /* capacity is the next power of two */
    void *bigger = realloc(array, (size_t)(n ? 2 * n : 1) * item);
    if (!bigger) die("out of memory", "");
    return bigger;
}

/* ---- plan ---- */

static char *read_plan(const char *path) {
    long length = -1;
    char *text = NULL;
    if (world_rank == 0) {
        FILE *file = fopen(path, "rb");
        if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) < 0) die("cannot read ", path);
        rewind(file);
        text = malloc((size_t)length + 1);
        if (!text || fread(text, 1, (size_t)length, file) != (size_t)length) die("cannot read ", path);
        fclose(file);
    }
    MPI_Bcast(&length, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (world_rank) text = malloc((size_t)length + 1);
    if (!text) die("out of memory", "");
    MPI_Bcast(text, (int)length, MPI_CHAR, 0, MPI_COMM_WORLD);
    text[length] = '\0';
    return text;
}

static void parse_config(char *line) {
    configs = grown(configs, n_configs, sizeof *configs);
    config_t *config = &configs[n_configs++];
    config->n = 0;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        if (!equals || equals - word >= NAME_LENGTH || config->n == MAX_SETTINGS)
            die("bad config word ", word);
        setting_t *setting = &config->settings[config->n++];
        *equals = '\0';
        strcpy(setting->name, word);
        setting->value = strtol(equals + 1, NULL, 10);
    }
}

static void parse_cell(const char *line) {
    char name[NAME_LENGTH];
    cell_t cell = {0};
    if (sscanf(line, "%d %95s %zu %d", &cell.config, name, &cell.msize, &cell.nprocs) != 4 ||
        cell.config < 0 || cell.config >= n_configs || cell.nprocs < 1 || cell.nprocs > world_size)
        die("bad cell ", line);
    cell.collective = find_collective(name);
    if (!cell.collective) die("unknown collective ", name);
    cells = grown(cells, n_cells, sizeof *cells);
    cells[n_cells++] = cell;
}

static void parse_step(const char *line) {
    step_t step;
    if (sscanf(line, "%d %d %lf", &step.cell, &step.max_reps, &step.max_seconds) != 3 ||
        step.cell < 0 || step.cell >= n_cells)
        die("bad step ", line);
    steps = grown(steps, n_steps, sizeof *steps);
    steps[n_steps++] = step;
}

static void parse_line(char *line) {
    if (!strcmp(line, "config")) parse_config(line + 6);
    else if (!strncmp(line, "config ", 7)) parse_config(line + 7);
    else if (!strncmp(line, "cell ", 5)) parse_cell(line + 5);
    else if (!strncmp(line, "step ", 5)) parse_step(line + 5);
    else if (!strncmp(line, "budget ", 7)) budget = strtod(line + 7, NULL);
    else if (*line && strcmp(line, "colltune-plan 1")) die("bad plan line ", line);
}

static void parse_plan(char *text) {
    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        parse_line(line);
    }
}

static void allocate_buffers(void) {
    size_t send = 1, recv = 1;
    for (int i = 0; i < n_cells; i++) {
        const collective_t *c = cells[i].collective;
        size_t all = cells[i].msize * (size_t)cells[i].nprocs;
        size_t need_send = c->send_blocks < 0 ? all : cells[i].msize * (size_t)c->send_blocks;
        size_t need_recv = c->recv_blocks < 0 ? all : cells[i].msize * (size_t)c->recv_blocks;
        if (need_send > send) send = need_send;
        if (need_recv > recv) recv = need_recv;
    }
    buffers.send = aligned_alloc(4096, (send + 4095) / 4096 * 4096);
    buffers.recv = aligned_alloc(4096, (recv + 4095) / 4096 * 4096);
    buffers.counts = malloc((size_t)world_size * sizeof(int));
    buffers.displs = malloc((size_t)world_size * sizeof(int));
    if (!buffers.send || !buffers.recv || !buffers.counts || !buffers.displs)
        die("out of memory for message buffers", "");
    memset(buffers.send, 1, send);
    memset(buffers.recv, 1, recv);
}

/* ---- control variables ---- */

/* Exchange the variable's value with `*value`; 0 on success. */
static int swap_cvar(const char *name, long *value) {
    int index, count, length = 0, verbosity, bind, scope;
    MPI_Datatype type;
    MPI_T_enum members;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return 1;
    MPI_T_cvar_get_info(index, NULL, &length, &verbosity, &type, &members, NULL, NULL, &bind, &scope);
    if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) return 1;
    int width = 0, failed = 1;
    MPI_Type_size(type, &width);
    union { char bytes[16]; int i; long l; signed char c; } old = {{0}}, new = {{0}};
    if (count == 1 && width <= (int)sizeof(long) && !MPI_T_cvar_read(handle, old.bytes)) {
        if (width == (int)sizeof(long)) new.l = *value;
        else if (width == (int)sizeof(int)) new.i = (int)*value;
        else new.c = (signed char)*value;
        failed = MPI_T_cvar_write(handle, new.bytes) != MPI_SUCCESS;
        *value = width == (int)sizeof(long) ? old.l : width == (int)sizeof(int) ? old.i : old.c;
    }
    MPI_T_cvar_handle_free(&handle);
    return failed;
}

/* Duplicate `base` under the configuration; MPI_COMM_NULL if a variable cannot be written. */
static MPI_Comm configured_comm(const config_t *config, MPI_Comm base, const char **culprit) {
    long values[MAX_SETTINGS];
    int done = 0, failed = 0, any_failed;
    MPI_Comm comm = MPI_COMM_NULL;
    for (; done < config->n && !failed; done++) {
        values[done] = config->settings[done].value;
        failed = swap_cvar(config->settings[done].name, &values[done]);
        if (failed) *culprit = config->settings[done].name;
    }
    MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, base);
    if (!any_failed) MPI_Comm_dup(base, &comm);
    for (int i = done - 1 - failed; i >= 0; i--) swap_cvar(config->settings[i].name, &values[i]);
    return comm;
}

/* Communicator of the first `nprocs` ranks under the library's own decisions. */
static MPI_Comm base_comm(int nprocs) {
    for (int i = 0; i < n_comms; i++)
        if (comms[i].config < 0 && comms[i].nprocs == nprocs) return comms[i].comm;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < nprocs ? 0 : MPI_UNDEFINED, world_rank, &comm);
    comms = grown(comms, n_comms, sizeof *comms);
    comms[n_comms++] = (comm_entry_t){-1, nprocs, comm};
    return comm;
}

static MPI_Comm cell_comm(const cell_t *cell, const char **culprit) {
    for (int i = 0; i < n_comms; i++)
        if (comms[i].config == cell->config && comms[i].nprocs == cell->nprocs) return comms[i].comm;
    MPI_Comm base = base_comm(cell->nprocs), comm = MPI_COMM_NULL;
    if (base != MPI_COMM_NULL) comm = configured_comm(&configs[cell->config], base, culprit);
    if (comm != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    comms = grown(comms, n_comms, sizeof *comms);
    comms[n_comms++] = (comm_entry_t){cell->config, cell->nprocs, comm};
    return comm;
}

/* ---- measuring ---- */

static void dissemination_barrier(MPI_Comm comm, int rank, int size) {
    for (int distance = 1; distance < size; distance *= 2)
        MPI_Sendrecv(NULL, 0, MPI_BYTE, (rank + distance) % size, SYNC_TAG, NULL, 0, MPI_BYTE,
                     (rank - distance + size) % size, SYNC_TAG, comm, MPI_STATUS_IGNORE);
}

/* Whatever cannot be stored must not be measured either: the disk is full, or gone. */
static void flush_raw(void) {
    if (world_rank == 0 && (fflush(raw) || ferror(raw))) die("cannot write ", raw_path);
}

static void report(int cell, const char *status, const char *text) {
    if (world_rank == 0) fprintf(raw, "x %d %s %s\n", cell, status, text);
}

/* First call of a cell: is the library able, and is the result right? */
static void check_cell(int index, call_t *call, MPI_Comm base) {
    cell_t *cell = &cells[index];
    cell->checked = 1;
    cell->collective->fill(call);
    dissemination_barrier(base, call->rank, call->size);
    int rc = cell->collective->run(call);
    if (marks && world_rank == 0)
        fprintf(stderr, "MARK %s %d %zu\n", cell->collective->name, call->size, call->msize);
    int mine[2] = {rc != MPI_SUCCESS, rc == MPI_SUCCESS && cell->collective->wrong(call)}, any[2];
    MPI_Allreduce(mine, any, 2, MPI_INT, MPI_MAX, base);
    if (any[0]) report(index, "not_applicable", "the library refused the call");
    else if (any[1]) report(index, "wrong_result", "the received data are wrong");
    cell->dead = any[0] || any[1];
}

/* Time `n` repetitions; `longest` holds the maxima over ranks on rank 0. Returns loop seconds. */
static double time_chunk(const cell_t *cell, call_t *call, MPI_Comm base, int n, double *longest) {
    double mine[MAX_CHUNK];
    double loop = now();
    for (int i = 0; i < n; i++) {
        dissemination_barrier(base, call->rank, call->size);
        double t = now();
        cell->collective->run(call);
        mine[i] = now() - t;
    }
    loop = now() - loop;
    MPI_Reduce(mine, longest, n, MPI_DOUBLE, MPI_MAX, 0, base);
    return loop;
}

static int chunk_length(const step_t *step, int done, double seconds) {
    double left = step->max_seconds - seconds, total = budget - (now() - started);
    int wanted = step->max_reps - done;
    if (total < left) left = total;
    if (wanted <= 0 || left <= 0) return 0;
    if (!done) return 1;
    double fitting = left / (seconds / done);
    if (fitting < wanted) wanted = fitting < 1 ? 0 : (int)fitting;
    return wanted < MAX_CHUNK ? wanted : MAX_CHUNK;
}

static void time_step(const step_t *step, const cell_t *cell, call_t *call, MPI_Comm base) {
    double longest[MAX_CHUNK], seconds = 0;
    int done = 0;
    for (;;) {
        int n = world_rank == 0 ? chunk_length(step, done, seconds) : 0;
        MPI_Bcast(&n, 1, MPI_INT, 0, base);
        if (n == 0) break;
        double loop = time_chunk(cell, call, base, n, longest);
        seconds += loop;
        timed += loop;
        done += n;
        if (world_rank == 0) {
            fprintf(raw, "r %d", step->cell);
            for (int i = 0; i < n; i++) fprintf(raw, " %.9g", longest[i]);
            fprintf(raw, "\n");
        }
    }
    flush_raw();
}

static void run_step(const step_t *step) {
    cell_t *cell = &cells[step->cell];
    const char *culprit = "";
    if (cell->dead) return;
    if (world_rank == 0) fprintf(raw, "s %d\n", step->cell);
    flush_raw();
    MPI_Comm comm = cell_comm(cell, &culprit);
    if (world_rank >= cell->nprocs) return;
    if (comm == MPI_COMM_NULL) {
        report(step->cell, "not_applicable", culprit);
        cell->dead = 1;
        return;
    }
    MPI_Comm base = base_comm(cell->nprocs);
    call_t call = buffers;
    call.comm = comm;
    call.msize = cell->msize;
    MPI_Comm_rank(comm, &call.rank);
    MPI_Comm_size(comm, &call.size);
    prepare_call(&call, cell->collective);
    if (!cell->checked) check_cell(step->cell, &call, base);
    if (!cell->dead && step->max_reps > 0) time_step(step, cell, &call, base);
}

int main(int argc, char **argv) {
    int provided;
    started = now();
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    if (argc != 3) die("usage: collbench PLAN RAW", "");
    marks = getenv("COLLBENCH_MARK") != NULL;
    raw_path = argv[2];
    if (world_rank == 0 && !(raw = fopen(raw_path, "w"))) die("cannot write ", raw_path);
    parse_plan(read_plan(argv[1]));
    allocate_buffers();
    if (world_rank == 0) fprintf(raw, "colltune-raw 1\n");
    int i = 0;
    for (; i < n_steps; i++) {
        int over = now() - started >= budget;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (over) break;
        run_step(&steps[i]);
    }
    if (world_rank == 0) {
        fprintf(raw, "end %s %.6f %.6f\n", i < n_steps ? "budget" : "plan", timed, now() - started);
        if (fclose(raw)) die("cannot write ", raw_path);
    }
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
