/* Preloaded into ReproMPI's mpibenchmark, which waits for the beginning of a window by reading its
 * clock again and again: whoever reads it gives way, for there are fewer processors than processes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

double PMPI_Wtime(void) {
    static double (*clock)(void);
    if (!clock) *(void **)&clock = dlsym(RTLD_NEXT, "PMPI_Wtime");
    double now = clock();
    sched_yield();
    return now;
}
