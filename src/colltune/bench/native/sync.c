/* Barriers that carry a little knowledge. */
#include "collbench.h"

enum { MOST_VALUES = 8 };

/* A dissemination barrier made of point-to-point messages, so that no collective under test is part
 * of it. The maximum is idempotent: that a value arrives on several ways does no harm. */
void exchange(const group_t *group, double *values, int n) {
    double arrived[MOST_VALUES];
    int rank = group->rank, size = group->size;
    for (int distance = 1; distance < size; distance *= 2) {
        MPI_Sendrecv(values, n, MPI_DOUBLE, (rank + distance) % size, SYNC_TAG, arrived, n,
                     MPI_DOUBLE, (rank - distance + size) % size, SYNC_TAG, group->base,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            if (arrived[i] > values[i]) values[i] = arrived[i];
    }
}

/* Processes that have nothing to measure wait here, for seconds: they must not take cores or memory
 * bandwidth from those that do. */
double polite_maximum(double value) {
    double maximum, wait = 1e-6;
    MPI_Request request;
    MPI_Iallreduce(&value, &maximum, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    for (int done = 0;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) return maximum;
        pause_for(wait);
        wait = wait < 5e-4 ? 2 * wait : 1e-3;
    }
}
