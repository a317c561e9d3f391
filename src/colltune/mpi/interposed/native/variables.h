/* The MPI library's control variables (MPI_T), by which steer.c chooses its algorithms. */
#ifndef CT_VARIABLES_H
#define CT_VARIABLES_H

#include "ct.h"

/* The variables of one configuration: opened, with what is to be written. */
typedef struct ct_variables ct_variables_t;

/* NULL, with `why` written, if one is unknown or cannot hold its value. */
ct_variables_t *ct_variables_of(const ct_configuration_t *configuration, char *why, size_t length);
/* Write all of them; 1, with `why` written and all as before, if one cannot be written. */
int ct_variables_write(ct_variables_t *variables, char *why, size_t length);
void ct_variables_restore(ct_variables_t *variables);
void ct_variables_free(ct_variables_t *variables);

#endif
