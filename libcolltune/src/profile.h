/* What profile.c (counting, adding up) and profile_file.c (writing) share. */
#ifndef CT_PROFILE_H
#define CT_PROFILE_H

#include "ct.h"
#include "sketch.h"

#include <stdint.h>

enum { CT_PATH_LENGTH = 4096 };

/* Calls of one kind, of one process or added up: seconds are those that processes were inside. */
typedef struct {
    int collective, size, nodes, ppn, bin; /* nodes 0: not known; ppn 0: not known, or uneven */
    char id[CT_ID_LENGTH];                 /* of the configuration; empty: the library's own */
    uint64_t calls, bytes, least_bytes, most_bytes;
    uint64_t timed;
    double timed_s, least_s, most_s, squares_s2; /* of the calls that were timed */
    double time_s;                               /* of all, estimated */
    uint64_t *times; /* the timed calls by bucket, from CT_FIRST_TIME on; the owner's; NULL: none */
} ct_record_t;

/* Records, by kind where they are sent or written. */
typedef struct {
    size_t n, room;
    ct_record_t *items;
    uint64_t lost_calls; /* for which there was no room */
} ct_records_t;

/* Of processes: seconds in collectives (sum, least and most of one), wall time (most). */
typedef struct {
    uint64_t n, lost_calls;
    double collective_s, least_s, most_s, wall_s;
} ct_totals_t;

typedef struct {
    int size, nodes, ppn;
} ct_shape_t;

/* What is written: one in `rate` calls was timed. */
typedef struct {
    uint32_t rate;
    ct_shape_t world;
    ct_records_t records;
    ct_totals_t totals;
} ct_run_t;

/* Where it is written, and for whom: the site's own file is short, tells no host, and a program's
 * name only where the site keeps them. */
typedef struct {
    char folder[CT_PATH_LENGTH]; /* empty: nowhere */
    int is_site;
} ct_place_t;

/* Write the file, whole or not at all; one line in the log if that fails. May sort the records. */
void ct_profile_write(const ct_place_t *place, ct_run_t *run);

#endif
