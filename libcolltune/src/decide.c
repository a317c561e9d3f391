/* Which configuration runs a call: that of the rule base, else that of the decision table. */
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20 };

extern char **environ;

static ct_table_t *table;
static const char leave[] = "the MPI library decides";

/* ---- files ---- */

/* Rank 0's file; NULL on the others, and with `why` written if it cannot be read. */
static char *contents(const char *path, size_t *length, const char **why) {
    struct stat facts;
    char *text = NULL;
    if (ct_world_rank) return NULL;
    int opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe would wait for its writer */
    FILE *file = opened < 0 ? NULL : fdopen(opened, "rb");
    if (!file || fstat(opened, &facts)) *why = strerror(errno);
    else if (!S_ISREG(facts.st_mode)) *why = "it is no plain file";
    else if (facts.st_size > MOST_BYTES) *why = "it is longer than 64 MiB";
    else if (!(text = malloc((size_t)facts.st_size + 1))) *why = "memory is out";
    else if ((*length = fread(text, 1, (size_t)facts.st_size, file), ferror(file)))
        *why = strerror(errno);
    if (file) fclose(file);
    else if (opened >= 0) close(opened);
    if (*why) {
        free(text);
        text = NULL;
    }
    return text;
}

/* The file that the environment variable `name` names, the same on all processes; NULL if there is
 * none, which is told if it was named. Collective. */
static char *shared_file(const char *name, size_t *length) {
    const char *path = ct_setting(name), *why = NULL;
    if (!path) return NULL;
    char *mine = contents(path, length, &why), *text = ct_share(MPI_COMM_WORLD, mine, length);
    free(mine);
    if (!text) ct_log(0, "%s=%s: %s; %s", name, path, why ? why : "memory is out", leave);
    return text;
}

/* The largest of all processes' values. */
static int most(int value) {
    int found;
    if (PMPI(Allreduce)(&value, &found, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS) return 1;
    return found;
}

/* ---- the table ---- */

/* Why a table that could be read does not hold here, written to `why`; 1 if so. */
static int refuses(const ct_table_t *t, ct_why_t *why) {
    char name[64], release[64];
    const char *variable = ct_table_overruled(t, environ);
    ct_library(name, release, sizeof name);
    if (strcmp(name, t->library) || strcmp(release, t->release))
        return ct_refuse(why, "it is for %.40s %.40s, and this is %s %s", t->library, t->release, name,
                         release);
    if (!variable) return 0;
    int shown = (int)strcspn(variable, "=");
    return ct_refuse(why, "%.*s is set, and the user's settings win", shown < 80 ? shown : 80, variable);
}

static unsigned collectives_of(const ct_table_t *t) {
    unsigned found = 0;
    for (int i = 0; i < t->n_parts; i++) found |= 1u << t->parts[i].collective;
    return found;
}

static void load_table(void) {
    const char *path = ct_setting("COLLTUNE_TABLE");
    ct_why_t why;
    size_t length = 0;
    char *text = shared_file("COLLTUNE_TABLE", &length);
    if (!text) return;
    ct_table_t *read = ct_table_read(text, length, &why);
    int refused = !read || refuses(read, &why);
    if (most(refused)) {
        if (!refused) ct_refuse(&why, "another process cannot use it, or has settings");
        ct_log(0, "COLLTUNE_TABLE=%s: %s; %s", path, why.text, leave);
        ct_table_free(read);
        return;
    }
    if (read->n_unknown)
        ct_log(0, "COLLTUNE_TABLE=%s: %d configurations cannot be run, the first is %s; there %s",
               path, read->n_unknown, read->unknown.text, leave);
    table = read;
    ct_engage(CT_BY_TABLE, collectives_of(table));
    ct_log(1, "COLLTUNE_TABLE=%s: %d configurations, %d communicators' rules", path,
           table->n_configurations, table->n_parts);
}

/* What holds on c, once for all its calls. */
static void settle(ct_comm_t *c) {
    c->has_decisions = 1;
    if (!table) return;
    if (ct_table_has_layout(table, c->size) && ct_spread(c) != MPI_SUCCESS) return;
    for (int i = 0; i < CT_COLLECTIVES; i++)
        c->decisions[i] = ct_table_part(table, (ct_collective_t)i, c);
}

/* ---- the rules ---- */

static void load_rules(void) {
    ct_why_t why;
    size_t length = 0;
    char *text = shared_file("COLLTUNE_RULES", &length);
    if (!text) return;
    /* they hold on all processes or on none */
    int failed = ct_rules_read(text, length, &why);
    if (most(failed)) {
        if (!failed) ct_refuse(&why, "memory is out");
        int has_line = !strncmp(why.text, "line ", 5);
        ct_log(0, "%s:%s%s; %s", ct_setting("COLLTUNE_RULES"), has_line ? "" : " ",
               why.text + (has_line ? 5 : 0), leave);
        ct_rules_clear();
    }
    free(text);
}

/* ---- both ---- */

void ct_load_decisions(void) {
    load_table();
    load_rules();
}

void ct_end_decisions(void) {
    ct_engage(CT_BY_TABLE, 0);
    ct_rules_end();
    ct_table_free(table);
    table = NULL;
}

/* Kept apart from what is done at every call, which needs no stack. */
__attribute__((noinline)) static const ct_configuration_t *
decide_by_rules_or_first(ct_comm_t *c, const ct_call_t *call) {
    const ct_configuration_t *chosen;
    if (ct_rules_hold(call->collective) && ct_rules_decide(c, call, &chosen)) return chosen;
    if (!c->has_decisions) settle(c);
    const ct_part_t *part = c->decisions[call->collective];
    return part ? ct_choice(part, call->msize) : NULL;
}

const ct_configuration_t *ct_decide(ct_comm_t *c, const ct_call_t *call) {
    const ct_part_t *part = c->decisions[call->collective];
    if (ct_rules_hold(call->collective)) {
        const ct_part_t *ruled = ct_rules_part(c, call->collective);
        if (!ruled) return decide_by_rules_or_first(c, call);
        const ct_configuration_t *chosen = ct_choice(ruled, call->msize);
        if (chosen != &ct_by_table) return chosen;
    }
    return part ? ct_choice(part, call->msize) : decide_by_rules_or_first(c, call);
}
