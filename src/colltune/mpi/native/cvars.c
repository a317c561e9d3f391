/* Lists the control variables of an MPI library (MPI_T), one a line, fields between tabs: name,
 * scope, value, description. Line ends and tabs in texts are written as \n and \t. MPI itself is not
 * started. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void escaped(const char *text) {
    for (; *text; text++) {
        if (*text == '\n') fputs("\\n", stdout);
        else if (*text == '\t') fputs("\\t", stdout);
        else putchar(*text);
    }
}

static char *room(int length) {
    char *text = calloc((size_t)(length > 0 ? length : 0) + 1, 1);
    if (!text) exit(1);
    return text;
}

static void value(int index, MPI_Datatype type, int bind) {
    MPI_T_cvar_handle handle;
    int count = 0, number;
    if (bind != MPI_T_BIND_NO_OBJECT) return;
    if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) return;
    if (type == MPI_CHAR) {
        char *text = room(count);
        if (MPI_T_cvar_read(handle, text) == MPI_SUCCESS) escaped(text);
        free(text);
    } else if (type == MPI_INT && count == 1) {
        if (MPI_T_cvar_read(handle, &number) == MPI_SUCCESS) printf("%d", number);
    }
    MPI_T_cvar_handle_free(&handle);
}

static void variable(int index) {
    int name_length = 0, text_length = 0, verbosity, bind, scope;
    MPI_Datatype type;
    if (MPI_T_cvar_get_info(index, NULL, &name_length, &verbosity, &type, NULL, NULL,
                            &text_length, &bind, &scope) != MPI_SUCCESS)
        return;
    char *name = room(name_length), *text = room(text_length);
    MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &type, NULL, text,
                        &text_length, &bind, &scope);
    int fixed = scope == MPI_T_SCOPE_CONSTANT || scope == MPI_T_SCOPE_READONLY;
    printf("%s\t%s\t", name, fixed ? "read-only" : "writeable");
    value(index, type, bind);
    putchar('\t');
    escaped(text);
    putchar('\n');
    free(name);
    free(text);
}

int main(void) {
    int provided, count = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return 1;
    if (MPI_T_cvar_get_num(&count) != MPI_SUCCESS) return 1;
    for (int i = 0; i < count; i++) variable(i);
    MPI_T_finalize();
    return 0;
}
