/* canary: a small MPI program that a user's own launcher starts, and that tells what it finds.
 *
 * usage: canary look PATH...     without MPI: can every process read these files, and what is set?
 *        canary run [CALL...]    with MPI: which library, which nodes, and what comes of the calls
 *        canary traced LIBRARY [CALL...]   the same with LIBRARY preloaded
 *
 * CALL is collective:bytes:processes:nodes, called on a communicator whose processes lie evenly on
 * the first nodes of the job; 0 processes stand for all of the job as they are. Reductions are called
 * with sums of several kinds of numbers; those after the CALL `products` with products, too, those
 * after the CALL `own` with a program's own operations.
 *
 * It tells everything on stderr, where a call tracer writes too, one line per fact:
 *   CANARY file RANK SIZE HOST INDEX BYTES CRC     that process can read the file
 *   CANARY unreadable RANK SIZE HOST INDEX WHY
 *   CANARY set NAME=VALUE                          of rank 0: what is set for an MPI library
 *   CANARY settings RANK CRC                       of every rank, over all that is set there
 *   CANARY started SIZE                            of every process that is rank 0 in MPI
 *   CANARY library TEXT / node INDEX PROCESSES HOST
 *   CANARY begin CALL, then MARK COLLECTIVE PROCESSES BYTES after the call, then
 *   CANARY bits CALL HASH                          of reductions: over what all ranks hold;
 *                                                  varying: from call to call
 *   CANARY done CALL ok|wrong|disagree|refused [WHY]; disagree: ranks hold different bits
 *   CANARY end after all
 * TEXT, WHY, HOST, PATH and VALUE have %XX for whatever is no plain character.
 *
 * While calls are being watched nothing but messages between two processes is used around them, so
 * that no other collective is at the mercy of the configuration under test. */
#define _GNU_SOURCE
#include "collectives.h"
#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 4000, TEXT = 3000, NAME = 64, HOST = 256, MOST_COMMS = 256, TAG = 5, MADE_TAG = 6 };

extern char **environ;

/* ---- telling ---- */

static void tell(const char *format, ...) {
    char line[LINE];
    va_list arguments;
    int length = snprintf(line, sizeof line, "CANARY ");
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
    line[length++] = '\n';
    /* in one piece, so that lines of several processes do not mix */
    if (write(STDERR_FILENO, line, (size_t)length) < 0) _exit(4);
}

static const char *plain(const char *text) {
    static char coded[TEXT];
    size_t at = 0;
    for (; *text && at + 4 < sizeof coded; text++) {
        unsigned char c = (unsigned char)*text;
        if (c > ' ' && c < 127 && c != '%') coded[at++] = (char)c;
        else at += (size_t)snprintf(coded + at, 4, "%%%02X", c);
    }
    coded[at] = '\0';
    return at ? coded : "%20";
}

static void die(const char *what, const char *detail) {
    fprintf(stderr, "canary: %s%s\n", what, detail);
    exit(3);
}

/* CRC-32 as zlib computes it. */
static uint32_t crc(uint32_t sum, const unsigned char *bytes, size_t length) {
    static uint32_t table[256];
    for (uint32_t i = 0; i < 256 && !table[255]; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320U : 0);
    }
    sum = ~sum;
    for (size_t i = 0; i < length; i++) sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 255];
    return ~sum;
}

/* ---- look: before MPI, since one process that cannot read a file may keep all others waiting */

static long of_environment(const char *const *names, long otherwise) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text) return strtol(text, NULL, 10);
    }
    return otherwise;
}

static long launched_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID", NULL};
    return of_environment(names, 0);
}

static long launched_size(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS", NULL};
    return of_environment(names, 0);
}

static void host_name(char *host) {
    memset(host, 0, HOST);
    if (gethostname(host, HOST - 1)) strcpy(host, "unknown");
}

static const char *read_file(const char *path, long long *bytes, uint32_t *sum) {
    static unsigned char part[1 << 16];
    struct stat status;
    ssize_t got;
    int file = open(path, O_RDONLY | O_NONBLOCK);
    if (file < 0) return strerror(errno);
    if (fstat(file, &status) || !S_ISREG(status.st_mode)) {
        close(file);
        return "it is no regular file";
    }
    while ((got = read(file, part, sizeof part)) > 0) {
        *sum = crc(*sum, part, (size_t)got);
        *bytes += got;
    }
    close(file);
    return got < 0 ? strerror(errno) : NULL;
}

static int concerns_mpi(const char *assignment) {
    static const char *const prefixes[] = {"OMPI_MCA_", "MPIR_", "MPICH_", "I_MPI_", "MV2_", "MVP_",
                                           "PMIX_MCA_", "PRTE_MCA_", "UCX_", "FI_", "COLLTUNE_",
                                           "LD_PRELOAD="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(assignment, prefixes[i], strlen(prefixes[i]))) return 1;
    return 0;
}

/* What differs between processes by its very purpose is left out of the comparison. */
static int concerns_collectives(const char *assignment) {
    static const char *const prefixes[] = {"OMPI_MCA_coll_", "MPIR_", "MPICH_", "I_MPI_ADJUST",
                                           "I_MPI_TUNING", "COLLTUNE_TABLE=", "LD_PRELOAD="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(assignment, prefixes[i], strlen(prefixes[i]))) return 1;
    return 0;
}

static void tell_settings(int in_full) {
    uint32_t sum = 0; /* of all, in whatever order they stand */
    for (char **at = environ; *at; at++) {
        if (!concerns_mpi(*at)) continue;
        if (concerns_collectives(*at)) sum += crc(0, (const unsigned char *)*at, strlen(*at));
        if (in_full) tell("set %s", plain(*at));
    }
    tell("settings %ld %08x", launched_rank(), sum);
}

static int look(int n, char **paths) {
    const struct timespec a_while = {0, 300000000};
    char host[HOST];
    long rank = launched_rank(), size = launched_size();
    host_name(host);
    for (int i = 0; i < n; i++) {
        long long bytes = 0;
        uint32_t sum = 0;
        char where[TEXT];
        const char *why = read_file(paths[i], &bytes, &sum);
        snprintf(where, sizeof where, "%ld %ld %s %d", rank, size, plain(host), i);
        if (why) tell("unreadable %s %s", where, plain(why));
        else tell("file %s %lld %08x", where, bytes, sum);
    }
    tell_settings(rank == 0);
    /* launchers do not expect processes to end while others are being started */
    nanosleep(&a_while, NULL);
    return 0;
}

/* ---- run ---- */

typedef struct { char host[HOST]; } place_t;
typedef struct { int size, nodes; MPI_Comm comm; } made_t;

static int rank, size, n_nodes;
static int *node_of, *slot_of; /* of each rank */
static int *filled;            /* processes on each node */
static made_t made[MOST_COMMS];
static int n_made;
static int with_products, with_own;

static void number_nodes(const place_t *places) {
    int *first = malloc((size_t)size * sizeof *first);
    if (!first) die("out of memory", "");
    for (int r = 0; r < size; r++) {
        int node = 0;
        while (node < n_nodes && strcmp(places[first[node]].host, places[r].host)) node++;
        if (node == n_nodes) first[n_nodes++] = r;
        node_of[r] = node;
        slot_of[r] = filled[node]++;
    }
    if (rank == 0)
        for (int node = 0; node < n_nodes; node++)
            tell("node %d %d %s", node, filled[node], plain(places[first[node]].host));
    free(first);
}

static void find_nodes(void) {
    place_t *places = calloc((size_t)size, sizeof *places);
    node_of = calloc((size_t)size, sizeof *node_of);
    slot_of = calloc((size_t)size, sizeof *slot_of);
    filled = calloc((size_t)size, sizeof *filled);
    if (!places || !node_of || !slot_of || !filled) die("out of memory", "");
    host_name(places[rank].host);
    if (rank) {
        MPI_Send(&places[rank], HOST, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
        MPI_Recv(places, size * HOST, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int r = 1; r < size && rank == 0; r++)
        MPI_Recv(&places[r], HOST, MPI_CHAR, r, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int r = 1; r < size && rank == 0; r++)
        MPI_Send(places, size * HOST, MPI_CHAR, r, TAG, MPI_COMM_WORLD);
    number_nodes(places);
    free(places);
}

static void tell_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    tell("library %s", plain(text));
}

static int belongs(int r, int processes, int nodes) {
    if (!processes) return 1;
    int node = node_of[r];
    return node < nodes && slot_of[r] < processes / nodes + (node < processes % nodes);
}

/* A communicator of these processes, made once; MPI_COMM_NULL where this one is in none. */
static MPI_Comm communicator(int processes, int nodes) {
    MPI_Group world, part;
    MPI_Comm comm;
    int n = 0, *ranks;
    if (!belongs(rank, processes, nodes)) return MPI_COMM_NULL;
    for (int i = 0; i < n_made; i++)
        if (made[i].size == processes && made[i].nodes == nodes) return made[i].comm;
    if (n_made == MOST_COMMS) die("too many communicators", "");
    if (!(ranks = malloc((size_t)size * sizeof *ranks))) die("out of memory", "");
    for (int r = 0; r < size; r++)
        if (belongs(r, processes, nodes)) ranks[n++] = r;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, n, ranks, &part);
    MPI_Comm_create_group(MPI_COMM_WORLD, part, MADE_TAG, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    free(ranks);
    made[n_made++] = (made_t){processes, nodes, comm};
    return comm;
}

/* A call that failed may have left messages behind, which the next one must not receive. */
static void forget(MPI_Comm comm) {
    int at = 0;
    while (at < n_made && made[at].comm != comm) at++;
    if (at < n_made) made[at] = made[--n_made];
}

static size_t length_of(const call_t *c, int blocks) {
    return c->msize * (size_t)(blocks < 0 ? c->size : blocks) + 64;
}

static void reserve(call_t *c, const collective_t *collective) {
    c->send = malloc(length_of(c, collective->send_blocks));
    c->recv = malloc(length_of(c, collective->recv_blocks));
    c->counts = malloc((size_t)c->size * sizeof(int));
    c->displs = malloc((size_t)c->size * sizeof(int));
    if (!c->send || !c->recv || !c->counts || !c->displs) die("out of memory for a call", "");
}

static void release(call_t *c) {
    free(c->send);
    free(c->recv);
    free(c->counts);
    free(c->displs);
}

/* What became of a call; above 0: an error of MPI. */
enum { FINE = 0, WRONG = -1, WRONG_SUM = -2, DISAGREE = -3 };
typedef struct { int answer; unsigned bits; } finding_t;

/* Everybody's finding to rank 0 of the communicator, which then lets all go on with the worst answer,
 * and one hash of all ranks' bits. */
static finding_t shared(const call_t *c, finding_t mine, int must_agree) {
    finding_t other, all = {mine.answer, fold_hash(EMPTY_HASH, &mine.bits, sizeof mine.bits)};
    int differ = 0;
    for (int r = 1; r < c->size && c->rank == 0; r++) {
        MPI_Recv(&other, sizeof other, MPI_BYTE, r, TAG, c->comm, MPI_STATUS_IGNORE);
        if (!all.answer || (all.answer < 0 && other.answer > 0)) all.answer = other.answer;
        differ |= other.bits != mine.bits;
        all.bits = fold_hash(all.bits, &other.bits, sizeof other.bits);
    }
    if (!all.answer && must_agree && differ) all.answer = DISAGREE;
    for (int r = 1; r < c->size && c->rank == 0; r++)
        MPI_Send(&all, sizeof all, MPI_BYTE, r, TAG, c->comm);
    if (c->rank) {
        MPI_Send(&mine, sizeof mine, MPI_BYTE, 0, TAG, c->comm);
        MPI_Recv(&all, sizeof all, MPI_BYTE, 0, TAG, c->comm, MPI_STATUS_IGNORE);
    }
    return all;
}

static int worst(const call_t *c, int mine) { return shared(c, (finding_t){mine, 0}, 0).answer; }

static void tell_done(const char *word, int answer) {
    char text[MPI_MAX_ERROR_STRING] = "the library refused the call";
    int length;
    if (answer > 0) MPI_Error_string(answer, text, &length);
    if (answer == FINE) tell("done %s ok", word);
    else if (answer == WRONG) tell("done %s wrong", word);
    else if (answer == WRONG_SUM) tell("done %s wrong %s", word, plain("a sum of doubles is wrong"));
    else if (answer == DISAGREE) tell("done %s disagree", word);
    else tell("done %s refused %s", word, plain(text));
}

/* ---- numbers whose sums depend on the order ---- */

static int run_as_it_is(call_t *c, void *collective) {
    return ((const collective_t *)collective)->run(c);
}

static finding_t reduced_once(const call_t *c, const collective_t *collective, const number_t *kind) {
    sums_t seen = sum_numbers(c, collective, kind, run_as_it_is, (void *)collective);
    int answer = seen.code != MPI_SUCCESS ? seen.code : seen.wrong ? WRONG_SUM : FINE;
    return shared(c, (finding_t){answer, seen.hash}, ranks_must_agree(collective));
}

/* Write what reductions are called with, of doubles twice; return how many kinds there are. */
static int kinds_of_numbers(number_t *kinds) {
    int n = 0;
    kinds[n++] = summed_kind(0);
    for (int i = 0; i < SUMMED; i++) kinds[n++] = summed_kind(i);
    for (int i = 0; i < PRODUCTS && with_products; i++) kinds[n++] = number_kinds[FIRST_PRODUCT + i];
    for (int i = FIRST_OWN; i < KINDS && with_own; i++) kinds[n++] = number_kinds[i];
    return n;
}

/* The same call for several kinds of numbers and operations. */
static int reduce_all(const call_t *c, const collective_t *collective, const char *word) {
    number_t kinds[1 + SUMMED + KINDS];
    unsigned hash = EMPTY_HASH, first = 0;
    int varying = 0, n = kinds_of_numbers(kinds);
    for (int i = 0; i < n; i++) {
        finding_t found = reduced_once(c, collective, &kinds[i]);
        if (found.answer) return found.answer;
        if (i == 0) first = found.bits;
        varying |= i == 1 && found.bits != first;
        hash = fold_hash(hash, &found.bits, sizeof found.bits);
    }
    if (rank == 0 && varying) tell("bits %s varying", word);
    else if (rank == 0) tell("bits %s %08x", word, hash);
    return FINE;
}

static void run_call(const char *word) {
    char name[NAME];
    call_t c;
    int processes, nodes;
    memset(&c, 0, sizeof c);
    if (sscanf(word, "%63[^:]:%zu:%d:%d", name, &c.msize, &processes, &nodes) != 4 || nodes < 1 ||
        processes < 0 || processes > size || nodes > n_nodes || c.msize > INT_MAX)
        die("bad call ", word);
    const collective_t *collective = find_collective(name);
    if (!collective) die("unknown collective ", name);
    c.comm = communicator(processes, nodes);
    if (c.comm == MPI_COMM_NULL) return;
    MPI_Comm_rank(c.comm, &c.rank);
    MPI_Comm_size(c.comm, &c.size);
    reserve(&c, collective);
    prepare_call(&c, collective);
    prepare_check(&c, collective);
    worst(&c, 0); /* nobody is late */
    if (rank == 0) tell("begin %s", word);
    /* what a library sets up in a communicator's first call is no part of any other one */
    int answer = collective->run(&c);
    if (answer == MPI_SUCCESS) {
        prepare_check(&c, collective);
        answer = collective->run(&c);
    }
    if (rank == 0) mark_call(collective, &c);
    if (answer == MPI_SUCCESS) answer = collective->wrong(&c) ? WRONG : FINE;
    answer = worst(&c, answer);
    if (!answer && collective->left) answer = reduce_all(&c, collective, word);
    if (rank == 0) tell_done(word, answer);
    if (answer) forget(c.comm);
    release(&c);
}

static int run(int n, char **words) {
    setenv("COLLTUNE_FIRST_CALLS", "0", 1); /* a communicator's first call is the one watched */
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        tell("started %d", size);
        tell_library();
        tell_settings(1);
    }
    find_nodes();
    make_numbers();
    for (int i = 0; i < n; i++) {
        if (!strcmp(words[i], "products")) with_products = 1;
        else if (!strcmp(words[i], "own")) with_own = 1;
        else run_call(words[i]);
    }
    if (rank == 0) tell("end");
    MPI_Finalize();
    return 0;
}

/* Start this program anew with the library preloaded: no launcher need hand anything on. */
static void preload(const char *library, char **argv) {
    char joined[TEXT], opened[64];
    const char *before = getenv("LD_PRELOAD");
    if (strpbrk(library, " :")) { /* what separates names; an open file has one without them */
        const int file = open(library, O_RDONLY);
        if (file < 0) die("cannot open the tracer: ", strerror(errno));
        snprintf(opened, sizeof opened, "/proc/self/fd/%d", file);
        library = opened;
    }
    snprintf(joined, sizeof joined, "%s%s%s", library, before && *before ? ":" : "",
             before ? before : "");
    if (setenv("LD_PRELOAD", joined, 1) || setenv("COLLTUNE_TRACE_RANK", "0", 1) ||
        setenv("COLLTUNE_TRACE_WORDS", "1", 1))
        die("cannot set LD_PRELOAD", "");
    execv("/proc/self/exe", argv);
    die("cannot start anew: ", strerror(errno));
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "look")) return look(argc - 2, argv + 2);
    if (argc > 1 && !strcmp(argv[1], "run")) return run(argc - 2, argv + 2);
    if (argc > 2 && !strcmp(argv[1], "traced")) {
        static char verb[] = "run";
        const char *library = argv[2];
        argv[1] = argv[0];
        argv[2] = verb;
        preload(library, argv + 1);
    }
    die("usage: canary look PATH... | run CALL... | traced LIBRARY CALL...", "");
    return 3;
}
