/* The rule base of libcolltune, for programs that change it while they run.
 *
 * A program need not be linked with libcolltune: colltune_rules() looks it up and returns NULL where
 * it is not preloaded. (glibc before 2.34: link with -ldl.)
 *
 * A rule compares one parameter of a call with a number or with a named value, and then goes on to
 * another rule or ends at a configuration. All processes must decide alike: make the same changes on
 * all of them, between the same two collective calls, and then call `commit`; or make them on rank 0
 * of a communicator alone, and let all its processes call `commit_all`. Only what was committed
 * holds. Functions return 0 if all went well; `error` then tells this thread what did not. */
#ifndef COLLTUNE_RULES_H
#define COLLTUNE_RULES_H

#include <dlfcn.h>
#include <mpi.h>

/* The library's own version; `colltune_version` returns that of the library that is loaded. */
#define LIBCOLLTUNE_VERSION "0.1.0"

/* What a rule looks at. */
typedef enum {
    COLLTUNE_MSIZE,        /* bytes, as colltune counts them: size of the datatype times count */
    COLLTUNE_SIZE,         /* processes of the communicator */
    COLLTUNE_POWER_OF_TWO, /* 1 if that is a power of two, else 0 */
    COLLTUNE_NODES,        /* nodes that they are on */
    COLLTUNE_PPN,          /* processes of each node, 0 if they differ */
    COLLTUNE_ROOT,         /* rank of the root */
    COLLTUNE_ROOT_IS_ZERO, /* 1 if that is 0, else 0 */
    COLLTUNE_COUNT,        /* elements; of reductions, where all processes have the same */
    COLLTUNE_TYPE_SIZE,    /* bytes of an element, of reductions */
    COLLTUNE_TYPE_EXTENT,  /* bytes from one element to the next, of reductions */
    COLLTUNE_COLLECTIVE,   /* the number that `collective` tells */
    COLLTUNE_PARAMETERS
} colltune_parameter_t;

typedef enum {
    COLLTUNE_LT,
    COLLTUNE_LTEQ,
    COLLTUNE_GT,
    COLLTUNE_GTEQ,
    COLLTUNE_EQ,
    COLLTUNE_NEQ,
    COLLTUNE_OPERATORS
} colltune_operator_t;

/* Names are made of letters, digits, _ and -, at most 63, and begin with a letter. A target is the
 * name of a rule or of a configuration; or "library", the MPI library's own decision; or "table",
 * what would hold without rules. */
typedef struct {
    /* Forget all rules, configurations and starts; named values stay, with their addresses. */
    int (*clear)(void);
    /* Read lines of the rules file's language, which are added to what there is. */
    int (*read)(const char *lines);
    /* Create or replace a rule that compares with a number. */
    int (*rule)(const char *name, colltune_parameter_t parameter, colltune_operator_t is,
                long value, const char *if_true, const char *if_false);
    /* The same, compared with a named value. */
    int (*rule_named)(const char *name, colltune_parameter_t parameter, colltune_operator_t is,
                      const char *value, const char *if_true, const char *if_false);
    int (*remove_rule)(const char *name);
    /* Create or replace: "ID [VARIABLE=VALUE ...]", as in a decision table. */
    int (*configuration)(const char *name, const char *id);
    /* Where calls of a collective ("bcast"; "all") begin; NULL: no longer with rules. */
    int (*start)(const char *collective, const char *target);
    /* The number of a collective to compare with; negative if there is none of that name. */
    long (*collective)(const char *name);

    /* Let it hold: on this process; on all of comm, as rank 0 has it (collective). All or nothing. */
    int (*commit)(void);
    int (*commit_all)(MPI_Comm comm);

    /* Named values; they hold at once, without commit. `set` creates those that are new. */
    int (*set)(const char *name, long value);
    int (*get)(const char *name, long *value);
    /* The same on all processes of comm, as rank 0 has it; collective. */
    int (*set_all)(MPI_Comm comm, const char *name, long value);
    /* Key of the attribute of MPI_COMM_WORLD that is the value's address, a long *. */
    int (*keyval)(const char *name, int *keyval);

    const char *(*error)(void);
} colltune_rules_t;

/* The functions, or NULL where libcolltune is not loaded. */
static inline const colltune_rules_t *colltune_rules(void) {
    const colltune_rules_t *(*find)(void) = 0;
    void *all = dlopen(0, RTLD_LAZY);
    if (!all) return 0;
    *(void **)&find = dlsym(all, "colltune_rules_1");
    dlclose(all);
    return find ? find() : 0;
}

#endif
