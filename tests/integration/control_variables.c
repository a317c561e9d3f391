/* Reads lines "NAME VALUE" and tells for each whether MPI takes the value, 1 or 0, and for variables of
   Open MPI what it reads there. */
#define _GNU_SOURCE
#include <mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_number(int out, const char *wanted) {
    int variables = 0;
    MPI_T_cvar_get_num(&variables);
    for (int i = 0; i < variables; i++) {
        char name[512];
        int length = sizeof name, verbosity, bind, scope, count, none = 0;
        MPI_Datatype type;
        MPI_T_enum words;
        MPI_T_cvar_handle handle;
        if (MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &words, NULL, &none, &bind, &scope) ||
            strcmp(name, wanted) || MPI_T_cvar_handle_alloc(i, NULL, &handle, &count))
            continue;
        char read[4096] = "";
        MPI_T_cvar_read(handle, read);
        int number;
        memcpy(&number, read, sizeof number);
        if (type == MPI_C_BOOL) number = read[0];
        dprintf(out, " %d", number);
        return;
    }
}

int main(void) {
    char *all = NULL;
    size_t size = 0;
    if (getdelim(&all, &size, 0, stdin) < 0) return 2;
    /* a child that ends would move the place where this one reads */
    fclose(stdin);
    for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n")) {
        char *value = strchr(line, ' ');
        if (!value) return 2;
        *value++ = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int provided, out = dup(1), quiet = open("/dev/null", O_WRONLY);
            dup2(quiet, 1);
            dup2(quiet, 2);
            setenv(line, value, 1);
            if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) _exit(1);
            dprintf(out, "1");
            if (strncmp(line, "OMPI_MCA_", 9) == 0) print_number(out, line + 9);
            dprintf(out, "\n");
            _exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) puts("0");
    }
    return 0;
}
