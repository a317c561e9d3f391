/* Named values: each lies at one address until the program ends, which MPI's attributes tell. */
#include "rules.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct value {
    struct value *next;
    char name[CT_NAME_LENGTH];
    long number;
    int keyval;
} value_t;

static value_t *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list; values are atomic */

static value_t *find(const char *name) {
    value_t *value;
    pthread_mutex_lock(&lock);
    for (value = all; value && strcmp(value->name, name);) value = value->next;
    pthread_mutex_unlock(&lock);
    return value;
}

long *ct_value(const char *name) {
    value_t *value = find(name);
    return value ? &value->number : NULL;
}

int ct_value_set(const char *name, long number) {
    value_t *value = find(name);
    if (!value) {
        if (!(value = calloc(1, sizeof *value))) return 1;
        strncpy(value->name, name, sizeof value->name - 1);
        value->keyval = MPI_KEYVAL_INVALID;
        pthread_mutex_lock(&lock);
        value->next = all;
        all = value;
        pthread_mutex_unlock(&lock);
    }
    __atomic_store_n(&value->number, number, __ATOMIC_RELAXED);
    return 0;
}

int ct_value_keyval(const char *name, int *keyval) {
    value_t *value = find(name);
    int begun = 0, ended = 1;
    PMPI(Initialized)(&begun);
    PMPI(Finalized)(&ended);
    if (!value || !ct_world_size || !begun || ended) return 1;
    if (value->keyval == MPI_KEYVAL_INVALID) {
        int made;
        if (PMPI(Comm_create_keyval)(ct_no_copy, ct_no_deletion, &made, NULL) !=
                MPI_SUCCESS ||
            PMPI(Comm_set_attr)(MPI_COMM_WORLD, made, &value->number) != MPI_SUCCESS)
            return 1;
        value->keyval = made;
    }
    *keyval = value->keyval;
    return 0;
}

void ct_values_end(void) {
    for (value_t *value = all; value; value = value->next) {
        if (value->keyval == MPI_KEYVAL_INVALID) continue;
        PMPI(Comm_delete_attr)(MPI_COMM_WORLD, value->keyval);
        PMPI(Comm_free_keyval)(&value->keyval);
    }
}

void ct_values_each(void (*take)(const char *name, long value, void *extra), void *extra) {
    for (value_t *value = all; value; value = value->next)
        take(value->name, __atomic_load_n(&value->number, __ATOMIC_RELAXED), extra);
}
