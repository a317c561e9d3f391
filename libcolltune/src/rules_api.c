/* The rule base as programs change it (colltune_rules.h), and as the file of rules begins it. */
#include "rules.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ct_draft_t draft;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the draft, and of publishing it */
static _Thread_local ct_why_t why;

/* ---- writing the draft ---- */

/* Lines are the one way in: what the functions write and what files say is checked alike. */
static int read_lines(const char *lines) {
    pthread_mutex_lock(&lock);
    int failed = ct_draft_read(&draft, lines, strlen(lines), 0, &why);
    pthread_mutex_unlock(&lock);
    return failed;
}

/* A line break would begin another line. */
static int is_word(const char *text) {
    return text && *text && !strpbrk(text, " \t\r\n");
}

static int refuse(const char *what) { return ct_refuse(&why, "%s", what); }

static int api_clear(void) {
    pthread_mutex_lock(&lock);
    ct_draft_clear(&draft);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int api_read(const char *lines) { return lines ? read_lines(lines) : refuse("no lines"); }

static int write_rule(const char *name, colltune_parameter_t parameter, colltune_operator_t is,
                      const char *operand, const char *if_true, const char *if_false) {
    char line[6 * CT_NAME_LENGTH];
    if ((unsigned)parameter >= COLLTUNE_PARAMETERS) return refuse("there is no such parameter");
    if ((unsigned)is >= COLLTUNE_OPERATORS) return refuse("there is no such operator");
    if (!is_word(name) || !is_word(operand) || !is_word(if_true) || !is_word(if_false))
        return refuse("a name is missing or has blanks");
    int n = snprintf(line, sizeof line, "rule %s %s %s %s then %s else %s", name,
                     ct_parameter_names[parameter], ct_operator_names[is], operand, if_true,
                     if_false);
    return n < (int)sizeof line ? read_lines(line) : refuse("a name is longer than 63 characters");
}

static int api_rule(const char *name, colltune_parameter_t parameter, colltune_operator_t is,
                    long value, const char *if_true, const char *if_false) {
    char operand[32];
    snprintf(operand, sizeof operand, "%ld", value);
    return write_rule(name, parameter, is, operand, if_true, if_false);
}

static int api_rule_named(const char *name, colltune_parameter_t parameter, colltune_operator_t is,
                          const char *value, const char *if_true, const char *if_false) {
    if (parameter == COLLTUNE_COLLECTIVE) return refuse("compare collectives by their number");
    return write_rule(name, parameter, is, value, if_true, if_false);
}

static int api_remove_rule(const char *name) {
    pthread_mutex_lock(&lock);
    int failed = !name || ct_draft_remove_rule(&draft, name);
    pthread_mutex_unlock(&lock);
    return failed ? refuse("there is no rule of that name") : 0;
}

static int api_configuration(const char *name, const char *id) {
    static const char format[] = "configuration %s %s";
    if (!is_word(name) || !id || strchr(id, '\n')) return refuse("no name, or no id in one line");
    size_t length = strlen(format) + strlen(name) + strlen(id);
    char *line = malloc(length);
    if (!line) return refuse("memory is out");
    snprintf(line, length, format, name, id);
    int failed = read_lines(line);
    free(line);
    return failed;
}

static int api_start(const char *collective, const char *target) {
    char line[3 * CT_NAME_LENGTH];
    if (!is_word(collective) || (target && !is_word(target))) return refuse("a name has blanks");
    if (target) {
        int n = snprintf(line, sizeof line, "start %s %s", collective, target);
        return n < (int)sizeof line ? read_lines(line) : refuse("a name is too long");
    }
    pthread_mutex_lock(&lock);
    int failed = ct_draft_start(&draft, collective, "", &why);
    pthread_mutex_unlock(&lock);
    return failed;
}

static long api_collective(const char *name) { return name ? ct_collective_named(name) : CT_NONE; }

/* ---- letting it hold ---- */

static int api_commit(void) {
    pthread_mutex_lock(&lock);
    ct_program_t *program = ct_program_of(&draft, &why);
    if (program) ct_program_publish(program);
    pthread_mutex_unlock(&lock);
    return !program;
}

static ct_program_t *program_of_text(const char *text, ct_draft_t *read) {
    memset(read, 0, sizeof *read);
    if (ct_draft_read(read, text, strlen(text), 1, &why)) return NULL;
    return ct_program_of(read, &why);
}

/* All processes are here: none of them is deciding on comm. */
static int api_commit_all(MPI_Comm comm) {
    int rank, failed;
    char *text = NULL;
    ct_draft_t read = {0};
    if (!ct_world_size || comm == MPI_COMM_NULL || PMPI(Comm_rank)(comm, &rank) != MPI_SUCCESS)
        return refuse("there is no communicator");
    pthread_mutex_lock(&lock);
    if (!rank) text = ct_draft_text(&draft);
    pthread_mutex_unlock(&lock);
    size_t length = text ? strlen(text) : 0;
    char *shared = ct_share(comm, text, &length);
    free(text);
    if (!shared) return refuse("memory is out");
    ct_program_t *program = program_of_text(shared, &read);
    failed = !program;
    free(shared);
    if (program) refuse("another process has no memory, or no such algorithm");
    if (PMPI(Allreduce)(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS) failed = 1;
    if (failed) {
        ct_program_free(program);
        ct_draft_clear(&read);
        return 1;
    }
    pthread_mutex_lock(&lock);
    ct_draft_clear(&draft);
    draft = read;
    ct_program_publish(program);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- named values ---- */

static int api_set(const char *name, long value) {
    char line[2 * CT_NAME_LENGTH];
    if (!is_word(name)) return refuse("a value's name is missing or has blanks");
    int n = snprintf(line, sizeof line, "value %s %ld", name, value);
    return n < (int)sizeof line ? read_lines(line) : refuse("a name is too long");
}

static int api_get(const char *name, long *value) {
    const long *found = name ? ct_value(name) : NULL;
    if (!found) return refuse("there is no value of that name");
    *value = __atomic_load_n(found, __ATOMIC_RELAXED);
    return 0;
}

static int api_set_all(MPI_Comm comm, const char *name, long value) {
    int failed;
    if (!ct_world_size || comm == MPI_COMM_NULL || PMPI(Bcast)(&value, 1, MPI_LONG, 0, comm) != MPI_SUCCESS)
        return refuse("MPI_Bcast failed");
    failed = !is_word(name) || strlen(name) >= CT_NAME_LENGTH;
    if (!failed && !ct_value(name)) failed = api_set(name, value);
    if (PMPI(Allreduce)(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS) failed = 1;
    return failed ? refuse("not all processes can set it") : api_set(name, value);
}

static int api_keyval(const char *name, int *keyval) {
    pthread_mutex_lock(&lock);
    int failed = !name || ct_value_keyval(name, keyval);
    pthread_mutex_unlock(&lock);
    return failed ? refuse("there is no value of that name, or MPI is not running") : 0;
}

static const char *api_error(void) { return why.text; }

static const colltune_rules_t functions = {
    .clear = api_clear,         .read = api_read,
    .rule = api_rule,           .rule_named = api_rule_named,
    .remove_rule = api_remove_rule, .configuration = api_configuration,
    .start = api_start,         .collective = api_collective,
    .commit = api_commit,       .commit_all = api_commit_all,
    .set = api_set,             .get = api_get,
    .set_all = api_set_all,     .keyval = api_keyval,
    .error = api_error,
};

CT_PUBLIC const colltune_rules_t *colltune_rules_1(void);
CT_PUBLIC const colltune_rules_t *colltune_rules_1(void) { return &functions; }

/* ---- the file ---- */

int ct_rules_read(const char *text, size_t length, ct_why_t *reason) {
    pthread_mutex_lock(&lock);
    int failed = ct_draft_read(&draft, text, length, 1, reason);
    ct_program_t *program = failed ? NULL : ct_program_of(&draft, reason);
    if (program) ct_program_publish(program);
    pthread_mutex_unlock(&lock);
    return !program;
}

void ct_rules_clear(void) {
    pthread_mutex_lock(&lock);
    ct_draft_clear(&draft);
    ct_program_publish(NULL);
    pthread_mutex_unlock(&lock);
}

void ct_rules_end(void) {
    ct_rules_clear();
    ct_values_end();
}
