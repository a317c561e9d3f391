/* Values of control variables, as numbers or by name; the benchmark is compiled with it, too. */
#include "cvar_number.h"

#include <stdlib.h>
#include <string.h>

enum { ITEM_LENGTH = 128 };

/* Value of the item `word` of an enumeration that MPI_T knows. */
static int item_of_enum(MPI_T_enum items, const char *word, long *value) {
    int n, number, length = 0;
    if (MPI_T_enum_get_info(items, &n, NULL, &length) != MPI_SUCCESS) return 1;
    for (int i = 0; i < n; i++) {
        char name[ITEM_LENGTH];
        length = sizeof name;
        if (MPI_T_enum_get_item(items, i, &number, name, &length) != MPI_SUCCESS) return 1;
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

int ct_cvar_number(MPI_T_enum items, const char *description, const char *text, long *value) {
    char *end;
    *value = strtol(text, &end, 10);
    if (*text && !*end) return 0;
    if (items != MPI_T_ENUM_NULL) return item_of_enum(items, text, value);
    return item_of_description(description, text, value);
}
