/* The rules that are being written: a list of named entries, and where each collective begins; and
 * the language of rules files, the one way in:
 *
 *   colltune-rules 1
 *   # a comment
 *   value NAME NUMBER
 *   configuration NAME ID [VARIABLE=VALUE ...]
 *   rule NAME PARAMETER OPERATOR NUMBER-OR-VALUE then TARGET else TARGET
 *   start COLLECTIVE TARGET
 *
 * Words are parted by blanks. Lines may stand in any order. */
#include "rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 9 };
/* Chains of rules are followed by functions that call themselves. */
enum { MOST_ENTRIES = 2000 };

const char *const ct_parameter_names[COLLTUNE_PARAMETERS] = {
    "msize", "size",  "power_of_two", "nodes",       "ppn",        "root",
    "root_is_zero", "count", "type_size", "type_extent", "collective",
};
const char *const ct_operator_names[COLLTUNE_OPERATORS] = {"LT", "LTEQ", "GT", "GTEQ", "EQ", "NEQ"};

/* ---- entries ---- */

const ct_entry_t *ct_draft_find(const ct_draft_t *draft, const char *name) {
    for (int i = 0; i < draft->n; i++)
        if (!strcmp(draft->entries[i].name, name)) return &draft->entries[i];
    return NULL;
}

/* Add or replace; `entry` with its `text` is copied. */
static int put(ct_draft_t *draft, const ct_entry_t *entry, ct_why_t *why) {
    const ct_entry_t *old = ct_draft_find(draft, entry->name);
    int at = old ? (int)(old - draft->entries) : draft->n;
    char *text = NULL;
    if (old && old->kind != entry->kind)
        return ct_refuse(why, "%s is a %s already", entry->name,
                         old->kind == CT_A_RULE ? "rule" : "configuration");
    if (!old && draft->n == MOST_ENTRIES)
        return ct_refuse(why, "there are %d rules and configurations already", draft->n);
    if (entry->text && !(text = strdup(entry->text))) return ct_refuse(why, "memory is out");
    if (old) free(draft->entries[at].text);
    else {
        ct_entry_t *more = realloc(draft->entries, ((size_t)draft->n + 1) * sizeof *more);
        if (!more) free(text);
        if (!more) return ct_refuse(why, "memory is out");
        draft->entries = more;
        draft->n++;
    }
    draft->entries[at] = *entry;
    draft->entries[at].text = text;
    return 0;
}

int ct_draft_remove_rule(ct_draft_t *draft, const char *name) {
    const ct_entry_t *found = ct_draft_find(draft, name);
    if (!found || found->kind != CT_A_RULE) return 1;
    int at = (int)(found - draft->entries);
    draft->n--;
    memmove(&draft->entries[at], &draft->entries[at + 1],
            (size_t)(draft->n - at) * sizeof *draft->entries);
    return 0;
}

int ct_draft_start(ct_draft_t *draft, const char *collective, const char *target, ct_why_t *why) {
    int all = !strcmp(collective, "all");
    ct_collective_t named = ct_collective_named(collective);
    if (!all && named == CT_NONE)
        return ct_refuse(why, "%.60s is no collective, and not all", collective);
    for (int c = 0; c < CT_COLLECTIVES; c++)
        if (all || (int)named == c) snprintf(draft->starts[c], CT_NAME_LENGTH, "%s", target);
    return 0;
}

void ct_draft_clear(ct_draft_t *draft) {
    for (int i = 0; i < draft->n; i++) free(draft->entries[i].text);
    free(draft->entries);
    memset(draft, 0, sizeof *draft);
}

/* ---- reading ---- */

static char *next_word(char **rest) {
    char *word = *rest + strspn(*rest, " \t\r");
    *rest = word + strcspn(word, " \t\r");
    if (**rest) *(*rest)++ = '\0';
    return *word ? word : NULL;
}

static int is_name(const char *word) {
    size_t n = strlen(word);
    if (!isalpha((unsigned char)*word) || n >= CT_NAME_LENGTH) return 0;
    for (const char *c = word; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-') return 0;
    return 1;
}

/* A name for something new; the two ends are no names. */
static int is_new_name(const char *word) {
    return is_name(word) && strcmp(word, "library") && strcmp(word, "table");
}

static int is_number(const char *word, long *number) {
    char *end;
    errno = 0;
    *number = strtol(word, &end, 10);
    return (isdigit((unsigned char)*word) || *word == '-') && end != word && !*end && !errno;
}

static int index_of(const char *word, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], word)) return i;
    return -1;
}

static int read_value(char *rest, ct_why_t *why) {
    char *name = next_word(&rest), *number = next_word(&rest);
    long value;
    if (!name || !is_name(name) || !number || !is_number(number, &value) || next_word(&rest))
        return ct_refuse(why, "it is not: value NAME NUMBER");
    return ct_value_set(name, value) ? ct_refuse(why, "memory is out") : 0;
}

static int read_configuration(ct_draft_t *draft, char *rest, ct_why_t *why) {
    char *name = next_word(&rest);
    ct_why_t reason;
    size_t n = strlen(rest += strspn(rest, " \t\r"));
    while (n && strchr(" \t\r", rest[n - 1])) rest[--n] = '\0';
    if (!name || !is_new_name(name) || !n)
        return ct_refuse(why, "it is not: configuration NAME ID [VARIABLE=VALUE ...]");
    ct_entry_t entry = {.kind = CT_A_CONFIGURATION, .text = rest};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    entry.configuration = ct_configuration(rest, &reason);
    if (entry.configuration) return put(draft, &entry, why);
    return ct_refuse(why, "%.60s: %s", rest, reason.text);
}

/* What a rule compares with; 1 if it is nothing. */
static int read_operand(const char *word, ct_entry_t *rule) {
    if (is_number(word, &rule->value)) return 0;
    if (rule->parameter == COLLTUNE_COLLECTIVE) {
        rule->value = ct_collective_named(word);
        return rule->value == CT_NONE;
    }
    snprintf(rule->named, sizeof rule->named, "%s", word);
    return !is_name(word);
}

static int read_rule(ct_draft_t *draft, char *rest, ct_why_t *why) {
    char *words[WORDS];
    int n = 0;
    while (n < WORDS && (words[n] = next_word(&rest))) n++;
    if (n != WORDS - 1 || !is_new_name(words[0]) || strcmp(words[4], "then") ||
        strcmp(words[6], "else") || !is_name(words[5]) || !is_name(words[7]))
        return ct_refuse(why, "it is not: rule NAME PARAMETER OPERATOR VALUE then TARGET else TARGET");
    int parameter = index_of(words[1], ct_parameter_names, COLLTUNE_PARAMETERS);
    int is = index_of(words[2], ct_operator_names, COLLTUNE_OPERATORS);
    if (parameter < 0) return ct_refuse(why, "there is no parameter %.60s", words[1]);
    if (is < 0) return ct_refuse(why, "%.60s is none of LT, LTEQ, GT, GTEQ, EQ, NEQ", words[2]);
    ct_entry_t rule = {.kind = CT_A_RULE, .parameter = (colltune_parameter_t)parameter,
                       .is = (colltune_operator_t)is};
    if (read_operand(words[3], &rule))
        return ct_refuse(why, "%.60s is nothing to compare %s with", words[3], words[1]);
    snprintf(rule.name, sizeof rule.name, "%s", words[0]);
    snprintf(rule.if_true, sizeof rule.if_true, "%s", words[5]);
    snprintf(rule.if_false, sizeof rule.if_false, "%s", words[7]);
    return put(draft, &rule, why);
}

static int read_start(ct_draft_t *draft, char *rest, ct_why_t *why) {
    char *collective = next_word(&rest), *target = next_word(&rest);
    if (target && is_name(target) && !next_word(&rest))
        return ct_draft_start(draft, collective, target, why);
    return ct_refuse(why, "it is not: start COLLECTIVE TARGET");
}

static int read_line(ct_draft_t *draft, char *line, ct_why_t *why) {
    char *word = next_word(&line);
    if (!word || *word == '#') return 0;
    if (!strcmp(word, "value")) return read_value(line, why);
    if (!strcmp(word, "configuration")) return read_configuration(draft, line, why);
    if (!strcmp(word, "rule")) return read_rule(draft, line, why);
    if (!strcmp(word, "start")) return read_start(draft, line, why);
    return ct_refuse(why, "%.60s: lines begin with value, configuration, rule or start", word);
}

static int read_version(char *line, ct_why_t *why) {
    char *head = next_word(&line), *version = next_word(&line);
    if (head && !strcmp(head, "colltune-rules") && version && !strcmp(version, "1") &&
        !next_word(&line))
        return 0;
    return ct_refuse(why, "it does not begin with colltune-rules 1");
}

int ct_draft_read(ct_draft_t *draft, const char *text, size_t length, int whole, ct_why_t *why) {
    ct_why_t reason;
    char *copy = strlen(text) == length ? strdup(text) : NULL, *line = copy;
    int failed = copy ? 0 : ct_refuse(why, "it is no text");
    for (int number = 1; line && !failed; number++) {
        char *end = strchr(line, '\n');
        if (end) *end++ = '\0';
        failed = whole && number == 1 ? read_version(line, &reason) : read_line(draft, line, &reason);
        if (failed) ct_refuse(why, "line %d: %s", number, reason.text);
        line = end;
    }
    free(copy);
    return failed;
}

/* ---- writing ---- */

static void write_value(const char *name, long value, void *file) {
    fprintf(file, "value %s %ld\n", name, value);
}

static void write_entry(FILE *file, const ct_entry_t *e) {
    if (e->kind == CT_A_CONFIGURATION) {
        fprintf(file, "configuration %s %s\n", e->name, e->text);
        return;
    }
    fprintf(file, "rule %s %s %s ", e->name, ct_parameter_names[e->parameter], ct_operator_names[e->is]);
    if (*e->named) fprintf(file, "%s", e->named);
    else fprintf(file, "%ld", e->value);
    fprintf(file, " then %s else %s\n", e->if_true, e->if_false);
}

char *ct_draft_text(const ct_draft_t *draft) {
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    if (!file) return NULL;
    fprintf(file, "colltune-rules 1\n");
    ct_values_each(write_value, file);
    for (int i = 0; i < draft->n; i++) write_entry(file, &draft->entries[i]);
    for (int c = 0; c < CT_COLLECTIVES; c++)
        if (*draft->starts[c])
            fprintf(file, "start %s %s\n", ct_collective_names[c], draft->starts[c]);
    int failed = ferror(file);
    if (!fclose(file) && !failed) return text;
    free(text);
    return NULL;
}
