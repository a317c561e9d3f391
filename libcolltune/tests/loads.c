/* A program without MPI that loads libraries of its own which use one, each for itself alone, and then
 * calls one after the other.
 *
 * usage: loads LIBRARY... */
#include <dlfcn.h>
#include <stdio.h>

enum { MOST = 4 };

int main(int argc, char **argv) {
    int (*run[MOST])(void), failed = argc < 2 || argc > MOST + 1;
    for (int i = 1; i < argc && !failed; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (library) *(void **)&run[i - 1] = dlsym(library, "run");
        failed = !library || !run[i - 1];
        if (failed) fprintf(stderr, "loads: %s\n", dlerror());
    }
    for (int i = 1; i < argc && !failed; i++) failed = run[i - 1]();
    return failed;
}
