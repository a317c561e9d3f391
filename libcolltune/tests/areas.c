/* Datatypes, and memory that shows what was written where. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, UNTOUCHED = 0x5A };

named_type_t types[MOST_TYPES];
int n_types;
long checks;
int ours_only;
const char *forced = "nothing", *communicator = "none";

static void add(const char *name, MPI_Datatype type, int is_derived) {
    int size = 0;
    if (type == MPI_DATATYPE_NULL) return;
    MPI_Type_size(type, &size);
    if (!is_derived && size == 0) return; /* a Fortran type of an MPI without Fortran */
    types[n_types++] = (named_type_t){name, type, is_derived};
}

static void add_derived(const char *name, MPI_Datatype type) {
    MPI_Type_commit(&type);
    add(name, type, 1);
}

#define PREDEFINED(name) add(#name, name, 0)

static void add_predefined(void) {
    PREDEFINED(MPI_INT), PREDEFINED(MPI_DOUBLE), PREDEFINED(MPI_CHAR), PREDEFINED(MPI_BYTE);
    PREDEFINED(MPI_SIGNED_CHAR), PREDEFINED(MPI_UNSIGNED_CHAR), PREDEFINED(MPI_SHORT);
    PREDEFINED(MPI_UNSIGNED_SHORT), PREDEFINED(MPI_UNSIGNED), PREDEFINED(MPI_LONG);
    PREDEFINED(MPI_UNSIGNED_LONG), PREDEFINED(MPI_LONG_LONG), PREDEFINED(MPI_UNSIGNED_LONG_LONG);
    PREDEFINED(MPI_FLOAT), PREDEFINED(MPI_LONG_DOUBLE), PREDEFINED(MPI_WCHAR);
    PREDEFINED(MPI_C_BOOL), PREDEFINED(MPI_INT8_T), PREDEFINED(MPI_INT16_T);
    PREDEFINED(MPI_INT32_T), PREDEFINED(MPI_INT64_T), PREDEFINED(MPI_UINT8_T);
    PREDEFINED(MPI_UINT16_T), PREDEFINED(MPI_UINT32_T), PREDEFINED(MPI_UINT64_T);
    PREDEFINED(MPI_C_FLOAT_COMPLEX), PREDEFINED(MPI_C_DOUBLE_COMPLEX);
    PREDEFINED(MPI_C_LONG_DOUBLE_COMPLEX), PREDEFINED(MPI_AINT), PREDEFINED(MPI_OFFSET);
    PREDEFINED(MPI_COUNT), PREDEFINED(MPI_FLOAT_INT), PREDEFINED(MPI_DOUBLE_INT);
    PREDEFINED(MPI_LONG_INT), PREDEFINED(MPI_2INT), PREDEFINED(MPI_SHORT_INT);
    PREDEFINED(MPI_LONG_DOUBLE_INT), PREDEFINED(MPI_INTEGER), PREDEFINED(MPI_REAL);
    PREDEFINED(MPI_DOUBLE_PRECISION), PREDEFINED(MPI_COMPLEX), PREDEFINED(MPI_DOUBLE_COMPLEX);
    PREDEFINED(MPI_LOGICAL), PREDEFINED(MPI_CHARACTER);
}

void make_types(void) {
    int lengths[] = {2, 1, 3}, places[] = {7, 0, 3};
    MPI_Aint bytes[] = {0, 8, 24};
    MPI_Datatype parts[] = {MPI_SHORT, MPI_DOUBLE, MPI_CHAR}, made, inner;
    add_predefined();
    MPI_Type_contiguous(3, MPI_INT, &made);
    add_derived("contiguous", made);
    MPI_Type_vector(3, 2, 5, MPI_INT, &made);
    add_derived("vector", made);
    MPI_Type_indexed(3, lengths, places, MPI_FLOAT, &made);
    add_derived("indexed out of order", made);
    MPI_Type_create_struct(3, lengths, bytes, parts, &made);
    add_derived("struct with gaps", made);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 20, &made);
    add_derived("resized", made);
    MPI_Type_create_resized(MPI_INT, -8, 24, &made);
    add_derived("negative lower bound", made);
    MPI_Type_vector(2, 1, 2, types[n_types - 3].type, &inner);
    MPI_Type_contiguous(2, inner, &made);
    add_derived("nested", made);
    MPI_Type_free(&inner);
    MPI_Type_contiguous(0, MPI_INT, &made);
    add_derived("empty", made);
}

void free_types(void) {
    for (int i = 0; i < n_types; i++)
        if (types[i].is_derived) MPI_Type_free(&types[i].type);
}

static size_t magnitude(MPI_Aint offset) { return (size_t)(offset < 0 ? -offset : offset); }

area_t new_area(MPI_Datatype type, long count) {
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
    int size;
    MPI_Type_size(type, &size);
    if (size == 0) lower = extent = true_lower = true_extent = 0; /* they may be anything */
    size_t before = GUARD + magnitude(lower) + magnitude(true_lower);
    size_t bytes = 2 * before + (size_t)count * magnitude(extent) + magnitude(true_extent);
    area_t area = {.memory = malloc(bytes), .bytes = bytes};
    if (!area.memory) MPI_Abort(MPI_COMM_WORLD, 3);
    memset(area.memory, UNTOUCHED, bytes);
    area.base = area.memory + before;
    return area;
}

void free_area(area_t *area) {
    free(area->memory);
    area->memory = NULL;
}

int has_padding(MPI_Datatype type) {
    return type == MPI_LONG_DOUBLE || type == MPI_C_LONG_DOUBLE_COMPLEX ||
           type == MPI_LONG_DOUBLE_INT;
}

/* Of a long double 10 bytes count; the others may be copied or not. */
static int is_padding(MPI_Datatype type, int byte) {
    if (!has_padding(type)) return 0;
    int place = byte % (type == MPI_LONG_DOUBLE_INT ? 20 : 16);
    return place >= 10 && place < 16;
}

void put(const area_t *area, MPI_Datatype type, long at, int count, long seed) {
    MPI_Aint lower, extent;
    int size, position = 0;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lower, &extent);
    int bytes = count * size;
    if (!bytes) return;
    unsigned char *packed = malloc((size_t)bytes);
    if (!packed) MPI_Abort(MPI_COMM_WORLD, 3);
    unsigned long state = (unsigned long)seed * 2654435761u + 1;
    for (int i = 0; i < bytes; i++) {
        state = state * 6364136223846793005UL + 1442695040888963407UL;
        packed[i] = is_padding(type, i) ? UNTOUCHED : (unsigned char)(state >> 56);
    }
    MPI_Unpack(packed, bytes, &position, area->base + at * extent, count, type, MPI_COMM_SELF);
    free(packed);
}

void expect(int holds, const char *what, const char *type, long count) {
    int rank;
    checks++;
    if (holds) return;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("WRONG: %s, %s, %s, %s of %ld, process %d\n", forced, communicator, what, type, count,
           rank);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

void expect_same(const area_t *got, const area_t *wanted, const char *what, const char *type,
                 long count) {
    expect(!memcmp(got->memory, wanted->memory, wanted->bytes), what, type, count);
}
