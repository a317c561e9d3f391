/* How long a decision takes: by compiled statements (ifelse.c, generated), by libcolltune's table, by
 * its rule base. Linked with the library's sources; the communicators are made up.
 *
 *   runtime_decision RULES SIZE,SIZE,... ORDER ROUNDS
 *
 * COLLTUNE_TABLE names the table. ORDER is sorted, as nested loops over communicators and sizes ask,
 * or shuffled. Prints one line per round: nanoseconds of a decision by statements,
 * table, rules; each is the mean of 180,000 broadcasts, after which a dummy function is called. */
#include "core.h"
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SETS = 180000, MOST_SIZES = 16, LARGEST_BITS = 24 };

const ct_configuration_t *by_statements(ct_comm_t *c, const ct_call_t *call);
int find_configurations(void);

typedef const ct_configuration_t *(*decide_t)(ct_comm_t *, const ct_call_t *);
typedef struct {
    double ns;
    unsigned long sum; /* of what was decided: all ways must come to the same */
} pass_t;

static ct_comm_t comms[MOST_SIZES];
static struct {
    ct_comm_t *c;
    size_t msize;
} sets[SETS];
static unsigned long sum;

static void fail(const char *what) {
    fprintf(stderr, "runtime_decision: %s\n", what);
    exit(1);
}

/* Seconds of this thread, without those in which others had the processor. */
static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Stands for the algorithm. */
__attribute__((noinline)) static void dummy(const ct_configuration_t *chosen) {
    sum = sum * 31 + (chosen ? (unsigned long)chosen->values[0] : 1);
}

/* Not a copy for each: all are called through the same pointer. */
__attribute__((noinline, noipa)) static pass_t pass(decide_t decide) {
    ct_call_t call = {.collective = CT_BCAST, .recvtype = MPI_BYTE, .comm = MPI_COMM_WORLD};
    sum = 0;
    double start = cpu_now();
    for (int i = 0; i < SETS; i++) {
        call.msize = sets[i].msize;
        dummy(decide(sets[i].c, &call));
    }
    return (pass_t){1e9 * (cpu_now() - start) / SETS, sum};
}

static unsigned long random_bits(void) {
    static unsigned long state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void make_sets(char *sizes) {
    int n = 0;
    for (char *word = strtok(sizes, ","); word && n < MOST_SIZES; word = strtok(NULL, ","))
        comms[n++] = (ct_comm_t){.comm = MPI_COMM_WORLD, .size = atoi(word), .nodes = 1};
    if (!n) fail("no sizes");
    for (int i = 0; i < SETS; i++) { /* sizes of messages are spread evenly over their bits */
        int bits = (int)(random_bits() % LARGEST_BITS);
        sets[i].c = &comms[i / (SETS / n) < n ? i / (SETS / n) : n - 1];
        sets[i].msize = random_bits() & ((1ul << bits) - 1);
    }
}

static int by_msize(const void *a, const void *b) {
    size_t x = sets[*(const int *)a].msize, y = sets[*(const int *)b].msize;
    return (x > y) - (x < y);
}

/* As nested loops over communicators and sizes would ask. */
static void sort_sets(void) {
    static int order[SETS];
    static size_t sorted[SETS];
    for (int i = 0; i < SETS; i++) order[i] = i;
    for (int at = 0, end; at < SETS; at = end) {
        for (end = at; end < SETS && sets[end].c == sets[at].c;) end++;
        qsort(order + at, (size_t)(end - at), sizeof *order, by_msize);
    }
    for (int i = 0; i < SETS; i++) sorted[i] = sets[order[i]].msize;
    for (int i = 0; i < SETS; i++) sets[i].msize = sorted[i];
}

static void shuffle_sets(void) {
    for (int i = SETS - 1; i > 0; i--) {
        int k = (int)(random_bits() % (unsigned long)(i + 1));
        __typeof__(sets[0]) one = sets[i];
        sets[i] = sets[k];
        sets[k] = one;
    }
}

static char *contents(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file || fread(text, 1, sizeof text - 1, file) == 0) fail("cannot read the rules");
    fclose(file);
    return strchr(text, '\n') + 1; /* without the version */
}

static void one_round(const colltune_rules_t *rules) {
    pass_t statements = pass(by_statements), table = pass(ct_decide);
    if (rules->start("bcast", "first") || rules->commit()) fail(rules->error());
    pass_t ruled = pass(ct_decide);
    if (rules->start("bcast", NULL) || rules->commit()) fail(rules->error());
    if (statements.sum != table.sum || statements.sum != ruled.sum) fail("they decide otherwise");
    printf("%.3f %.3f %.3f\n", statements.ns, table.ns, ruled.ns);
}

int main(int n, char **arguments) {
    if (n != 5 || MPI_Init(NULL, NULL) != MPI_SUCCESS) return 2;
    const colltune_rules_t *rules = colltune_rules();
    if (!rules || rules->read(contents(arguments[1]))) fail(rules ? rules->error() : "no rules");
    if (find_configurations()) fail("a configuration is unknown");
    make_sets(arguments[2]);
    if (!strcmp(arguments[3], "shuffled")) shuffle_sets();
    else sort_sets();
    pass(by_statements);
    for (int i = 0; i < atoi(arguments[4]); i++) one_round(rules);
    return MPI_Finalize() != MPI_SUCCESS;
}
