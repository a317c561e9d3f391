/* Steers one communicator in many ways; the MPI library decides where nothing can be steered.
 *
 *   steers many|threads|idup NAME=VALUE ...     control variables of one algorithm of bcast; of a
 *                                               value, %d is replaced by the number of the turn
 *
 * libcolltune must be preloaded. Checks every broadcast, twice for each of 20 configurations. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 20, BYTES = 5000 };

static unsigned char bytes[BYTES];

static void broadcast(MPI_Comm comm, int turn) {
    int rank, size, root;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    root = turn % size;
    for (int i = 0; i < BYTES; i++) bytes[i] = rank == root ? (unsigned char)(i * 7 + turn) : 0;
    MPI_Bcast(bytes, BYTES, MPI_BYTE, root, comm);
    for (int i = 0; i < BYTES; i++)
        if (bytes[i] != (unsigned char)(i * 7 + turn)) MPI_Abort(MPI_COMM_WORLD, 9);
}

static void force(int turn, int n, char **settings) {
    int (*colltune_force)(const char *, const char *) = NULL;
    char text[1024];
    int at = snprintf(text, sizeof text, "library.bcast.steered:turn=%d", turn);
    *(void **)&colltune_force = dlsym(RTLD_DEFAULT, "colltune_force");
    for (int i = 0; i < n; i++) {
        text[at++] = ' ';
        at += snprintf(text + at, sizeof text - (size_t)at - 1, settings[i], turn);
    }
    if (!colltune_force || colltune_force("bcast", text)) MPI_Abort(MPI_COMM_WORLD, 8);
}

int main(int n, char **arguments) {
    int provided, rank, multiple = n > 1 && !strcmp(arguments[1], "threads");
    MPI_Init_thread(&n, &arguments, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm half, copy = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    /* not all processes of MPI_COMM_WORLD know of it */
    if (!strcmp(arguments[1], "idup") && rank % 2) MPI_Comm_idup(half, &copy, &request);
    for (int round = 0; round < 2; round++) {
        for (int turn = 0; turn < TURNS; turn++) {
            force(turn, n - 2, arguments + 2);
            broadcast(MPI_COMM_WORLD, turn);
            if (turn < 3) broadcast(half, turn);
        }
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (copy != MPI_COMM_NULL) MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
    if (!rank) puts("all right");
    return MPI_Finalize() != MPI_SUCCESS;
}
