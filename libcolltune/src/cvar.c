/* Writes control variables (MPI_T) and takes them back; the benchmark is compiled with it, too. */
#include "cvar.h"

#include <stdlib.h>
#include <string.h>

enum { ITEM_LENGTH = 128, DESCRIPTION_LENGTH = 8192 };

/* What is needed once, to translate a value. */
typedef struct {
    MPI_T_enum items;
    char description[DESCRIPTION_LENGTH];
} facts_t;

/* ---- values ---- */

/* Value of the item `word` of an enumeration that MPI_T knows. */
static int item_of_enum(MPI_T_enum items, const char *word, long *value) {
    int n, number, length = 0;
    if (PMPI(T_enum_get_info)(items, &n, NULL, &length) != MPI_SUCCESS) return 1;
    for (int i = 0; i < n; i++) {
        char name[ITEM_LENGTH];
        length = sizeof name;
        if (PMPI(T_enum_get_item)(items, i, &number, name, &length) != MPI_SUCCESS) return 1;
        *value = number;
        if (!strcmp(name, word)) return 0;
    }
    return 1;
}

/* MPICH's enumerations are plain integers to MPI_T; their items are listed in the description, in
 * order from 0 on, each as "name - text", in some releases without an end of line in between. */
static int item_of_description(const char *description, const char *word, long *value) {
    size_t length = strlen(word);
    const char *counted = description;
    for (const char *at = description; length && (at = strstr(at, word)); at++) {
        const char *dash = at + length + strspn(at + length, " ");
        if (dash == at + length || dash[0] != '-' || (at > description && at[-1] == '_')) continue;
        *value = 0;
        while ((counted = strstr(counted, " - ")) && counted + 1 < dash) {
            ++*value;
            counted++;
        }
        return 0;
    }
    return 1;
}

/* `text` is a number or an item of the variable's enumeration, which MPI_T or the description lists. */
static int number(const facts_t *facts, const char *text, long *value) {
    char *end;
    *value = strtol(text, &end, 10);
    if (*text && !*end) return 0;
    if (facts->items != MPI_T_ENUM_NULL) return item_of_enum(facts->items, text, value);
    return item_of_description(facts->description, text, value);
}

/* 1 if the variable cannot hold the value. */
static int encode(ct_cvar_t *v, const facts_t *facts, const char *text) {
    long value;
    if (v->count < 1 || v->width < 1 || v->count > CT_CVAR_LENGTH / v->width) return 1;
    if (v->count > 1) { /* a string */
        if (v->width != 1 || strlen(text) >= (size_t)v->count) return 1;
        strcpy(v->wanted, text);
        return 0;
    }
    if (number(facts, text, &value)) return 1;
    int integer = (int)value;
    signed char byte = (signed char)value;
    if (v->width == (int)sizeof value) memcpy(v->wanted, &value, sizeof value);
    else if (v->width == (int)sizeof integer && integer == value)
        memcpy(v->wanted, &integer, sizeof integer);
    else if (v->width == 1 && byte == value) memcpy(v->wanted, &byte, 1);
    else return 1;
    return 0;
}

/* ---- one variable ---- */

int ct_cvar_open(ct_cvar_t *v, const char *name, const char *value, ct_why_t *why) {
    facts_t facts;
    MPI_Datatype type;
    int index, none = 0, size = sizeof facts.description, verbosity, bind, scope;
    memset(v, 0, sizeof *v);
    if (PMPI(T_cvar_get_index)(name, &index) != MPI_SUCCESS ||
        PMPI(T_cvar_get_info)(index, NULL, &none, &verbosity, &type, &facts.items, facts.description,
                            &size, &bind, &scope) != MPI_SUCCESS)
        return ct_refuse(why, "there is no control variable %.100s", name);
    if (bind != MPI_T_BIND_NO_OBJECT || PMPI(Type_size)(type, &v->width) != MPI_SUCCESS ||
        PMPI(T_cvar_handle_alloc)(index, NULL, &v->handle, &v->count) != MPI_SUCCESS)
        return ct_refuse(why, "the control variable %.100s cannot be used", name);
    v->name = name;
    if (!encode(v, &facts, value)) return 0;
    ct_cvar_close(v);
    return ct_refuse(why, "the control variable %.100s cannot be %.60s", name, value);
}

int ct_cvar_write(ct_cvar_t *v) {
    size_t bytes = (size_t)v->count * (size_t)v->width;
    v->written = 0;
    if (PMPI(T_cvar_read)(v->handle, v->before) != MPI_SUCCESS) return 1;
    if (v->count > 1 ? !strcmp(v->before, v->wanted) : !memcmp(v->before, v->wanted, bytes))
        return 0;
    if (PMPI(T_cvar_write)(v->handle, v->wanted) != MPI_SUCCESS) return 1;
    v->written = 1;
    return 0;
}

void ct_cvar_restore(ct_cvar_t *v) {
    if (v->written) PMPI(T_cvar_write)(v->handle, v->before);
    v->written = 0;
}

void ct_cvar_close(ct_cvar_t *v) { PMPI(T_cvar_handle_free)(&v->handle); }
