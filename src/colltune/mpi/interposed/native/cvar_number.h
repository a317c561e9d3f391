/* What number a control variable takes for a text. */
#ifndef CT_CVAR_NUMBER_H
#define CT_CVAR_NUMBER_H

#include <mpi.h>

/* `text` is a number, or the name of an item of the variable's enumeration, which `items` knows or,
 * where that is MPI_T_ENUM_NULL, its description lists. 1: neither. */
int ct_cvar_number(MPI_T_enum items, const char *description, const char *text, long *value);

#endif
