/* Lists the control variables of an MPI library (MPI_T), one a line, fields between tabs: name,
 * type, scope, value, items of its enumeration as number=name between spaces, description. Line
 * ends and tabs in texts are written as \n and \t. MPI itself is not started. */
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

static void items(MPI_T_enum enumeration) {
    int count = 0, length = 0, number;
    if (enumeration == MPI_T_ENUM_NULL) return;
    if (MPI_T_enum_get_info(enumeration, &count, NULL, &length) != MPI_SUCCESS) return;
    for (int i = 0; i < count; i++) {
        length = 0;
        MPI_T_enum_get_item(enumeration, i, &number, NULL, &length);
        char *name = room(length);
        if (MPI_T_enum_get_item(enumeration, i, &number, name, &length) == MPI_SUCCESS)
            printf("%s%d=%s", i ? " " : "", number, name);
        free(name);
    }
}

static void variable(int index) {
    int name_length = 0, text_length = 0, verbosity, bind, scope;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    if (MPI_T_cvar_get_info(index, NULL, &name_length, &verbosity, &type, &enumeration, NULL,
                            &text_length, &bind, &scope) != MPI_SUCCESS)
        return;
    char *name = room(name_length), *text = room(text_length);
    MPI_T_cvar_get_info(index, name, &name_length, &verbosity, &type, &enumeration, text,
                        &text_length, &bind, &scope);
    int fixed = scope == MPI_T_SCOPE_CONSTANT || scope == MPI_T_SCOPE_READONLY;
    printf("%s\t%s\t%s\t", name, type == MPI_INT ? "int" : type == MPI_CHAR ? "char" : "other",
           fixed ? "read-only" : "writeable");
    value(index, type, bind);
    putchar('\t');
    items(enumeration);
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
