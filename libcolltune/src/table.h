/* Decision tables: what decide.c asks of table.c. */
#ifndef CT_TABLE_H
#define CT_TABLE_H

#include "ct.h"

/* From `from` bytes on; NULL: the MPI library by its own decision. */
typedef struct {
    size_t from;
    const ct_configuration_t *choice;
} ct_step_t;

/* The steps of one collective on communicators of `size` processes: `nodes` of them with `ppn`
 * each, or, with `nodes` 0, however they lie. */
typedef struct {
    ct_collective_t collective;
    int size, nodes, ppn;
    int n; /* at least one; the first begins at 0 bytes, the others ascend */
    ct_step_t *steps;
    const ct_step_t *last; /* of them */
} ct_part_t;

typedef struct {
    char *text; /* cut into words */
    const char *library, *release;
    const char **unless, **but; /* patterns of variables' names */
    int n_unless, n_but;
    const ct_configuration_t **configurations; /* NULL: this library cannot run it */
    int n_configurations;
    ct_part_t *parts;
    int n_parts;
    int n_unknown;    /* of the configurations */
    ct_why_t unknown; /* the first of them, and why */
} ct_table_t;

/* Read a table; `text`, of `length` bytes and a NUL behind them, is the table's from now on. NULL,
 * with `why` written, if it is no whole table of this version. */
ct_table_t *ct_table_read(char *text, size_t length, ct_why_t *why);
void ct_table_free(ct_table_t *table);
/* The part that holds on a communicator: that of its layout goes before that of its size; or NULL. */
const ct_part_t *ct_table_part(const ct_table_t *table, ct_collective_t collective,
                               const ct_comm_t *c);
/* A part for some layout of as many processes. */
int ct_table_has_layout(const ct_table_t *table, int size);
/* The first variable of `environment` (NAME=VALUE) by which the user decides, or NULL. */
const char *ct_table_overruled(const ct_table_t *table, char *const *environment);

/* The choice for `msize` bytes. Programs repeat sizes, and processors learn the few comparisons. */
static inline const ct_configuration_t *ct_choice(const ct_part_t *part, size_t msize) {
    enum { FEW = 16 };
    const ct_step_t *step = part->last;
    if (__builtin_expect(part->n > FEW, 0)) {
        const ct_step_t *first = part->steps;
        while (step - first > FEW) {
            const ct_step_t *middle = first + (step - first) / 2;
            if (msize < middle->from) step = middle - 1;
            else first = middle;
        }
    }
    while (msize < step->from) step--;
    return step->choice;
}

#endif
