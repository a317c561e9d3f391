/* A program without MPI that calls the functions of tails.c one after the other. usage: tail_host
 * LIBRARY; prints the functions that fail. */
#include <dlfcn.h>
#include <stdio.h>

typedef struct {
    const char *name;
    int (*call)(void);
} step_t;

int main(int argc, char **argv) {
    int (*right)(void), wrong = 0;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const step_t *step = library ? dlsym(library, "steps") : NULL;
    if (!step) {
        fprintf(stderr, "tail_host: %s\n", dlerror());
        return 2;
    }
    *(void **)&right = dlsym(library, "right");
    for (; step->name; step++) {
        int failed = step->call() || (step[1].name && !right());
        if (failed) printf("%s fails\n", step->name);
        wrong |= failed;
    }
    return wrong;
}
