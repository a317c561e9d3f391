/* The rules that are being written: a list of named entries, and where each collective begins. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chains of rules are followed by functions that call themselves. */
enum { MOST_ENTRIES = 2000 };

const char *const ct_parameter_names[COLLTUNE_PARAMETERS] = {
    "msize", "size",  "power_of_two", "nodes",       "ppn",        "root",
    "root_is_zero", "count", "type_size", "type_extent", "collective",
};
const char *const ct_operator_names[COLLTUNE_OPERATORS] = {"LT", "LTEQ", "GT", "GTEQ", "EQ", "NEQ"};

const ct_entry_t *ct_draft_find(const ct_draft_t *draft, const char *name) {
    for (int i = 0; i < draft->n; i++)
        if (!strcmp(draft->entries[i].name, name)) return &draft->entries[i];
    return NULL;
}

int ct_draft_put(ct_draft_t *draft, const ct_entry_t *entry, char *why, size_t length) {
    const ct_entry_t *old = ct_draft_find(draft, entry->name);
    int at = old ? (int)(old - draft->entries) : draft->n;
    ct_entry_t new = *entry;
    if (old && old->kind != entry->kind) {
        snprintf(why, length, "%s is a %s already", entry->name,
                 old->kind == CT_A_RULE ? "rule" : "configuration");
        return 1;
    }
    if (!old && draft->n == MOST_ENTRIES) {
        snprintf(why, length, "there are %d rules and configurations already", draft->n);
        return 1;
    }
    new.text = entry->text ? strdup(entry->text) : NULL;
    ct_entry_t *more = draft->entries;
    if (!old) more = realloc(draft->entries, ((size_t)draft->n + 1) * sizeof *more);
    if (!more || (entry->text && !new.text)) {
        free(new.text);
        if (more) draft->entries = more;
        snprintf(why, length, "memory is out");
        return 1;
    }
    if (old) free(more[at].text);
    else draft->n++;
    draft->entries = more;
    more[at] = new;
    return 0;
}

int ct_draft_remove(ct_draft_t *draft, ct_kind_of_entry_t kind, const char *name) {
    const ct_entry_t *found = ct_draft_find(draft, name);
    if (!found || found->kind != kind) return 1;
    int at = (int)(found - draft->entries);
    free(draft->entries[at].text);
    draft->n--;
    memmove(&draft->entries[at], &draft->entries[at + 1],
            (size_t)(draft->n - at) * sizeof *draft->entries);
    return 0;
}

int ct_draft_start(ct_draft_t *draft, const char *collective, const char *target, char *why,
                   size_t length) {
    int all = !strcmp(collective, "all");
    ct_collective_t named = ct_collective_named(collective);
    if (!all && named == CT_NONE) {
        snprintf(why, length, "%.60s is no collective, and not all", collective);
        return 1;
    }
    for (int c = 0; c < CT_COLLECTIVES; c++)
        if (all || (int)named == c) snprintf(draft->starts[c], CT_NAME_LENGTH, "%s", target);
    return 0;
}

void ct_draft_clear(ct_draft_t *draft) {
    for (int i = 0; i < draft->n; i++) free(draft->entries[i].text);
    free(draft->entries);
    memset(draft, 0, sizeof *draft);
}
