/* Makes configurations take effect by writing MPI_T control variables.
 *
 * Open MPI reads most when a communicator is created: each configuration gets communicators of its
 * own. The MPICH family reads them at every call, as Open MPI does some: they stay written for the
 * whole visit, during which nothing but the collective under test and point-to-point messages may
 * be called. So do those of libcolltune, colltune.<collective>=<id>, which are no variables but a
 * call of its own. */
#include "collbench.h"
#include "cvar_number.h"

#include <stdlib.h>
#include <string.h>

#ifdef OPEN_MPI
enum { READ_AT_CREATION = 1 };
#else
enum { READ_AT_CREATION = 0 };
#endif
/* MPICH has about 2000 contexts per process, and a communicator may take several */
enum { MOST_COMMUNICATORS = 512, DESCRIPTION_LENGTH = 8192, TEXT_LENGTH = 1024 };

static const char OWN[] = "colltune.";

/* libcolltune's, if that is preloaded. */
extern int colltune_force(const char *collective, const char *id) __attribute__((weak));

typedef struct { char bytes[TEXT_LENGTH]; } content_t;
typedef struct { int config; group_t *group; MPI_Comm comm; unsigned long used; } entry_t;

static const config_t *applied; /* whose variables are written now */
static content_t saved[MAX_SETTINGS];
static entry_t *entries;
static int n_entries;
static unsigned long uses;

/* ---- the plan's lines ---- */

void parse_config(char *words) {
    plan.configs = grown(plan.configs, plan.n_configs, sizeof *plan.configs);
    config_t *config = &plan.configs[plan.n_configs++];
    config->n = 0;
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        if (!equals || equals - word >= NAME_LENGTH || strlen(equals) > VALUE_LENGTH ||
            config->n == MAX_SETTINGS)
            die("bad config word ", word);
        setting_t *setting = &config->settings[config->n++];
        *equals = '\0';
        strcpy(setting->name, word);
        strcpy(setting->value, equals + 1);
    }
}

/* ---- one variable ---- */

typedef struct {
    MPI_T_cvar_handle handle;
    MPI_T_enum items;
    int width, count;
    char description[DESCRIPTION_LENGTH];
} variable_t;

static int open_variable(const char *name, variable_t *v) {
    int index, length = DESCRIPTION_LENGTH, none = 0, verbosity, bind, scope;
    MPI_Datatype type;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return 1;
    MPI_T_cvar_get_info(index, NULL, &none, &verbosity, &type, &v->items, v->description, &length,
                        &bind, &scope);
    MPI_Type_size(type, &v->width);
    return MPI_T_cvar_handle_alloc(index, NULL, &v->handle, &v->count) != MPI_SUCCESS;
}

static int encode(const variable_t *v, const char *text, content_t *content) {
    long value;
    memset(content, 0, sizeof *content);
    if (v->count > 1) { /* a string */
        if (v->width != 1 || v->count > TEXT_LENGTH || (int)strlen(text) >= v->count) return 1;
        strcpy(content->bytes, text);
        return 0;
    }
    if (ct_cvar_number(v->items, v->description, text, &value)) return 1;
    int number = (int)value;
    signed char byte = (signed char)value;
    if (v->width == (int)sizeof value) memcpy(content->bytes, &value, sizeof value);
    else if (v->width == (int)sizeof number) memcpy(content->bytes, &number, sizeof number);
    else if (v->width == 1) memcpy(content->bytes, &byte, 1);
    else return 1;
    return 0;
}

static int is_own(const char *name) { return !strncmp(name, OWN, sizeof OWN - 1); }

static int force_own(const char *name, const char *id) {
    return !colltune_force || colltune_force(name + sizeof OWN - 1, id ? id : "");
}

/* Write the variable and keep in `old` what it held; with `text` NULL write back `old`. */
static int write_variable(const char *name, const char *text, content_t *old) {
    variable_t v;
    content_t wanted = *old;
    if (is_own(name)) return force_own(name, text);
    if (open_variable(name, &v)) return 1;
    int failed = v.count * v.width > TEXT_LENGTH || (text && encode(&v, text, &wanted)) ||
                 (text && MPI_T_cvar_read(v.handle, old->bytes) != MPI_SUCCESS) ||
                 MPI_T_cvar_write(v.handle, wanted.bytes) != MPI_SUCCESS;
    MPI_T_cvar_handle_free(&v.handle);
    return failed;
}

int apply_settings(const config_t *config, const char **culprit) {
    for (int i = 0; i < config->n; i++) {
        if (!write_variable(config->settings[i].name, config->settings[i].value, &saved[i])) continue;
        *culprit = config->settings[i].name;
        while (i-- > 0) write_variable(config->settings[i].name, NULL, &saved[i]);
        return 1;
    }
    applied = config;
    return 0;
}

void withdraw(void) {
    for (int i = applied ? applied->n : 0; i-- > 0;)
        write_variable(applied->settings[i].name, NULL, &saved[i]);
    applied = NULL;
}

/* ---- communicators ---- */

static entry_t *find_entry(int config, const group_t *group) {
    for (int i = 0; i < n_entries; i++)
        if (entries[i].config == config && entries[i].group == group) return &entries[i];
    return NULL;
}

static void forget(int index) {
    MPI_Comm_free(&entries[index].comm);
    entries[index] = entries[--n_entries];
}

/* All processes of the group know the same entries of it, and so agree on the oldest. */
static void make_room(const group_t *group) {
    int n = 0, oldest = -1;
    for (int i = 0; i < n_entries; i++) {
        if (entries[i].group != group) continue;
        n++;
        if (oldest < 0 || entries[i].used < entries[oldest].used) oldest = i;
    }
    if (n >= MOST_COMMUNICATORS) forget(oldest);
}

void trim_communicators(group_t *group) {
    double live = n_entries;
    exchange(group, &live, 1);
    if (live <= MOST_COMMUNICATORS) return;
    for (int i = n_entries; i-- > 0;)
        if (entries[i].group == group) forget(i);
}

static int read_at_creation(int config) {
    const config_t *found = &plan.configs[config];
    for (int i = 0; i < found->n; i++)
        if (is_own(found->settings[i].name)) return 0;
    return READ_AT_CREATION;
}

void give_up_communicator(int config, const group_t *group) {
    entry_t *entry = find_entry(read_at_creation(config) ? config : -1, group);
    /* not freed: its context would serve another communicator, and the messages with it */
    if (entry) *entry = entries[--n_entries];
}

static MPI_Comm communicator(int config, group_t *group) {
    entry_t *entry = find_entry(config, group);
    if (!entry) {
        MPI_Comm comm;
        make_room(group);
        if (MPI_Comm_dup(group->base, &comm) != MPI_SUCCESS) return MPI_COMM_NULL;
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        entries = grown(entries, n_entries, sizeof *entries);
        entry = &entries[n_entries++];
        *entry = (entry_t){config, group, comm, 0};
    }
    entry->used = ++uses;
    return entry->comm;
}

MPI_Comm configured(int config, group_t *group, const char **culprit) {
    MPI_Comm comm = MPI_COMM_NULL;
    int at_creation = read_at_creation(config);
    if (!at_creation) comm = communicator(-1, group);
    /* some are read at every call all the same, such as coll/han's segment size */
    else if (find_entry(config, group) && !apply_settings(&plan.configs[config], culprit))
        return communicator(config, group);
    *culprit = "a control variable cannot be written everywhere";
    double failed = apply_settings(&plan.configs[config], culprit);
    exchange(group, &failed, 1);
    if (failed > 0) {
        withdraw();
        return MPI_COMM_NULL;
    }
    return at_creation ? communicator(config, group) : comm;
}
