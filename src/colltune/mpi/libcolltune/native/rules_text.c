/* The language of rules files:
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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 9, REASON = 256 };

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

static int read_value(char *rest, char *why, size_t length) {
    char *name = next_word(&rest), *number = next_word(&rest);
    long value;
    if (!name || !is_name(name) || !number || !is_number(number, &value) || next_word(&rest)) {
        snprintf(why, length, "it is not: value NAME NUMBER");
        return 1;
    }
    if (!ct_value_set(name, value)) return 0;
    snprintf(why, length, "memory is out");
    return 1;
}

static int read_configuration(ct_draft_t *draft, char *rest, char *why, size_t length) {
    char reason[REASON / 2], *name = next_word(&rest);
    ct_entry_t entry = {.kind = CT_A_CONFIGURATION};
    size_t n = strlen(rest += strspn(rest, " \t\r"));
    while (n && strchr(" \t\r", rest[n - 1])) rest[--n] = '\0';
    if (!name || !is_new_name(name) || !n) {
        snprintf(why, length, "it is not: configuration NAME ID [VARIABLE=VALUE ...]");
        return 1;
    }
    snprintf(entry.name, sizeof entry.name, "%s", name);
    entry.text = rest;
    entry.configuration = ct_configuration(rest, reason, sizeof reason);
    if (entry.configuration) return ct_draft_put(draft, &entry, why, length);
    snprintf(why, length, "%.60s: %s", rest, reason);
    return 1;
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

static int read_rule(ct_draft_t *draft, char *rest, char *why, size_t length) {
    char *words[WORDS];
    int n = 0, parameter, is;
    ct_entry_t rule = {.kind = CT_A_RULE};
    while (n < WORDS && (words[n] = next_word(&rest))) n++;
    if (n != WORDS - 1 || !is_new_name(words[0]) || strcmp(words[4], "then") ||
        strcmp(words[6], "else") || !is_name(words[5]) || !is_name(words[7])) {
        snprintf(why, length, "it is not: rule NAME PARAMETER OPERATOR VALUE then TARGET else"
                              " TARGET");
        return 1;
    }
    if ((parameter = index_of(words[1], ct_parameter_names, COLLTUNE_PARAMETERS)) < 0) {
        snprintf(why, length, "there is no parameter %.60s", words[1]);
        return 1;
    }
    if ((is = index_of(words[2], ct_operator_names, COLLTUNE_OPERATORS)) < 0) {
        snprintf(why, length, "%.60s is none of LT, LTEQ, GT, GTEQ, EQ, NEQ", words[2]);
        return 1;
    }
    rule.parameter = (colltune_parameter_t)parameter;
    rule.is = (colltune_operator_t)is;
    if (read_operand(words[3], &rule)) {
        snprintf(why, length, "%.60s is nothing to compare %s with", words[3], words[1]);
        return 1;
    }
    snprintf(rule.name, sizeof rule.name, "%s", words[0]);
    snprintf(rule.if_true, sizeof rule.if_true, "%s", words[5]);
    snprintf(rule.if_false, sizeof rule.if_false, "%s", words[7]);
    return ct_draft_put(draft, &rule, why, length);
}

static int read_start(ct_draft_t *draft, char *rest, char *why, size_t length) {
    char *collective = next_word(&rest), *target = next_word(&rest);
    if (target && is_name(target) && !next_word(&rest))
        return ct_draft_start(draft, collective, target, why, length);
    snprintf(why, length, "it is not: start COLLECTIVE TARGET");
    return 1;
}

static int read_line(ct_draft_t *draft, char *line, char *why, size_t length) {
    char *word = next_word(&line);
    if (!word || *word == '#') return 0;
    if (!strcmp(word, "value")) return read_value(line, why, length);
    if (!strcmp(word, "configuration")) return read_configuration(draft, line, why, length);
    if (!strcmp(word, "rule")) return read_rule(draft, line, why, length);
    if (!strcmp(word, "start")) return read_start(draft, line, why, length);
    snprintf(why, length, "%.60s: lines begin with value, configuration, rule or start", word);
    return 1;
}

static int is_version(char *line) {
    char *head = next_word(&line), *version = next_word(&line);
    return head && !strcmp(head, "colltune-rules") && version && !strcmp(version, "1") &&
           !next_word(&line);
}

int ct_draft_read(ct_draft_t *draft, const char *text, size_t text_length, int whole, char *why,
                  size_t length) {
    char reason[REASON] = "", *copy = strlen(text) == text_length ? strdup(text) : NULL;
    char *line = copy;
    int number = 1, failed = !copy;
    if (failed) snprintf(why, length, "it is no text");
    for (char *end; line && !failed; line = end, number++) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        if (whole && number == 1) {
            failed = !is_version(line);
            if (failed) snprintf(reason, sizeof reason, "it does not begin with colltune-rules 1");
        } else failed = read_line(draft, line, reason, sizeof reason);
        if (failed) snprintf(why, length, "line %d: %s", number, reason);
    }
    free(copy);
    return failed;
}

/* ---- writing ---- */

typedef struct {
    char *text;
    size_t n, room;
    int failed;
} writer_t;

static void add(writer_t *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(writer_t *w, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    size_t more = (size_t)vsnprintf(NULL, 0, format, again) + 1;
    va_end(again);
    if (w->n + more > w->room) {
        size_t room = 2 * (w->n + more);
        char *text = realloc(w->text, room);
        if (!text) w->failed = 1;
        else {
            w->text = text;
            w->room = room;
        }
    }
    if (!w->failed) w->n += (size_t)vsnprintf(w->text + w->n, w->room - w->n, format, arguments);
    va_end(arguments);
}

static void add_value(const char *name, long value, void *extra) {
    add(extra, "value %s %ld\n", name, value);
}

static void add_entry(writer_t *w, const ct_entry_t *e) {
    if (e->kind == CT_A_CONFIGURATION) {
        add(w, "configuration %s %s\n", e->name, e->text);
        return;
    }
    add(w, "rule %s %s %s ", e->name, ct_parameter_names[e->parameter], ct_operator_names[e->is]);
    if (*e->named) add(w, "%s", e->named);
    else add(w, "%ld", e->value);
    add(w, " then %s else %s\n", e->if_true, e->if_false);
}

char *ct_draft_text(const ct_draft_t *draft) {
    writer_t w = {0};
    add(&w, "colltune-rules 1\n");
    ct_values_each(add_value, &w);
    for (int i = 0; i < draft->n; i++) add_entry(&w, &draft->entries[i]);
    for (int c = 0; c < CT_COLLECTIVES; c++)
        if (*draft->starts[c]) add(&w, "start %s %s\n", ct_collective_names[c], draft->starts[c]);
    if (!w.failed) return w.text;
    free(w.text);
    return NULL;
}
