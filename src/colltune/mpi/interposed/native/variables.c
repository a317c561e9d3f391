/* Writes control variables and takes them back. */
#include "variables.h"

#include "cvar_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DESCRIPTION_LENGTH = 8192, TEXT_LENGTH = 1024 };

typedef struct {
    char *name;
    MPI_T_cvar_handle handle;
    int count, width, written;
    char wanted[TEXT_LENGTH], before[TEXT_LENGTH];
} variable_t;

struct ct_variables {
    int n;
    variable_t variables[];
};

/* What is needed once, to translate a value. */
typedef struct {
    MPI_T_enum items;
    char description[DESCRIPTION_LENGTH];
} facts_t;

/* ---- values ---- */

/* 1 if the variable cannot hold the value. */
static int encode(variable_t *v, const facts_t *facts, const char *text) {
    long value;
    if (v->count < 1 || v->width < 1 || v->count > TEXT_LENGTH / v->width) return 1;
    if (v->count > 1) { /* a string */
        if (v->width != 1 || strlen(text) >= (size_t)v->count) return 1;
        strcpy(v->wanted, text);
        return 0;
    }
    if (ct_cvar_number(facts->items, facts->description, text, &value)) return 1;
    int number = (int)value;
    signed char byte = (signed char)value;
    if (v->width == (int)sizeof value) memcpy(v->wanted, &value, sizeof value);
    else if (v->width == (int)sizeof number && number == value)
        memcpy(v->wanted, &number, sizeof number);
    else if (v->width == 1 && byte == value) memcpy(v->wanted, &byte, 1);
    else return 1;
    return 0;
}

/* ---- one variable ---- */

/* 1 with `why` written if it is unknown or cannot hold the value. */
static int open_variable(variable_t *v, const char *name, const char *value, char *why,
                         size_t length) {
    facts_t facts;
    MPI_Datatype type;
    int index, none = 0, size = sizeof facts.description, verbosity, bind, scope;
    memset(v, 0, sizeof *v);
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_get_info(index, NULL, &none, &verbosity, &type, &facts.items, facts.description,
                            &size, &bind, &scope) != MPI_SUCCESS) {
        snprintf(why, length, "there is no control variable %.100s", name);
        return 1;
    }
    if (bind != MPI_T_BIND_NO_OBJECT || PMPI_Type_size(type, &v->width) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &v->handle, &v->count) != MPI_SUCCESS) {
        snprintf(why, length, "the control variable %.100s cannot be used", name);
        return 1;
    }
    v->name = strdup(name);
    if (v->name && !encode(v, &facts, value)) return 0;
    snprintf(why, length, "the control variable %.100s cannot be %.60s", name, value);
    MPI_T_cvar_handle_free(&v->handle);
    free(v->name);
    return 1;
}

/* One that holds the value already is left alone: it may be one that cannot be written. */
static int write_variable(variable_t *v) {
    size_t bytes = (size_t)v->count * (size_t)v->width;
    v->written = 0;
    if (MPI_T_cvar_read(v->handle, v->before) != MPI_SUCCESS) return 1;
    if (v->count > 1 ? !strcmp(v->before, v->wanted) : !memcmp(v->before, v->wanted, bytes))
        return 0;
    if (MPI_T_cvar_write(v->handle, v->wanted) != MPI_SUCCESS) return 1;
    v->written = 1;
    return 0;
}

/* ---- those of a configuration ---- */

#ifdef OPEN_MPI
/* coll/tuned looks at the others only if the first is on; hcoll comes before it where it is there. */
static const char *const companions[][2] = {{"coll_tuned_use_dynamic_rules", "1"},
                                            {"coll_hcoll_enable", "0"}};
enum { COMPANIONS = sizeof companions / sizeof *companions };

static int steers_tuned(const ct_configuration_t *configuration) {
    for (int i = 0; i < configuration->n_settings; i++)
        if (!strncmp(configuration->settings[i].name, "coll_tuned_", 11)) return 1;
    return 0;
}
#endif

/* Whether a setting is not ours to make: MPICH is to decide itself, not to end the job, where an
 * algorithm cannot run a call. */
static int is_skipped(const char *name) {
    static const char fallback[] = "_COLLECTIVE_FALLBACK";
    size_t n = strlen(name);
    return n >= sizeof fallback - 1 && !strcmp(name + n - (sizeof fallback - 1), fallback);
}

static int known(const char *name) {
    int index;
    return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS;
}

static int open_all(ct_variables_t *all, const ct_configuration_t *c, char *why, size_t length) {
#ifdef OPEN_MPI
    for (int i = 0; i < COMPANIONS && steers_tuned(c); i++) {
        if (!known(companions[i][0])) continue; /* releases and installations differ */
        if (open_variable(&all->variables[all->n], companions[i][0], companions[i][1], why, length))
            return 1;
        all->n++;
    }
#else
    enum { COMPANIONS = 0 };
    (void)known;
#endif
    for (int i = 0; i < c->n_settings; i++) {
        const ct_setting_t *setting = &c->settings[i];
        if (is_skipped(setting->name)) continue;
        if (open_variable(&all->variables[all->n], setting->name, setting->value, why, length))
            return 1;
        all->n++;
    }
    return 0;
}

ct_variables_t *ct_variables_of(const ct_configuration_t *c, char *why, size_t length) {
    size_t most = (size_t)c->n_settings + 2; /* two companions */
    ct_variables_t *all = calloc(1, sizeof *all + most * sizeof *all->variables);
    if (!all) {
        snprintf(why, length, "memory is out");
        return NULL;
    }
    if (!open_all(all, c, why, length)) return all;
    ct_variables_free(all);
    return NULL;
}

int ct_variables_write(ct_variables_t *all, char *why, size_t length) {
    for (int i = 0; i < all->n; i++) {
        if (!write_variable(&all->variables[i])) continue;
        snprintf(why, length, "the control variable %.100s cannot be written",
                 all->variables[i].name);
        ct_variables_restore(all);
        return 1;
    }
    return 0;
}

void ct_variables_restore(ct_variables_t *all) {
    for (int i = all->n; i-- > 0;) {
        variable_t *v = &all->variables[i];
        if (v->written) MPI_T_cvar_write(v->handle, v->before);
        v->written = 0;
    }
}

void ct_variables_free(ct_variables_t *all) {
    for (int i = 0; i < all->n; i++) {
        MPI_T_cvar_handle_free(&all->variables[i].handle);
        free(all->variables[i].name);
    }
    free(all);
}
