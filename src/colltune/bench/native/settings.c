/* Makes configurations take effect by writing MPI_T control variables.
 *
 * Open MPI reads most when a communicator is created: each configuration gets communicators of its
 * own. The MPICH family reads them at every call, as Open MPI does some: they stay written for the
 * whole visit, during which nothing but the collective under test and point-to-point messages may
 * be called. So do those of libcolltune, colltune.<collective>=<id>, which are no variables but a
 * call of its own. */
#include "collbench.h"
#include "cvar.h"

#include <stdlib.h>
#include <string.h>

#ifdef OPEN_MPI
enum { READ_AT_CREATION = 1 };
#else
enum { READ_AT_CREATION = 0 };
#endif
/* MPICH has about 2000 contexts per process, and a communicator may take several */
enum { MOST_COMMUNICATORS = 512 };

static const char OWN[] = "colltune.";

/* libcolltune's, if that is preloaded. */
extern int colltune_force(const char *collective, const char *id) __attribute__((weak));

typedef struct { int config; group_t *group; MPI_Comm comm; unsigned long used; } entry_t;

static const config_t *applied; /* whose variables are written now */
static ct_cvar_t written[MAX_SETTINGS];
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

/* ---- writing ---- */

static int is_own(const char *name) { return !strncmp(name, OWN, sizeof OWN - 1); }

static int force_own(const char *name, const char *id) {
    return !colltune_force || colltune_force(name + sizeof OWN - 1, id);
}

static int write_setting(const setting_t *setting, ct_cvar_t *variable) {
    ct_why_t why;
    if (is_own(setting->name)) return force_own(setting->name, setting->value);
    if (ct_cvar_open(variable, setting->name, setting->value, &why)) return 1;
    if (!ct_cvar_write(variable)) return 0;
    ct_cvar_close(variable);
    return 1;
}

static void take_back(const setting_t *settings, int n) {
    while (n-- > 0) {
        if (is_own(settings[n].name)) {
            force_own(settings[n].name, "");
            continue;
        }
        ct_cvar_restore(&written[n]);
        ct_cvar_close(&written[n]);
    }
}

int apply_settings(const config_t *config, const char **culprit) {
    for (int i = 0; i < config->n; i++) {
        if (!write_setting(&config->settings[i], &written[i])) continue;
        *culprit = config->settings[i].name;
        take_back(config->settings, i);
        return 1;
    }
    applied = config;
    return 0;
}

void withdraw(void) {
    if (applied) take_back(applied->settings, applied->n);
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
