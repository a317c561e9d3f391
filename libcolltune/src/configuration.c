/* Configurations: what their ids say, and which are forced. */
#include "core.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const ct_collective_names[CT_COLLECTIVES] = {
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv",      "barrier",
    "bcast",     "exscan",     "gather",    "reduce",   "reduce_scatter", "reduce_scatter_block",
    "scan",      "scatter",
};

const ct_algorithm_t *const ct_algorithms[] = {
    &ct_bcast_hierarchical, &ct_allgather_hierarchical,   &ct_allreduce_ring,
    &ct_allreduce_doubling, &ct_alltoallv_eager_pairwise, &ct_alltoallv_adaptive,
    NULL,
};

CT_PUBLIC const ct_algorithm_t *const *colltune_algorithms(void) { return ct_algorithms; }

/* All configurations ever read: a text that comes again is the same configuration. */
typedef struct read {
    struct read *next;
    char *text;
    ct_configuration_t configuration;
} read_t;

static read_t *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const ct_configuration_t *) forced[CT_COLLECTIVES];

ct_collective_t ct_collective_named(const char *name) {
    for (int c = 0; c < CT_COLLECTIVES; c++)
        if (!strcmp(ct_collective_names[c], name)) return (ct_collective_t)c;
    return CT_NONE;
}

/* ---- reading ---- */

/* The word up to one of `ends`, which *at then stands on; 1 if it is empty or too long. */
static int next_word(const char **at, const char *ends, char *word, size_t length) {
    size_t n = strcspn(*at, ends);
    if (!n || n >= length) return 1;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    return 0;
}

static const ct_algorithm_t *algorithm_named(ct_collective_t collective, const char *name) {
    for (int i = 0; ct_algorithms[i]; i++)
        if (ct_algorithms[i]->collective == collective && !strcmp(ct_algorithms[i]->name, name))
            return ct_algorithms[i];
    return NULL;
}

/* 1 if `text` is no value of the parameter. */
static int read_value(const ct_parameter_t *parameter, const char *text, long *value) {
    char *end;
    if (parameter->words) {
        for (*value = 0; parameter->words[*value]; ++*value)
            if (!strcmp(parameter->words[*value], text)) return 0;
        return 1;
    }
    *value = strtol(text, &end, 10);
    return !isdigit((unsigned char)*text) || *end || *value < parameter->low ||
           *value > parameter->high;
}

/* NAME=VALUE,... */
static int read_parameters(const char *at, ct_configuration_t *c, ct_why_t *why) {
    char name[CT_ID_LENGTH], value[CT_ID_LENGTH];
    const ct_parameter_t *parameters = c->algorithm->parameters;
    int n = 0;
    for (; n < CT_MAX_PARAMETERS && parameters[n].name; n++) c->values[n] = parameters[n].usual;
    while (*at) {
        int i = 0;
        if (next_word(&at, "=,", name, sizeof name) || *at++ != '=' ||
            next_word(&at, ",", value, sizeof value) || (*at == ',' && !*++at))
            return ct_refuse(why, "its parameters are not NAME=VALUE,...");
        while (i < n && strcmp(parameters[i].name, name)) i++;
        if (i == n) return ct_refuse(why, "there is no parameter %s", name);
        if (read_value(&parameters[i], value, &c->values[i]))
            return ct_refuse(why, "%s=%s is out of range", name, value);
    }
    return 0;
}

static int read_settings(const char *at, ct_configuration_t *c, ct_why_t *why) {
    char name[CT_ID_LENGTH], value[4 * CT_ID_LENGTH];
    for (at += strspn(at, " \t"); *at; at += strspn(at, " \t")) {
        ct_setting_t *more = realloc(c->settings, (size_t)(c->n_settings + 1) * sizeof *more);
        if (more) c->settings = more;
        if (!more || next_word(&at, "= \t", name, sizeof name) || *at++ != '=' ||
            next_word(&at, " \t", value, sizeof value))
            return ct_refuse(why, "its control variables are not NAME=VALUE ...");
        more[c->n_settings++] = (ct_setting_t){strdup(name), strdup(value)};
    }
    return 0;
}

/* What runs a configuration of our own library. */
static int read_own(const char *algorithm, const char *parameters, ct_configuration_t *c,
                    ct_why_t *why) {
    c->kind = CT_OWN;
    c->algorithm = algorithm_named(c->collective, algorithm);
    if (c->algorithm && c->algorithm->run) return read_parameters(parameters, c, why);
    return ct_refuse(why, "this library has no algorithm %s for %s", algorithm,
                     ct_collective_names[c->collective]);
}

static int read_text(const char *text, ct_configuration_t *c, ct_why_t *why) {
    char library[CT_ID_LENGTH], collective[CT_ID_LENGTH], algorithm[CT_ID_LENGTH];
    const char *at = text, *id = c->id;
    ct_refuse(why, "it is not LIBRARY.COLLECTIVE.ALGORITHM:PARAMETERS");
    if (next_word(&at, " \t", c->id, sizeof c->id) || read_settings(at, c, why) ||
        next_word(&id, ".", library, sizeof library) || *id++ != '.' ||
        next_word(&id, ".", collective, sizeof collective) || *id++ != '.' ||
        next_word(&id, ":", algorithm, sizeof algorithm) || (*id == ':' && !*++id))
        return 1;
    c->collective = ct_collective_named(collective);
    if (c->collective == CT_NONE) return ct_refuse(why, "there is no collective %s", collective);
    if (!strcmp(library, "colltune")) {
        if (c->n_settings) return ct_refuse(why, "control variables do not choose it");
        return read_own(algorithm, id, c, why);
    }
    c->kind = c->n_settings ? CT_STEERED : CT_LIBRARY;
    if (c->kind == CT_STEERED || !strcmp(algorithm, "default")) return 0;
    return ct_refuse(why, "control variables that choose it are missing");
}

static void free_read(read_t *read) {
    for (int i = 0; i < read->configuration.n_settings; i++) {
        free(read->configuration.settings[i].name);
        free(read->configuration.settings[i].value);
    }
    free(read->configuration.settings);
    free(read->text);
    free(read);
}

static const ct_configuration_t *read_new(const char *text, ct_why_t *why) {
    read_t *read = calloc(1, sizeof *read);
    ct_refuse(why, "memory is out");
    if (!read) return NULL;
    if (!(read->text = strdup(text)) || read_text(text, &read->configuration, why)) {
        free_read(read);
        return NULL;
    }
    read->next = all;
    all = read;
    return &read->configuration;
}

const ct_configuration_t *ct_configuration(const char *text, ct_why_t *why) {
    const ct_configuration_t *found = NULL;
    pthread_mutex_lock(&lock);
    for (read_t *read = all; read && !found; read = read->next)
        if (!strcmp(read->text, text)) found = &read->configuration;
    if (!found) found = read_new(text, why);
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- forcing ---- */

const ct_configuration_t *ct_forced(ct_collective_t collective) {
    return atomic_load_explicit(&forced[collective], memory_order_acquire);
}

static void force(ct_collective_t collective, const ct_configuration_t *configuration) {
    unsigned engaged = 0;
    atomic_store_explicit(&forced[collective], configuration, memory_order_release);
    for (int c = 0; c < CT_COLLECTIVES; c++)
        if (ct_forced((ct_collective_t)c)) engaged |= 1u << c;
    ct_engage(CT_BY_FORCE, engaged);
}

CT_PUBLIC int colltune_force(const char *collective, const char *id) {
    ct_why_t why;
    ct_collective_t named = collective && *collective ? ct_collective_named(collective) : CT_NONE;
    if (collective && *collective && named == CT_NONE) {
        ct_log(0, "%s cannot be forced: there is no such collective", collective);
        return 1;
    }
    if (!id || !*id) {
        for (int c = 0; c < CT_COLLECTIVES; c++)
            if (named == CT_NONE || (int)named == c) force((ct_collective_t)c, NULL);
        return 0;
    }
    const ct_configuration_t *configuration = ct_configuration(id, &why);
    int failed = !configuration;
    if (!failed && named != CT_NONE && configuration->collective != named)
        failed = ct_refuse(&why, "it is not of %s", collective);
    if (failed) ct_log(0, "%s cannot be forced: %s", id, why.text);
    else force(configuration->collective, configuration);
    return failed;
}

/* COLLTUNE_FORCE, configurations with ; in between. */
void ct_force_begin(void) {
    const char *value = ct_setting("COLLTUNE_FORCE");
    char *text = value ? strdup(value) : NULL, *rest = text, *one;
    while (rest && (one = strtok_r(rest, ";", &rest))) {
        one += strspn(one, " \t");
        if (*one) colltune_force(NULL, one);
    }
    free(text);
}

void ct_configurations_end(void) {
    for (int c = 0; c < CT_COLLECTIVES; c++) atomic_store(&forced[c], NULL);
    while (all) {
        read_t *read = all;
        all = read->next;
        free_read(read);
    }
}
