/* The buckets in which seconds of calls are counted: the logarithmic mapping of DDSketch (Masson, Rim,
 * Lee, VLDB 2019) with a relative accuracy of 0.05, for 100 ns to 1000 s; shorter and longer calls count
 * in the first and the last one. colltune.dataset.profile.bucket gives the same numbers. */
#ifndef CT_SKETCH_H
#define CT_SKETCH_H

#include <math.h>

enum { CT_FIRST_TIME = -161, CT_LAST_TIME = 70, CT_TIMES = CT_LAST_TIME - CT_FIRST_TIME + 1 };

static inline int ct_bucket(double seconds) {
    if (!(seconds > 0)) return CT_FIRST_TIME;
    double number = ceil(log(seconds) / log(1.05 / 0.95));
    if (number < CT_FIRST_TIME) return CT_FIRST_TIME;
    return number > CT_LAST_TIME ? CT_LAST_TIME : (int)number;
}

#endif
