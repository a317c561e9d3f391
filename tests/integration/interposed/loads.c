/* A program without MPI that loads one by a library of its own, for itself alone.
 *
 * usage: loads LIBRARY */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int (*run)(void);
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "loads: %s\n", dlerror());
        return 2;
    }
    *(void **)&run = dlsym(library, "run");
    return run ? run() : 3;
}
