/* Decides by rules, small blocks that compare one parameter of a call and then go on to another rule
 * or end at a configuration (Fagg et al., EuroPVM/MPI 2006, sec. 6).
 *
 * What holds is a program: for each collective its rules, in an array, with the named rules and
 * configurations resolved and the comparisons with the collective already made. A change makes a new
 * program. Threads that decide are counted where there may be several, so that the old one is freed
 * only when none can be in it.
 *
 * Where nothing but the size of messages differs between calls on a communicator, its rules are followed
 * once for each size at which one of them turns, and the answers are kept as a part of a table. Where one
 * thread at a time is in MPI, ct_decide looks at them without coming here. */
#include "rules.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a rule leads: to another one, or to an end. */
enum { TO_TABLE = -1, TO_LIBRARY = -2, TO_CONFIGURATION = -3 };
/* By bit: below the value, equal to it, above it. */
enum { LESS = 1, EQUAL = 2, GREATER = 4 };
static const unsigned char holds_if[COLLTUNE_OPERATORS] = {
    [COLLTUNE_LT] = LESS,       [COLLTUNE_LTEQ] = LESS | EQUAL,     [COLLTUNE_GT] = GREATER,
    [COLLTUNE_GTEQ] = GREATER | EQUAL, [COLLTUNE_EQ] = EQUAL, [COLLTUNE_NEQ] = LESS | GREATER,
};

/* Without a branch: which of them comes true is not to be guessed. */
static inline int holds(unsigned relations, long have, long value) {
    return (int)(relations >> ((have >= value) + (have > value)) & 1);
}

typedef struct {
    const long *value; /* what is compared with; a program may write it at any time */
    unsigned char parameter, holds_if;
    int next[2]; /* if it does not hold, if it does */
} block_t;

typedef struct {
    block_t *blocks;
    int n, start;
    unsigned looks_at; /* bit 1 << p: parameter p */
    int has_named;     /* compares with values that may change */
} part_t;

/* What the rules say on communicators that lie alike. */
typedef struct answers {
    ct_part_t part;
    struct answers *next;
    ct_step_t steps[];
} answers_t;

struct ct_program {
    const ct_configuration_t **configurations;
    long *constants;
    part_t parts[CT_COLLECTIVES];
    unsigned ruled;
    unsigned long number; /* no other program has it */
    pthread_mutex_t lock; /* of the next */
    answers_t *answers;
    struct ct_program *older; /* of those that may still be in use */
};

_Atomic unsigned ct_ruled;
_Atomic unsigned long ct_rules_known;
const ct_configuration_t ct_by_table;
static _Atomic(ct_program_t *) current;
static _Atomic int deciding; /* threads that may be in a program */
static _Atomic unsigned long programs; /* so many were made */
static ct_program_t *replaced;

/* ---- parameters ---- */

enum {
    OF_REDUCTIONS = 1u << COLLTUNE_COUNT | 1u << COLLTUNE_TYPE_SIZE | 1u << COLLTUNE_TYPE_EXTENT,
    OF_SPREAD = 1u << COLLTUNE_NODES | 1u << COLLTUNE_PPN,
    OF_COMMUNICATORS = 1u << COLLTUNE_SIZE | 1u << COLLTUNE_POWER_OF_TWO | OF_SPREAD,
    OF_ROOT = 1u << COLLTUNE_ROOT | 1u << COLLTUNE_ROOT_IS_ZERO,
    REDUCTIONS = 1u << CT_ALLREDUCE | 1u << CT_EXSCAN | 1u << CT_REDUCE | 1u << CT_REDUCE_SCATTER |
                 1u << CT_REDUCE_SCATTER_BLOCK | 1u << CT_SCAN,
    ROOTED = 1u << CT_BCAST | 1u << CT_GATHER | 1u << CT_REDUCE | 1u << CT_SCATTER,
    SIZELESS = 1u << CT_ALLTOALLV | 1u << CT_BARRIER,
};

/* Why a parameter cannot be looked at: not all processes need have the same; or NULL. */
static const char *unfit(colltune_parameter_t parameter, ct_collective_t collective) {
    unsigned p = 1u << parameter, c = 1u << collective;
    if (p & OF_REDUCTIONS && !(c & REDUCTIONS)) return "may differ between processes of";
    if (p & OF_ROOT && !(c & ROOTED)) return "is none of";
    if (parameter == COLLTUNE_MSIZE && c & SIZELESS)
        return collective == CT_BARRIER ? "is none of" : "differs between processes of";
    return NULL;
}

static void look_at_type(const ct_call_t *call, long *p) {
    size_t size;
    MPI_Count low, extent = 0;
    if (ct_type_size(call->recvtype, &size)) size = 0;
    if (PMPI(Type_get_extent_x)(call->recvtype, &low, &extent) != MPI_SUCCESS) extent = 0;
    p[COLLTUNE_TYPE_SIZE] = (long)size;
    p[COLLTUNE_TYPE_EXTENT] = (long)extent;
    p[COLLTUNE_COUNT] = size ? (long)(call->msize / size) : call->recvcount;
}

static void look_at(ct_comm_t *c, const ct_call_t *call, unsigned looked_at, long *p) {
    p[COLLTUNE_MSIZE] = (long)call->msize;
    p[COLLTUNE_SIZE] = c->size;
    p[COLLTUNE_POWER_OF_TWO] = (c->size & (c->size - 1)) == 0;
    p[COLLTUNE_ROOT] = call->root;
    p[COLLTUNE_ROOT_IS_ZERO] = call->root == 0;
    if (looked_at & OF_SPREAD && !c->nodes) ct_spread(c);
    p[COLLTUNE_NODES] = c->nodes;
    p[COLLTUNE_PPN] = c->ppn;
    if (looked_at & OF_REDUCTIONS) look_at_type(call, p);
}

/* ---- deciding ---- */

/* Follow the rules from block to block. */
static const ct_configuration_t *follow_blocks(const ct_program_t *program, const part_t *part,
                                               const long *p) {
    int at = part->start;
    while (at >= 0) {
        const block_t *block = &part->blocks[at];
        long have = p[block->parameter], value = __atomic_load_n(block->value, __ATOMIC_RELAXED);
        at = block->next[holds(block->holds_if, have, value)];
    }
    if (at == TO_TABLE) return &ct_by_table;
    return at == TO_LIBRARY ? NULL : program->configurations[TO_CONFIGURATION - at];
}

static int by_size(const void *a, const void *b) {
    size_t x = ((const ct_step_t *)a)->from, y = ((const ct_step_t *)b)->from;
    return (x > y) - (x < y);
}

/* The sizes at which a comparison may turn: those compared with, and the next ones. */
static int turns_of(const part_t *part, ct_step_t *steps) {
    int n = 0;
    steps[n++] = (ct_step_t){0};
    for (int i = 0; i < part->n; i++) {
        long value = *part->blocks[i].value;
        if (part->blocks[i].parameter != COLLTUNE_MSIZE || value < -1) continue;
        if (value > 0) steps[n++].from = (size_t)value;
        steps[n++].from = (size_t)value + 1;
    }
    qsort(steps, (size_t)n, sizeof *steps, by_size);
    return n;
}

static answers_t *new_answers(const ct_program_t *program, const part_t *part, long *p) {
    answers_t *made = calloc(1, sizeof *made + (2 * (size_t)part->n + 1) * sizeof *made->steps);
    if (!made) return NULL;
    int turns = turns_of(part, made->steps), n = 0;
    for (int i = 0; i < turns; i++) {
        ct_step_t step = made->steps[i];
        p[COLLTUNE_MSIZE] = (long)step.from;
        step.choice = follow_blocks(program, part, p);
        if (!n || made->steps[n - 1].choice != step.choice) made->steps[n++] = step;
    }
    made->part = (ct_part_t){.n = n, .steps = made->steps, .last = &made->steps[n - 1]};
    return made;
}

/* The answers for communicators as c, made if they are new; NULL if memory is out. */
static const answers_t *answers_for(ct_program_t *program, const ct_comm_t *c,
                                    ct_collective_t collective, long *p) {
    pthread_mutex_lock(&program->lock);
    answers_t *found = program->answers;
    while (found && (found->part.collective != collective || found->part.size != c->size ||
                     found->part.nodes != c->nodes || found->part.ppn != c->ppn))
        found = found->next;
    if (!found && (found = new_answers(program, &program->parts[collective], p))) {
        found->part.collective = collective;
        found->part.size = c->size;
        found->part.nodes = c->nodes;
        found->part.ppn = c->ppn;
        found->next = program->answers;
        program->answers = found;
    }
    pthread_mutex_unlock(&program->lock);
    return found;
}

/* The first call on c since the rules changed, or one that depends on more than its size. */
__attribute__((noinline)) static const ct_configuration_t *
choose(ct_program_t *program, ct_comm_t *c, const ct_call_t *call) {
    const part_t *part = &program->parts[call->collective];
    long p[COLLTUNE_PARAMETERS];
    look_at(c, call, part->looks_at, p);
    const ct_configuration_t *chosen = follow_blocks(program, part, p);
    if (part->has_named || part->looks_at & ~(OF_COMMUNICATORS | 1u << COLLTUNE_MSIZE)) return chosen;
    if (part->looks_at & OF_SPREAD && !c->nodes) return chosen;
    if (c->ruled_by != program->number) memset(c->ruled, 0, sizeof c->ruled);
    c->ruled[call->collective] = answers_for(program, c, call->collective, p);
    c->ruled_by = program->number;
    return chosen;
}

static int decide(ct_program_t *program, ct_comm_t *c, const ct_call_t *call,
                  const ct_configuration_t **chosen) {
    const ct_part_t *known = c->ruled[call->collective];
    if (!(program->ruled & 1u << call->collective)) return 0;
    if (known && c->ruled_by == program->number) *chosen = ct_choice(known, call->msize);
    else *chosen = choose(program, c, call);
    return *chosen != &ct_by_table;
}

int ct_rules_decide(ct_comm_t *c, const ct_call_t *call, const ct_configuration_t **chosen) {
    static _Atomic int alone; /* 1: one thread at a time is in MPI, 2: not so */
    int level, how = atomic_load_explicit(&alone, memory_order_relaxed);
    if (!how) {
        how = PMPI(Query_thread)(&level) == MPI_SUCCESS && level < MPI_THREAD_MULTIPLE ? 1 : 2;
        atomic_store(&alone, how);
    }
    if (how == 1) {
        ct_program_t *program = atomic_load_explicit(&current, memory_order_acquire);
        unsigned long number = program ? program->number : 0;
        atomic_store_explicit(&ct_rules_known, number, memory_order_relaxed);
        return program && decide(program, c, call, chosen);
    }
    atomic_fetch_add(&deciding, 1);
    ct_program_t *program = atomic_load(&current);
    int decided = program && decide(program, c, call, chosen);
    atomic_fetch_sub(&deciding, 1);
    return decided;
}

void ct_program_publish(ct_program_t *program) {
    atomic_store(&ct_rules_known, 0);
    ct_program_t *old = atomic_exchange(&current, program);
    atomic_store(&ct_ruled, program ? program->ruled : 0);
    ct_engage(CT_BY_RULES, program ? program->ruled : 0);
    if (old) {
        old->older = replaced;
        replaced = old;
    }
    if (atomic_load(&deciding)) return; /* the next change frees them */
    while (replaced) {
        old = replaced;
        replaced = old->older;
        ct_program_free(old);
    }
}

/* ---- making a program ---- */

typedef struct {
    const ct_draft_t *draft;
    ct_program_t *program;
    ct_collective_t collective;
    int *place; /* of each entry in the part's blocks; UNSEEN, or OPEN while it is followed */
    ct_why_t *why;
    int failed;
} maker_t;

enum { UNSEEN = -1, OPEN = -2 };

static int fail(maker_t *m, const char *name, const char *what, const char *whose) {
    if (!m->failed++) ct_refuse(m->why, "%s: %s%s%s", name, what, *whose ? " " : "", whose);
    return TO_TABLE;
}

static int follow(maker_t *m, const char *target, const char *from);

/* A rule about the collective is decided now: the one at hand is known. */
static int follow_known(maker_t *m, const ct_entry_t *rule) {
    long have = m->collective, value = rule->value;
    const char *next = holds(holds_if[rule->is], have, value) ? rule->if_true : rule->if_false;
    return follow(m, next, rule->name);
}

static int follow_rule(maker_t *m, int index) {
    const ct_entry_t *rule = &m->draft->entries[index];
    part_t *part = &m->program->parts[m->collective];
    const char *why = unfit(rule->parameter, m->collective);
    if (m->place[index] == OPEN) return fail(m, rule->name, "this rule leads back to itself", "");
    if (m->place[index] != UNSEEN) return m->place[index];
    m->place[index] = OPEN;
    if (rule->parameter == COLLTUNE_COLLECTIVE) {
        int found = follow_known(m, rule);
        m->place[index] = UNSEEN;
        return found;
    }
    if (why) {
        char what[CT_NAME_LENGTH + 64];
        snprintf(what, sizeof what, "%s %s", ct_parameter_names[rule->parameter], why);
        return fail(m, rule->name, what, ct_collective_names[m->collective]);
    }
    m->program->constants[index] = rule->value;
    const long *value = *rule->named ? ct_value(rule->named) : &m->program->constants[index];
    if (!value) return fail(m, rule->name, "there is no value", rule->named);
    part->has_named |= *rule->named != 0;
    int no = follow(m, rule->if_false, rule->name), yes = follow(m, rule->if_true, rule->name);
    part->blocks[part->n] = (block_t){value, (unsigned char)rule->parameter, holds_if[rule->is],
                                      {no, yes}};
    part->looks_at |= 1u << rule->parameter;
    return m->place[index] = part->n++;
}

/* Where `target` leads; `from` names it. */
static int follow(maker_t *m, const char *target, const char *from) {
    if (m->failed) return TO_TABLE;
    if (!strcmp(target, "table")) return TO_TABLE;
    if (!strcmp(target, "library")) return TO_LIBRARY;
    const ct_entry_t *entry = ct_draft_find(m->draft, target);
    if (!entry) return fail(m, from, "there is no rule and no configuration", target);
    int index = (int)(entry - m->draft->entries);
    if (entry->kind == CT_A_RULE) return follow_rule(m, index);
    if (entry->configuration->collective != m->collective)
        return fail(m, from, "leads calls of another collective to", entry->text);
    m->program->configurations[index] = entry->configuration;
    return entry->configuration->kind == CT_LIBRARY ? TO_LIBRARY : TO_CONFIGURATION - index;
}

static void make_part(maker_t *m) {
    const char *start = m->draft->starts[m->collective];
    part_t *part = &m->program->parts[m->collective];
    if (!*start || m->failed) return;
    for (int i = 0; i < m->draft->n; i++) m->place[i] = UNSEEN;
    part->blocks = calloc((size_t)m->draft->n + 1, sizeof *part->blocks);
    if (!part->blocks) {
        fail(m, start, "memory is out", "");
        return;
    }
    part->start = follow(m, start, ct_collective_names[m->collective]);
    if (part->start != TO_TABLE) m->program->ruled |= 1u << m->collective;
}

ct_program_t *ct_program_of(const ct_draft_t *draft, ct_why_t *why) {
    size_t n = (size_t)draft->n + 1;
    maker_t m = {.draft = draft, .why = why};
    m.program = calloc(1, sizeof *m.program);
    m.place = calloc(n, sizeof *m.place);
    if (m.program) {
        m.program->number = atomic_fetch_add(&programs, 1) + 1;
        pthread_mutex_init(&m.program->lock, NULL);
        m.program->configurations = calloc(n, sizeof *m.program->configurations);
        m.program->constants = calloc(n, sizeof *m.program->constants);
    }
    if (!m.place || !m.program || !m.program->configurations || !m.program->constants)
        fail(&m, "the rules", "memory is out", "");
    for (int c = 0; c < CT_COLLECTIVES && !m.failed; c++) {
        m.collective = (ct_collective_t)c;
        make_part(&m);
    }
    free(m.place);
    if (!m.failed) return m.program;
    ct_program_free(m.program);
    return NULL;
}

void ct_program_free(ct_program_t *program) {
    if (!program) return;
    for (int c = 0; c < CT_COLLECTIVES; c++) free(program->parts[c].blocks);
    for (answers_t *answers = program->answers, *next; answers; answers = next) {
        next = answers->next;
        free(answers);
    }
    pthread_mutex_destroy(&program->lock);
    free(program->configurations);
    free(program->constants);
    free(program);
}
