/* The rule base: what decide.c and the parts of the rule base share. */
#ifndef CT_RULES_H
#define CT_RULES_H

#include "colltune_rules.h"
#include "ct.h"
#include "table.h"

#include <stdatomic.h>

enum { CT_NAME_LENGTH = 64 };

/* ---- deciding (rules.c) ---- */

extern _Atomic unsigned ct_ruled; /* bit 1 << c: there are rules for collective c */

static inline int ct_rules_hold(ct_collective_t collective) {
    return (atomic_load_explicit(&ct_ruled, memory_order_relaxed) & 1u << collective) != 0;
}

/* Number of the rules whose answers ct_decide may read from communicators; 0: none, since they were
 * changed, or since another thread could change them meanwhile. */
extern _Atomic unsigned long ct_rules_known;
extern const ct_configuration_t ct_by_table; /* stands for what would hold without rules */

/* What the rules say by the size of messages; NULL: ct_rules_decide finds it out. */
static inline const ct_part_t *ct_rules_part(const ct_comm_t *c, ct_collective_t collective) {
    unsigned long known = atomic_load_explicit(&ct_rules_known, memory_order_relaxed);
    return c->ruled_by == known ? c->ruled[collective] : NULL;
}

/* Whether the rules decide the call; if so, by which configuration (NULL: the MPI library). */
int ct_rules_decide(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t **chosen);

/* ---- named values (values.c) ---- */

/* Where the value lies until the end of the program; NULL: there is none of that name. */
long *ct_value(const char *name);
/* Set it, made if it is new; 1 if memory is out. */
int ct_value_set(const char *name, long value);
/* The key of its attribute of MPI_COMM_WORLD; 1 if there is none. */
int ct_value_keyval(const char *name, int *keyval);
void ct_values_end(void); /* the attributes go, the values stay */
/* Call `take` for each. */
void ct_values_each(void (*take)(const char *name, long value, void *extra), void *extra);

/* ---- the draft that is being written (draft.c) ---- */

typedef enum { CT_A_CONFIGURATION, CT_A_RULE } ct_kind_of_entry_t;

typedef struct {
    ct_kind_of_entry_t kind;
    char name[CT_NAME_LENGTH];
    /* of a configuration */
    const ct_configuration_t *configuration;
    char *text;
    /* of a rule */
    colltune_parameter_t parameter;
    colltune_operator_t is;
    long value;
    char named[CT_NAME_LENGTH]; /* empty: it is `value` */
    char if_true[CT_NAME_LENGTH], if_false[CT_NAME_LENGTH];
} ct_entry_t;

typedef struct {
    ct_entry_t *entries;
    int n;
    char starts[CT_COLLECTIVES][CT_NAME_LENGTH]; /* empty: no rules */
} ct_draft_t;

extern const char *const ct_parameter_names[COLLTUNE_PARAMETERS];
extern const char *const ct_operator_names[COLLTUNE_OPERATORS];

int ct_draft_remove_rule(ct_draft_t *draft, const char *name); /* 1: there is none */
const ct_entry_t *ct_draft_find(const ct_draft_t *draft, const char *name);
/* `collective` may be "all"; an empty target: no rules. 1 with `why` written if it is none. */
int ct_draft_start(ct_draft_t *draft, const char *collective, const char *target, ct_why_t *why);
void ct_draft_clear(ct_draft_t *draft);

/* Read lines into the draft; a whole file begins with its version. 1 with `why` ("line 3: ...")
 * written if something is wrong; what stands before it has been read. */
int ct_draft_read(ct_draft_t *draft, const char *text, size_t length, int whole, ct_why_t *why);
/* The draft and all named values as a whole file, the caller's; NULL if memory is out. */
char *ct_draft_text(const ct_draft_t *draft);

/* ---- what holds (rules.c) ---- */

typedef struct ct_program ct_program_t;

/* What a draft says, for quick deciding; NULL, with `why` written, if it cannot hold. */
ct_program_t *ct_program_of(const ct_draft_t *draft, ct_why_t *why);
void ct_program_free(ct_program_t *program);
/* Let it hold instead of what did; NULL: nothing. One thread at a time. */
void ct_program_publish(ct_program_t *program);

/* ---- from the file, at the beginning and the end (rules_api.c) ---- */

int ct_rules_read(const char *text, size_t length, ct_why_t *why);
void ct_rules_clear(void);
void ct_rules_end(void);

#endif
