/* Layouts of data in memory, and areas whose every byte is compared. */
#define _GNU_SOURCE
#include "legal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARD = 256, HUNDRED = 100 };

void *room(size_t bytes) {
    void *found = calloc(bytes ? bytes : 1, 1);
    if (!found) quit("out of memory", "");
    return found;
}

/* ---- layouts ---- */

static MPI_Datatype resized(MPI_Datatype type, MPI_Aint low, MPI_Aint extent) {
    MPI_Datatype found;
    MPI_Type_create_resized(type, low, extent, &found);
    MPI_Type_free(&type);
    return found;
}

static layout_t of_values(size_t n, int width, MPI_Aint extent) {
    layout_t made = {.type = width == 1 ? MPI_BYTE : MPI_INT, .width = width, .named = n == 1, .n = n};
    made.at = room(n * sizeof *made.at);
    made.extent = extent;
    return made;
}

static layout_t evenly(size_t n, MPI_Aint apart, MPI_Aint extent) {
    layout_t made = of_values(n, sizeof(int), extent);
    for (size_t i = 0; i < n; i++) made.at[i] = (MPI_Aint)i * apart;
    return made;
}

static layout_t listed(const MPI_Aint at[], size_t n, MPI_Aint extent) {
    layout_t made = of_values(n, sizeof(int), extent);
    for (size_t i = 0; i < n; i++) made.at[i] = at[i];
    return made;
}

static void find_reach(layout_t *made) {
    for (size_t i = 0; i < made->n; i++) {
        if (!i || made->at[i] < made->low) made->low = made->at[i];
        if (!i || made->at[i] + made->width > made->high) made->high = made->at[i] + made->width;
    }
}

static layout_t derived(layout_t made, MPI_Datatype type) {
    made.type = type;
    made.named = 0;
    MPI_Type_commit(&made.type);
    return made;
}

static layout_t shaped(shape_t shape, size_t ints, int columns) {
    static const MPI_Aint backwards[] = {12, 4, 0}, below[] = {-8, 12};
    static const int lengths[] = {1, 1, 1}, places[] = {3, 1, 0};
    enum { INT = sizeof(int) };
    int n = (int)ints;
    MPI_Datatype t = MPI_INT;
    switch (shape) {
    case INTS: return evenly(1, 0, INT);
    case BYTES: return of_values(1, 1, 1);
    case WHOLE:
        MPI_Type_contiguous(n, MPI_INT, &t);
        return derived(evenly(ints, INT, (MPI_Aint)ints * INT), t);
    case HUNDREDS:
        MPI_Type_contiguous(HUNDRED, MPI_INT, &t);
        return derived(evenly(HUNDRED, INT, (MPI_Aint)HUNDRED * INT), t);
    case COLUMN:
        MPI_Type_vector(n, 1, columns, MPI_INT, &t);
        return derived(evenly(ints, (MPI_Aint)columns * INT, INT), resized(t, 0, INT));
    case GAPS:
        MPI_Type_vector(3, 1, 2, MPI_INT, &t);
        return derived(evenly(3, 2 * INT, 5 * INT), t);
    case BACKWARDS:
        MPI_Type_indexed(3, lengths, places, MPI_INT, &t);
        return derived(listed(backwards, 3, 4 * INT), t);
    case BELOW:
        MPI_Type_create_hindexed(2, lengths, below, MPI_INT, &t);
        return derived(listed(below, 2, 40), resized(t, -8, 40));
    case RESIZED:
        MPI_Type_dup(MPI_INT, &t);
        return derived(evenly(1, 0, 3 * INT), resized(t, 0, 3 * INT));
    case EMPTY:
        MPI_Type_contiguous(0, MPI_INT, &t);
        return derived(evenly(0, 0, 0), t);
    default:
        MPI_Type_contiguous(0, MPI_INT, &t);
        return derived(evenly(0, 0, 8), resized(t, 0, 8));
    }
}

layout_t new_layout(shape_t shape, size_t ints, int columns) {
    layout_t made = shaped(shape, ints, columns);
    find_reach(&made);
    return made;
}

void free_layout(layout_t *layout) {
    if (!layout->named) MPI_Type_free(&layout->type);
    free(layout->at);
}

void make_absolute(layout_t *layout, const area_t *area) {
    const int one = 1;
    MPI_Aint lower, extent, start;
    MPI_Datatype moved;
    MPI_Get_address(area->base, &start);
    MPI_Type_get_extent(layout->type, &lower, &extent);
    MPI_Type_create_hindexed(1, &one, &start, layout->type, &moved);
    if (!layout->named) MPI_Type_free(&layout->type);
    layout->named = 0;
    layout->type = resized(moved, start + lower, extent);
    MPI_Type_commit(&layout->type);
}

/* ---- areas ---- */

static unsigned char guard(size_t i) { return (unsigned char)(i * 37U + (i >> 8) * 11U + 165U); }

area_t new_room(MPI_Aint low, MPI_Aint high, int shift) {
    area_t area;
    area.length = (size_t)(high - low) + 2 * GUARD + (size_t)shift;
    area.raw = mmap(NULL, area.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area.raw == MAP_FAILED) quit("out of memory", "");
    area.base = area.raw + GUARD + shift - low;
    for (size_t i = 0; i < area.length; i++) area.raw[i] = guard(i);
    return area;
}

area_t new_area(const layout_t *layout, size_t elements, int shift) {
    MPI_Aint high = layout->high;
    if (elements) high += (MPI_Aint)(elements - 1) * layout->extent;
    return new_room(layout->low, elements ? high : layout->low, shift);
}

void free_area(area_t *area) { munmap(area->raw, area->length); }

void make_constant(area_t *area) {
    if (mprotect(area->raw, area->length, PROT_READ)) quit("cannot protect memory", "");
}

static unsigned value(int from, int to, size_t k) {
    return 1U + (unsigned)from * 1000003U + (unsigned)to * 7919U + (unsigned)k * 31U +
           (unsigned)(k >> 16);
}

void put(const area_t *area, const layout_t *layout, size_t first, size_t count, int from, int to) {
    for (size_t i = 0, k = 0; i < count; i++) {
        unsigned char *element = area->base + (MPI_Aint)(first + i) * layout->extent;
        for (size_t j = 0; j < layout->n; j++, k++) {
            unsigned v = value(from, to, k);
            if (layout->width == 1) element[layout->at[j]] = (unsigned char)(v % 251);
            else memcpy(element + layout->at[j], &v, sizeof v);
        }
    }
}

int differs(const area_t *area, const area_t *wanted) {
    return memcmp(area->raw, wanted->raw, area->length) != 0;
}
