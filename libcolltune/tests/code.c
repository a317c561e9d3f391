/* Code that belongs to no library, as a compiler at run time makes it, calls MPI functions: usage: code
 * LIBMPI; prints "right". For x86-64. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef int function_t(void *, void *);

/* push rbp; mov rax, FUNCTION; call rax; pop rbp; ret: MPI returns to it. */
static function_t *compiled(void *function) {
    unsigned char code[] = {0x55, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
    void *room = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    function_t *made;
    if (!function || room == MAP_FAILED) return NULL;
    memcpy(code + 3, &function, sizeof function);
    memcpy(room, code, sizeof code);
    *(void **)&made = room;
    return made;
}

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!library) return 2;
    function_t *begin = compiled(dlsym(RTLD_DEFAULT, "MPI_Init"));
    function_t *barrier = compiled(dlsym(RTLD_DEFAULT, "MPI_Barrier"));
    function_t *end = compiled(dlsym(RTLD_DEFAULT, "MPI_Finalize"));
#ifdef OPEN_MPI
    void *world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
#else
    void *world = (void *)(long)MPI_COMM_WORLD;
#endif
    if (!begin || !barrier || !end || begin(NULL, NULL) || barrier(world, NULL) || end(NULL, NULL))
        return 3;
    puts("right");
    return 0;
}
