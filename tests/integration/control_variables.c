/* Reads lines "NAME VALUE" and tells for each whether MPICH takes the value: 1, or 0 where it ends. */
#include <mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, ' ');
        if (!value) return 2;
        *value++ = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int provided, quiet = open("/dev/null", O_WRONLY);
            dup2(quiet, 2);
            setenv(line, value, 1);
            _exit(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        printf("%d\n", WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
