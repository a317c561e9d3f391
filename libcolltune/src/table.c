/* Reads decision tables, version 1: as a whole or not at all.
 *
 *   colltune-table 1
 *   library NAME RELEASE
 *   shape NODESxPPN
 *   bundle sha256:...              may be missing
 *   unless PATTERN, but PATTERN    any number of times
 *   configuration NUMBER ID [VARIABLE=VALUE ...]      numbered from 1 on
 *   rules COLLECTIVE size N        or layout NODESxPPN, followed by steps:
 *   BYTES NUMBER                   from so many bytes on; 0: the library's own decision
 *   end CHECKSUM                   FNV-1a, 64 bits, of all bytes before this line */
#include "table.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "colltune-table ";
static const char supported[] = "colltune-table 1";
enum { SUM_DIGITS = 16, END_LENGTH = 4 + SUM_DIGITS + 1, SHOWN = 60, MOST = 16384 };

/* What is being read. */
typedef struct {
    ct_table_t *table;
    int line;
    const char *broken; /* why it is no table; NULL: nothing is wrong so far */
    int has_shape;
} reader_t;

static void give_up(reader_t *r, const char *why) {
    if (!r->broken) r->broken = why;
}

/* ---- words and numbers ---- */

/* Cut the next word off; words are parted by one blank. NULL at the end. */
static char *cut(char **rest) {
    char *word = *rest;
    if (!word) return NULL;
    *rest = strchr(word, ' ');
    if (*rest) *(*rest)++ = '\0';
    return word;
}

/* A plain number from 0 to `most`, without leading zeros; 1 if it is none. */
static int number_of(const char *word, unsigned long long most, unsigned long long *number) {
    if (!word || !*word || (word[0] == '0' && word[1])) return 1;
    for (*number = 0; *word; word++) {
        unsigned digit = (unsigned)(*word - '0');
        if (digit > 9 || *number > (most - digit) / 10) return 1;
        *number = *number * 10 + digit;
    }
    return 0;
}

/* NODESxPPN; 1 if it is none. */
static int layout_of(char *word, int *nodes, int *ppn) {
    unsigned long long n, p;
    char *times = word ? strchr(word, 'x') : NULL;
    if (!times) return 1;
    *times = '\0';
    if (number_of(word, INT_MAX, &n) || number_of(times + 1, INT_MAX, &p)) return 1;
    if (!n || !p || n * p > INT_MAX) return 1;
    *nodes = (int)n;
    *ppn = (int)p;
    return 0;
}

/* Room for one more item, of a power of two in all; NULL, and what there was stays, if there is
 * none. */
static void *grown(reader_t *r, void *items, int n, size_t size) {
    if (n & (n - 1)) return items;
    void *more = n < MOST ? realloc(items, (n ? 2 * (size_t)n : 1) * size) : NULL;
    if (!more) give_up(r, n < MOST ? "memory is out" : "there are more than 16384 of these");
    return more;
}

/* ---- lines ---- */

static void read_library(reader_t *r, char *rest) {
    char *name = cut(&rest), *release = cut(&rest);
    if (r->line != 2 || !name || !*name || !release || !*release || rest)
        give_up(r, "the second line must be: library NAME RELEASE");
    r->table->library = name;
    r->table->release = release;
}

static void read_shape(reader_t *r, char *rest) {
    int nodes, ppn;
    if (r->has_shape++ || layout_of(rest, &nodes, &ppn)) give_up(r, "it is no shape such as 4x2");
}

static void read_bundle(reader_t *r, char *rest) {
    if (!rest || strncmp(rest, "sha256:", 7)) give_up(r, "it is no bundle's id");
}

static void read_pattern(reader_t *r, char *rest, const char ***patterns, int *n) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*?";
    if (!rest || !*rest || rest[strspn(rest, allowed)]) {
        give_up(r, "it is no pattern of a variable's name");
        return;
    }
    const char **more = grown(r, *patterns, *n, sizeof *more);
    if (!more) return;
    *patterns = more;
    more[(*n)++] = rest;
}

/* One that cannot be run is the library's own decision: other parts of the table still hold. */
static const ct_configuration_t *known(ct_table_t *table, const char *text) {
    ct_why_t why;
    size_t id = strcspn(text, " ");
    const ct_configuration_t *found = ct_configuration(text, &why);
    if (!found && !table->n_unknown++)
        ct_refuse(&table->unknown, "%.*s: %s", (int)(id < SHOWN ? id : SHOWN), text, why.text);
    return found;
}

static void read_configuration(reader_t *r, char *rest) {
    ct_table_t *t = r->table;
    unsigned long long number;
    if (number_of(cut(&rest), INT_MAX, &number) || !rest || !*rest ||
        number != (unsigned long long)t->n_configurations + 1) {
        give_up(r, "configurations are numbered from 1 on, each with its id");
        return;
    }
    const ct_configuration_t **more = grown(r, t->configurations, t->n_configurations, sizeof *more);
    if (!more) return;
    t->configurations = more;
    more[t->n_configurations++] = known(t, rest);
}

static void add_part(reader_t *r, const ct_part_t *part) {
    ct_table_t *t = r->table;
    for (int i = 0; i < t->n_parts; i++) {
        const ct_part_t *other = &t->parts[i];
        if (other->collective == part->collective && other->size == part->size &&
            other->nodes == part->nodes)
            give_up(r, "these communicators have rules already");
    }
    ct_part_t *more = grown(r, t->parts, t->n_parts, sizeof *more);
    if (!more) return;
    t->parts = more;
    more[t->n_parts++] = *part;
}

static void close_part(reader_t *r) {
    if (r->table->n_parts && !r->table->parts[r->table->n_parts - 1].n)
        give_up(r, "the rules before have no step");
}

static void read_rules(reader_t *r, char *rest) {
    ct_part_t part = {0};
    unsigned long long size = 0;
    char *collective = cut(&rest), *how = cut(&rest);
    close_part(r);
    part.collective = collective ? ct_collective_named(collective) : CT_NONE;
    if (part.collective == CT_NONE || !how || !rest) {
        give_up(r, "it is not: rules COLLECTIVE size N, or layout NODESxPPN");
    } else if (!strcmp(how, "layout") && !layout_of(rest, &part.nodes, &part.ppn)) {
        part.size = part.nodes * part.ppn;
        add_part(r, &part);
    } else if (!strcmp(how, "size") && !number_of(rest, INT_MAX, &size)) {
        part.size = (int)size;
        add_part(r, &part);
    } else {
        give_up(r, "it is no size such as 8 and no layout such as 4x2");
    }
}

static void read_step(reader_t *r, char *line) {
    ct_table_t *t = r->table;
    ct_part_t *part = t->n_parts ? &t->parts[t->n_parts - 1] : NULL;
    unsigned long long from, number;
    if (!part || number_of(cut(&line), INT64_MAX, &from) || number_of(line, INT_MAX, &number) ||
        number > (unsigned long long)t->n_configurations) {
        give_up(r, "it is no step: BYTES and a configuration of the table");
        return;
    }
    if (part->n ? from <= part->steps[part->n - 1].from : from) {
        give_up(r, "steps begin at 0 bytes and ascend");
        return;
    }
    const ct_configuration_t *choice = number ? t->configurations[number - 1] : NULL;
    ct_step_t *more = grown(r, part->steps, part->n, sizeof *more);
    if (choice && choice->collective != part->collective)
        give_up(r, "its configuration is one of another collective");
    if (!more) return;
    part->steps = more;
    part->last = &more[part->n];
    more[part->n++] = (ct_step_t){from, choice && choice->kind != CT_LIBRARY ? choice : NULL};
}

static void read_line(reader_t *r, char *line) {
    ct_table_t *t = r->table;
    char *rest = line, *word;
    if (*line >= '0' && *line <= '9') {
        read_step(r, line);
        return;
    }
    word = cut(&rest);
    if (!strcmp(word, "library")) read_library(r, rest);
    else if (!strcmp(word, "shape")) read_shape(r, rest);
    else if (!strcmp(word, "bundle")) read_bundle(r, rest);
    else if (!strcmp(word, "unless")) read_pattern(r, rest, &t->unless, &t->n_unless);
    else if (!strcmp(word, "but")) read_pattern(r, rest, &t->but, &t->n_but);
    else if (!strcmp(word, "configuration")) read_configuration(r, rest);
    else if (!strcmp(word, "rules")) read_rules(r, rest);
    else give_up(r, "it is no line of a table");
}

/* ---- the whole ---- */

static uint64_t checksum(const char *bytes, size_t length) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) sum = (sum ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* Why the bytes are no whole table of this version, or NULL; `body` is the length before the end. */
static const char *damage(const char *text, size_t length, size_t *body) {
    char expected[END_LENGTH + 1];
    if (strncmp(text, head, sizeof head - 1)) return "it is no decision table";
    if (strncmp(text, supported, sizeof supported - 1) || text[sizeof supported - 1] != '\n')
        return "it has a version that this library does not know";
    if (strlen(text) != length) return "it is damaged: it has NUL bytes";
    if (length <= END_LENGTH || text[length - END_LENGTH - 1] != '\n' || text[length - 1] != '\n' ||
        strncmp(text + length - END_LENGTH, "end ", 4))
        return "it is damaged: no checksum ends it";
    *body = length - END_LENGTH;
    snprintf(expected, sizeof expected, "end %016llx\n", (unsigned long long)checksum(text, *body));
    return strcmp(text + *body, expected) ? "it is damaged: the checksum is another one" : NULL;
}

static void read_lines(reader_t *r, size_t body) {
    char *at = r->table->text, *end;
    at[body] = '\0';
    for (r->line = 1; !r->broken && (end = strchr(at, '\n')); r->line++) {
        *end = '\0';
        if (r->line > 1) read_line(r, at);
        if (r->broken) return;
        at = end + 1;
    }
    close_part(r);
    if (!r->table->library || !r->has_shape) give_up(r, "library or shape is missing");
}

ct_table_t *ct_table_read(char *text, size_t length, ct_why_t *why) {
    reader_t r = {.table = calloc(1, sizeof *r.table)};
    size_t body = 0;
    const char *damaged = damage(text, length, &body);
    if (!r.table) {
        free(text);
        ct_refuse(why, "memory is out");
        return NULL;
    }
    r.table->text = text;
    if (!damaged) read_lines(&r, body);
    if (!damaged && !r.broken) return r.table;
    if (damaged) ct_refuse(why, "%s", damaged);
    else ct_refuse(why, "line %d: %s", r.line, r.broken);
    ct_table_free(r.table);
    return NULL;
}

void ct_table_free(ct_table_t *table) {
    if (!table) return;
    for (int i = 0; i < table->n_parts; i++) free(table->parts[i].steps);
    free(table->parts);
    free(table->configurations);
    free(table->unless);
    free(table->but);
    free(table->text);
    free(table);
}

/* ---- questions ---- */

const ct_part_t *ct_table_part(const ct_table_t *table, ct_collective_t collective,
                               const ct_comm_t *c) {
    const ct_part_t *found = NULL;
    for (int i = 0; i < table->n_parts; i++) {
        const ct_part_t *part = &table->parts[i];
        if (part->collective != collective || part->size != c->size) continue;
        if (!part->nodes) found = found ? found : part;
        else if (part->nodes == c->nodes && part->ppn == c->ppn) return part;
    }
    return found;
}

int ct_table_has_layout(const ct_table_t *table, int size) {
    for (int i = 0; i < table->n_parts; i++)
        if (table->parts[i].nodes && table->parts[i].size == size) return 1;
    return 0;
}

static int matches(const char *name, const char *const *patterns, int n) {
    for (int i = 0; i < n; i++)
        if (!fnmatch(patterns[i], name, 0)) return 1;
    return 0;
}

const char *ct_table_overruled(const ct_table_t *table, char *const *environment) {
    for (; *environment; environment++) {
        char *name = strndup(*environment, strcspn(*environment, "="));
        int decides = name && matches(name, table->unless, table->n_unless) &&
                      !matches(name, table->but, table->n_but);
        free(name);
        if (decides) return *environment;
    }
    return NULL;
}
