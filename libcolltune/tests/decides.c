/* Checks how libcolltune reads tables and rules, and what it decides by them; linked with its sources.
 *
 *   decides ask TABLE [COLLECTIVE:SIZE:NODESxPPN:BYTES ...]   the id of each choice, or "library"
 *   decides damage TABLE ROUNDS    reads ROUNDS damaged copies of it
 *   decides rules                  MPI is started: what rules decide, with threads
 *   decides rules alone            the same where one thread at a time is in MPI
 *
 * Says "checked N" at the end; a check that fails ends it with status 1. */
#include "core.h"
#include "rules.h"
#include "table.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, CHANGES = 300 };

static long checked;

#define CHECK(condition)                                                        \
    do {                                                                        \
        checked++;                                                              \
        if (!(condition)) {                                                     \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);     \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* ---- tables ---- */

static char *contents(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    CHECK(file && !fseek(file, 0, SEEK_END) && ftell(file) >= 0);
    *length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*length + 1);
    CHECK(text && fread(text, 1, *length, file) == *length);
    text[*length] = '\0';
    fclose(file);
    return text;
}

static ct_table_t *read_copy(const char *text, size_t length, ct_why_t *why) {
    char *copy = malloc(length + 1);
    CHECK(copy != NULL);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return ct_table_read(copy, length, why);
}

static const char *answer(const ct_table_t *table, const char *question) {
    char name[64];
    ct_comm_t c = {0};
    size_t msize;
    CHECK(sscanf(question, "%63[^:]:%d:%dx%d:%zu", name, &c.size, &c.nodes, &c.ppn, &msize) == 5);
    const ct_part_t *part = ct_table_part(table, ct_collective_named(name), &c);
    const ct_configuration_t *choice = part ? ct_choice(part, msize) : NULL;
    return choice ? choice->id : "library";
}

static void ask(char **arguments) {
    ct_why_t why = {0};
    size_t length;
    char *text = contents(arguments[0], &length);
    ct_table_t *table = read_copy(text, length, &why);
    free(text);
    if (!table) {
        printf("ignored: %s\n", why.text);
        return;
    }
    if (table->n_unknown) printf("unknown: %s\n", table->unknown.text);
    extern char **environ;
    const char *variable = ct_table_overruled(table, environ);
    if (variable) printf("overruled: %s\n", variable);
    while (*++arguments) puts(answer(table, *arguments));
    ct_table_free(table);
}

/* ---- damage ---- */

static uint64_t state = 88172645463325252u;

static size_t random_below(size_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (size_t)(state % n) : 0;
}

/* Make the checksum right again, so that what stands before it is read. */
static void seal(char *text, size_t *length) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    char *end = NULL;
    for (char *at = text; (at = strstr(at, "\nend ")); at++) end = at + 1;
    if (!end) return;
    for (char *at = text; at < end; at++)
        sum = (sum ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    *length = (size_t)(end - text) + (size_t)sprintf(end, "end %016llx\n", (unsigned long long)sum);
}

static const char *const strange[] = {
    "99999999999999999999999", "-1", "4294967296", "2147483648", "18446744073709551615", " ", "\n",
    "rules bcast size 4\n", "rules bcast layout 65536x65536\n", "0 0\n", "x", "unless *\n", "1x",
    "configuration 1 \n", "library\n", "\nend 0\n", "but ?*?*?*?*?\n", "9223372036854775807 1\n", "=",
};

/* One change of at most 64 bytes more. */
static void damage(char *text, size_t *length) {
    size_t at = random_below(*length), n;
    const char *piece = strange[random_below(sizeof strange / sizeof *strange)];
    switch (random_below(5)) {
    case 0:
        *length = at;
        break;
    case 1:
        text[at] ^= (char)(1 << random_below(8));
        break;
    case 2:
        n = strlen(piece);
        memmove(text + at + n, text + at, *length - at);
        memcpy(text + at, piece, n);
        *length += n;
        break;
    case 3:
        n = random_below(*length - at);
        memmove(text + at, text + at + n, *length - at - n);
        *length -= n;
        break;
    default:
        text[at] = (char)random_below(256);
    }
    text[*length] = '\0';
}

static void read_damaged(const char *path, long rounds) {
    ct_why_t why = {0};
    size_t length, n;
    char *text = contents(path, &length), *copy = malloc(length + 1024);
    long whole = 0;
    CHECK(copy != NULL);
    for (long i = 0; i < rounds; i++) {
        memcpy(copy, text, (n = length) + 1);
        for (size_t k = 0; k <= random_below(4) && n; k++) damage(copy, &n);
        if (i % 2) seal(copy, &n);
        ct_table_t *table = read_copy(copy, n, &why);
        CHECK(table || *why.text);
        if (table) {
            whole++;
            answer(table, "bcast:4:2x2:12345");
            ct_table_overruled(table, (char *const[]){"OMPI_MCA_coll=x", "A", "", NULL});
        }
        ct_table_free(table);
    }
    CHECK(whole < rounds);
    printf("%ld of %ld damaged tables were whole\n", whole, rounds);
    free(text);
    free(copy);
}

/* ---- very long lines, NUL bytes ---- */

static void read_strange(void) {
    enum { LONG = 1 << 20 };
    static const char *const before[] = {"", "colltune-table 1\n", "colltune-table 1\nlibrary ",
                                         "colltune-table 1\nlibrary a b\nshape 1x2\nunless ",
                                         "colltune-table 1\nlibrary a b\nconfiguration 1 "};
    ct_why_t why = {0};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        char *text = malloc(LONG + 256);
        CHECK(text != NULL);
        size_t length = (size_t)sprintf(text, "%s", before[i]);
        memset(text + length, 'x', LONG);
        length += LONG + (size_t)sprintf(text + length + LONG, "\nend 0123456789abcdef\n");
        CHECK(!read_copy(text, length, &why) && *why.text);
        seal(text, &length);
        ct_table_t *table = read_copy(text, length, &why);
        CHECK(table ? i == 3 : strlen(why.text) < sizeof why); /* a pattern may be long */
        ct_table_free(table);
        text[length / 2] = '\0';
        CHECK(!read_copy(text, length, &why));
        free(text);
    }
    CHECK(!read_copy("", 0, &why));
}

/* ---- rules ---- */

static const colltune_rules_t *rules;

/* By rules, else by a table whose only choice has the id "table". */
static const char *decided(ct_comm_t *c, ct_call_t call) {
    static const ct_configuration_t choice = {.kind = CT_OWN, .id = "table"};
    static ct_step_t step = {0, &choice};
    static const ct_part_t part = {.n = 1, .steps = &step, .last = &step};
    c->has_decisions = 1;
    c->decisions[call.collective] = &part;
    const ct_configuration_t *chosen = ct_decide(c, &call);
    return chosen ? chosen->id : "library";
}

#define BCAST(...) ((ct_call_t){.collective = CT_BCAST, .recvtype = MPI_BYTE, __VA_ARGS__})
#define IS(call, id) CHECK(!strcmp(decided(&c, call), id))
#define GROUPS "colltune.bcast.hierarchical:groups=2,inner=binomial"
#define STEERED "openmpi.bcast.chain:segsize=1024"

static void check_operators(void) {
    static const int expected[COLLTUNE_OPERATORS][3] = {{1, 0, 0}, {1, 1, 0}, {0, 0, 1},
                                                        {0, 1, 1}, {0, 1, 0}, {1, 0, 1}};
    ct_comm_t c = {.size = 8, .nodes = 4, .ppn = 2};
    for (int is = 0; is < COLLTUNE_OPERATORS; is++) {
        CHECK(!rules->rule("first", COLLTUNE_MSIZE, (colltune_operator_t)is, 100, "groups", "library"));
        CHECK(!rules->commit());
        for (size_t i = 0; i < 3; i++)
            IS(BCAST(.msize = 99 + i), expected[is][i] ? GROUPS : "library");
    }
}

static void check_parameters(void) {
    ct_comm_t c = {.size = 12, .nodes = 4, .ppn = 3};
    static const struct { colltune_parameter_t parameter; long value; } facts[] = {
        {COLLTUNE_MSIZE, 640}, {COLLTUNE_SIZE, 12},       {COLLTUNE_POWER_OF_TWO, 0},
        {COLLTUNE_NODES, 4},   {COLLTUNE_PPN, 3},         {COLLTUNE_ROOT, 5},
        {COLLTUNE_ROOT_IS_ZERO, 0}, {COLLTUNE_COLLECTIVE, CT_BCAST},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        CHECK(!rules->rule("first", facts[i].parameter, COLLTUNE_EQ, facts[i].value, "groups", "table"));
        CHECK(!rules->commit());
        IS(BCAST(.msize = 640, .root = 5), GROUPS);
        CHECK(!rules->rule("first", facts[i].parameter, COLLTUNE_NEQ, facts[i].value, "groups", "table"));
        CHECK(!rules->commit());
        IS(BCAST(.msize = 640, .root = 5), "table");
    }
}

/* Count, size and extent of the datatype are the same everywhere in reductions only. */
static void check_types(void) {
    ct_comm_t c = {.size = 4, .nodes = 1, .ppn = 4};
    ct_call_t call = {.collective = CT_ALLREDUCE, .recvcount = 10, .recvtype = MPI_DOUBLE, .msize = 80};
    CHECK(!rules->clear());
    CHECK(!rules->read("rule count count EQ 10 then size else table\n"
                       "rule size type_size EQ 8 then extent else table\n"
                       "rule extent type_extent EQ 8 then library else table\n"
                       "start allreduce count\n"));
    CHECK(!rules->commit());
    IS(call, "library");
    call.msize = 88;
    IS(call, "table");
    CHECK(!rules->start("bcast", "count") && rules->commit());
    CHECK(strstr(rules->error(), "count may differ between processes of bcast"));
    IS(call, "table"); /* what held before still holds */
}

static void check_values(void) {
    ct_comm_t c = {.size = 8, .nodes = 4, .ppn = 2};
    long value = 0, *address = NULL;
    int keyval, found = 0;
    CHECK(!rules->clear() && !rules->set("threshold", 1000));
    CHECK(!rules->configuration("groups", GROUPS));
    CHECK(!rules->rule_named("first", COLLTUNE_MSIZE, COLLTUNE_GTEQ, "threshold", "groups", "library"));
    CHECK(!rules->start("bcast", "first") && !rules->commit());
    IS(BCAST(.msize = 999), "library");
    IS(BCAST(.msize = 1000), GROUPS);
    CHECK(!rules->keyval("threshold", &keyval));
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &address, &found) == MPI_SUCCESS && found);
    CHECK(*address == 1000);
    *address = 500; /* as Fagg et al. do */
    CHECK(!rules->get("threshold", &value) && value == 500);
    IS(BCAST(.msize = 999), GROUPS);
    CHECK(!rules->set_all(MPI_COMM_WORLD, "threshold", 2000) && *address == 2000);
    IS(BCAST(.msize = 1999), "library");
    CHECK(rules->set_all(MPI_COMM_NULL, "threshold", 1) && rules->commit_all(MPI_COMM_NULL));
    CHECK(rules->get("nothing", &value) && rules->keyval("nothing", &keyval));
    CHECK(rules->rule_named("first", COLLTUNE_COLLECTIVE, COLLTUNE_EQ, "threshold", "groups", "table"));
}

static void check_changes(void) {
    ct_comm_t c = {.size = 8, .nodes = 4, .ppn = 2};
    CHECK(!rules->rule("first", COLLTUNE_ROOT_IS_ZERO, COLLTUNE_EQ, 1, "second", "table"));
    CHECK(rules->commit() && strstr(rules->error(), "there is no rule and no configuration second"));
    IS(BCAST(.msize = 5000), GROUPS);
    CHECK(!rules->configuration("second", STEERED " coll_tuned_bcast_algorithm=2"));
    CHECK(!rules->commit_all(MPI_COMM_WORLD));
    IS(BCAST(.msize = 5000), STEERED);
    IS(BCAST(.msize = 5000, .root = 1), "table");
    CHECK(rules->remove_rule("second") && !rules->remove_rule("first"));
    CHECK(rules->commit_all(MPI_COMM_WORLD));
    IS(BCAST(.msize = 5000), STEERED);
    CHECK(!rules->start("bcast", NULL) && !rules->commit());
    IS(BCAST(.msize = 5000), "table");
    CHECK(!ct_rules_hold(CT_BCAST));
}

static void check_refusals(void) {
    static const char *const wrong[][2] = {
        {"rule a msize LT 5 then library", "line 1: it is not: rule NAME"},
        {"\nrule a bytes LT 5 then library else table", "line 2: there is no parameter bytes"},
        {"rule a msize < 5 then library else table", "line 1: < is none of LT"},
        {"rule a msize LT 5k then library else table", "nothing to compare msize with"},
        {"rule a msize LT 9999999999999999999999 then library else table", "nothing to compare"},
        {"rule library msize LT 5 then table else table", "it is not: rule NAME"},
        {"configuration g colltune.bcast.nothing", "no algorithm nothing"},
        {"configuration g openmpi.bcast.chain", "control variables that choose it are missing"},
        {"value 5 5", "it is not: value NAME NUMBER"},
        {"start broadcast a", "broadcast is no collective"},
        {"go bcast a", "go: lines begin with value"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!rules->clear() && rules->read(wrong[i][0]));
        if (!strstr(rules->error(), wrong[i][1])) fprintf(stderr, "%s\n", rules->error());
        CHECK(strstr(rules->error(), wrong[i][1]));
    }
    static const char *const unfit[][2] = {
        {"rule a msize LT 5 then b else table\nrule b size LT 5 then a else table\nstart bcast a",
         "leads back to itself"},
        {"rule a root EQ 0 then library else table\nstart allreduce a", "root is none of allreduce"},
        {"rule a msize LT 5 then library else table\nstart alltoallv a", "differs between"},
        {"configuration g " GROUPS "\nstart gather g", "another collective"},
        {"rule a msize LT nothing then library else table\nstart bcast a", "no value nothing"},
    };
    for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
        CHECK(!rules->clear() && !rules->read(unfit[i][0]) && rules->commit());
        if (!strstr(rules->error(), unfit[i][1])) fprintf(stderr, "%s\n", rules->error());
        CHECK(strstr(rules->error(), unfit[i][1]));
    }
}

/* One rule about the collective, for all of them. */
static void check_all_collectives(void) {
    ct_comm_t c = {.size = 8, .nodes = 4, .ppn = 2};
    CHECK(!rules->clear() && !rules->read("configuration g " GROUPS "\n"
                                          "rule which collective EQ bcast then g else other\n"
                                          "rule other collective EQ barrier then library else table\n"
                                          "start all which"));
    CHECK(!rules->commit());
    IS(BCAST(.msize = 1), GROUPS);
    IS(((ct_call_t){.collective = CT_BARRIER}), "library");
    CHECK(!ct_rules_hold(CT_GATHER) && rules->collective("gather") == CT_GATHER);
}

/* ---- many rules: each answer against the rules followed one by one ---- */

enum { MOST_RULES = 12, PROGRAMS = 150, ASKED = 200, ENDS = 4 };
typedef struct {
    colltune_parameter_t parameter;
    colltune_operator_t is;
    long value;
    int named, next[2]; /* from MOST_RULES on: an end */
} drawn_t;

static const char *const end_names[ENDS] = {"table", "library", "two", "three"};
static const char *const end_ids[ENDS] = {"table", "library", "colltune.bcast.hierarchical:groups=2",
                                          "colltune.bcast.hierarchical:groups=3"};
static long named_value;

static long fact(const ct_comm_t *c, const ct_call_t *call, colltune_parameter_t parameter) {
    switch (parameter) {
    case COLLTUNE_MSIZE: return (long)call->msize;
    case COLLTUNE_SIZE: return c->size;
    case COLLTUNE_POWER_OF_TWO: return (c->size & (c->size - 1)) == 0;
    case COLLTUNE_NODES: return c->nodes;
    case COLLTUNE_PPN: return c->ppn;
    default: return call->root;
    }
}

static const char *followed(const drawn_t *drawn, const ct_comm_t *c, const ct_call_t *call) {
    int at = 0;
    while (at < MOST_RULES) {
        const drawn_t *r = &drawn[at];
        long x = fact(c, call, r->parameter), y = r->named ? named_value : r->value;
        int holds[COLLTUNE_OPERATORS] = {x < y, x <= y, x > y, x >= y, x == y, x != y};
        at = r->next[holds[r->is]];
    }
    return end_ids[at - MOST_RULES];
}

/* Rules lead to later ones only. `kinds`: 5 without the root. */
static void draw(drawn_t *drawn, int n, int kinds, int named) {
    static const long values[] = {-1, 0, 1, 2, 3, 4, 8, 100, 101, 4096, 65536, 9223372036854775807};
    char name[16], next[2][16];
    CHECK(!rules->clear() && !rules->start("bcast", "r0"));
    CHECK(!rules->configuration("two", end_ids[2]) && !rules->configuration("three", end_ids[3]));
    for (int i = n - 1; i >= 0; i--) {
        drawn_t *r = &drawn[i];
        r->parameter = random_below(2) ? COLLTUNE_MSIZE : (colltune_parameter_t)random_below((size_t)kinds);
        r->is = (colltune_operator_t)random_below(COLLTUNE_OPERATORS);
        r->value = values[random_below(sizeof values / sizeof *values)];
        r->named = named && !random_below(3);
        for (int k = 0; k < 2; k++) {
            int later = i + 1 < n && random_below(3);
            r->next[k] = later ? i + 1 + (int)random_below((size_t)(n - i - 1))
                               : MOST_RULES + (int)random_below(ENDS);
            if (later) snprintf(next[k], sizeof next[k], "r%d", r->next[k]);
            else snprintf(next[k], sizeof next[k], "%s", end_names[r->next[k] - MOST_RULES]);
        }
        snprintf(name, sizeof name, "r%d", i);
        if (r->named) CHECK(!rules->rule_named(name, r->parameter, r->is, "drawn", next[1], next[0]));
        else CHECK(!rules->rule(name, r->parameter, r->is, r->value, next[1], next[0]));
    }
    CHECK(!rules->commit());
}

static void check_many(void) {
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 99, 100, 101, 102, 4095, 4096, 4097,
                                   65535, 65536, 65537, (size_t)1 << 40};
    ct_comm_t comms[] = {{.size = 2, .nodes = 1, .ppn = 2}, {.size = 4, .nodes = 2, .ppn = 2},
                         {.size = 4, .nodes = 4, .ppn = 1}, {.size = 100, .nodes = 3},
                         {.size = 100, .nodes = 4}};
    drawn_t drawn[MOST_RULES];
    CHECK(!rules->set("drawn", 0));
    for (int program = 0; program < PROGRAMS; program++) {
        draw(drawn, 1 + (int)random_below(MOST_RULES), program % 3 ? 5 : 6, program % 2);
        for (int i = 0; i < ASKED; i++) {
            ct_comm_t *c = &comms[random_below(sizeof comms / sizeof *comms)];
            ct_call_t call = BCAST(.msize = sizes[random_below(sizeof sizes / sizeof *sizes)],
                                   .root = (int)random_below(3));
            if (!random_below(4)) CHECK(!rules->set("drawn", named_value = (long)random_below(200)));
            CHECK(!strcmp(decided(c, call), followed(drawn, c, &call)));
        }
    }
}

/* Rules that turn at more sizes than are looked at one by one. */
static void check_long(void) {
    enum { TURNS = 60, APART = 10 };
    ct_comm_t c = {.size = 8, .nodes = 4, .ppn = 2};
    char name[16], next[16];
    CHECK(!rules->clear() && !rules->configuration("two", end_ids[2]) && !rules->start("bcast", "r1"));
    for (int i = 1; i <= TURNS; i++) {
        snprintf(name, sizeof name, "r%d", i);
        snprintf(next, sizeof next, "r%d", i + 1);
        CHECK(!rules->rule(name, COLLTUNE_MSIZE, COLLTUNE_LT, i * APART, i % 2 ? "two" : "library",
                           i < TURNS ? next : "table"));
    }
    CHECK(!rules->commit());
    for (int msize = 0; msize < TURNS * APART + 2; msize++) {
        int turn = msize / APART;
        IS(BCAST(.msize = (size_t)msize), end_ids[turn >= TURNS ? 0 : turn % 2 ? 1 : 2]);
    }
}

/* ---- threads ---- */

static _Atomic int stop;

static void *keep_deciding(void *unused) {
    ct_comm_t c = {.size = 8, .nodes = 4, .ppn = 2};
    long n = 0;
    do {
        const char *id = decided(&c, BCAST(.msize = 7));
        if (strcmp(id, GROUPS) && strcmp(id, "library")) exit(1);
        n++;
    } while (!atomic_load(&stop));
    (void)unused;
    return (void *)n;
}

static void check_threads(void) {
    pthread_t threads[THREADS];
    void *n;
    CHECK(!rules->clear() && !rules->configuration("groups", GROUPS));
    CHECK(!rules->rule("first", COLLTUNE_MSIZE, COLLTUNE_LT, 8, "groups", "library"));
    CHECK(!rules->start("bcast", "first") && !rules->commit());
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, keep_deciding, NULL));
    for (int i = 0; i < CHANGES; i++) {
        CHECK(!rules->rule("first", COLLTUNE_MSIZE, COLLTUNE_LT, i % 2 ? 8 : 0, "groups", "library"));
        CHECK(!rules->commit());
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) {
        CHECK(!pthread_join(threads[i], &n));
        CHECK((long)n > 0);
    }
}

static void check_rules(int level) {
    int provided;
    CHECK(MPI_Init_thread(NULL, NULL, level, &provided) == MPI_SUCCESS && provided == level);
    rules = colltune_rules();
    CHECK(rules != NULL);
    CHECK(!rules->configuration("groups", GROUPS) && !rules->start("bcast", "first"));
    check_operators();
    check_parameters();
    check_types();
    check_values();
    check_changes();
    check_refusals();
    check_all_collectives();
    check_many();
    check_long();
    if (level == MPI_THREAD_MULTIPLE) check_threads();
    CHECK(MPI_Finalize() == MPI_SUCCESS);
}

int main(int n, char **arguments) {
    if (n > 2 && !strcmp(arguments[1], "ask")) ask(arguments + 2);
    else if (n == 4 && !strcmp(arguments[1], "damage")) {
        read_strange();
        read_damaged(arguments[2], atol(arguments[3]));
    } else if (n == 2) check_rules(MPI_THREAD_MULTIPLE);
    else if (n == 3 && !strcmp(arguments[2], "alone")) check_rules(MPI_THREAD_SINGLE);
    else return 2;
    ct_configurations_end();
    printf("checked %ld\n", checked);
    return 0;
}
