/* Control variables of the MPI library (MPI_T). */
#ifndef CT_CVAR_H
#define CT_CVAR_H

#include "bound.h"
#include "why.h"

enum { CT_CVAR_LENGTH = 1024 };

/* One that is open, and what it is to hold. */
typedef struct {
    const char *name; /* the caller's */
    MPI_T_cvar_handle handle;
    int count, width, written;
    char wanted[CT_CVAR_LENGTH], before[CT_CVAR_LENGTH];
} ct_cvar_t;

/* `value` is a number, the name of an item of the variable's enumeration, or a string. 1, with `why`
 * written, if the variable is unknown or cannot hold it. */
int ct_cvar_open(ct_cvar_t *v, const char *name, const char *value, ct_why_t *why);
/* 1 if it cannot be written. One that holds the value already is left alone: it may be read-only. */
int ct_cvar_write(ct_cvar_t *v);
void ct_cvar_restore(ct_cvar_t *v); /* what it held before */
void ct_cvar_close(ct_cvar_t *v);

#endif
