/* What many communicators hold of /dev/shm.
 *
 *   pool WORD: prints how many MiB one process maps at most after calls that need much, and for how
 * many of the files there is memory: then, after many small calls if WORD is `idle`, and when all
 * communicators are free. With MPI_THREAD_MULTIPLE if it is `threads`.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANY = 8, MIB = 1 << 20, SMALL_CALLS = 520, BLOCK = 512 };
static const char ours[] = "/dev/shm/colltune-";
static int rank, size;

static long mapped(void) {
    char line[500];
    unsigned long bytes = 0, from, to;
    long most, mib;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, ours) && sscanf(line, "%lx-%lx", &from, &to) == 2) bytes += to - from;
    if (maps) fclose(maps);
    mib = (long)(bytes / MIB);
    PMPI_Allreduce(&mib, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* Of files that are open: each is by one process. */
static long backed(void) {
    char path[300], target[300];
    struct dirent *entry;
    struct stat file;
    long blocks = 0, all;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = '\0';
        if (!strncmp(target, ours, sizeof ours - 1) && !stat(path, &file)) blocks += (long)file.st_blocks;
    }
    if (folder) closedir(folder);
    PMPI_Barrier(MPI_COMM_WORLD);
    PMPI_Allreduce(&blocks, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all * BLOCK / MIB;
}

static void gather(MPI_Comm comm, int bytes) {
    char *mine = malloc((size_t)bytes), *all = malloc((size_t)bytes * (size_t)size);
    memset(mine, rank + 1, (size_t)bytes);
    memset(all, 0, (size_t)bytes * (size_t)size);
    MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm);
    for (int r = 0; r < size; r++)
        if (all[(size_t)r * (size_t)bytes] != r + 1 || all[(size_t)(r + 1) * (size_t)bytes - 1] != r + 1)
            MPI_Abort(MPI_COMM_WORLD, 1);
    free(mine), free(all);
}

int main(int count, char **arguments) {
    int provided, level = MPI_THREAD_SINGLE;
    if (count != 2) return 2;
    int small_calls = strcmp(arguments[1], "idle") ? 0 : SMALL_CALLS;
    if (!strcmp(arguments[1], "threads")) level = MPI_THREAD_MULTIPLE;
    MPI_Comm comms[MANY];
    MPI_Init_thread(&count, &arguments, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < MANY; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        gather(comms[i], 16 * MIB);
    }
    long most = mapped(), large = backed();
    for (int i = 0; i < MANY; i++)
        for (int call = 0; call < small_calls; call++) gather(comms[i], 8);
    long idle = backed();
    for (int i = 0; i < MANY; i++) gather(comms[i], 4 * MIB);
    for (int i = 0; i < MANY; i++) MPI_Comm_free(&comms[i]);
    long freed = backed() + mapped();
    if (!rank) printf("%ld MiB mapped, %ld large, %ld idle, %ld freed\n", most, large, idle, freed);
    MPI_Finalize();
    return 0;
}
