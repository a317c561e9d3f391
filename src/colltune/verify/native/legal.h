/* What the parts of the conformance program share; legal.c tells what it does. */
#ifndef COLLTUNE_LEGAL_H
#define COLLTUNE_LEGAL_H

#include <mpi.h>
#include <stddef.h>

enum { WORD = 96 };

/* One call: a collective in a mode. `ints` are the elements of a block (of the whole buffer for
 * bcast and reductions); which of a mode's ways, `variant` tells. */
typedef struct {
    int number, config, variant;
    char collective[WORD], mode[WORD];
    size_t ints;
} case_t;

typedef enum { RIGHT, SKIPPED, WRONG, ABORTS } answer_t;

/* ---- legal_data.c: memory, of which every byte is known before and after a call ---- */

/* Elements of a datatype: `n` values of `width` bytes each, at these bytes from its start. */
typedef struct {
    MPI_Datatype type;
    int width, named; /* named: of MPI's own, never freed */
    size_t n;
    MPI_Aint *at, extent, low, high; /* low, high: the bytes that an element reaches over */
} layout_t;

typedef struct {
    unsigned char *raw, *base; /* base: where element 0 starts */
    size_t length;
    int is_mapped; /* can be made constant */
} area_t;

typedef enum { INTS, BYTES, WHOLE, HUNDREDS, COLUMN, GAPS, BACKWARDS, BELOW, RESIZED, EMPTY,
               EMPTY_WIDE } shape_t;

/* A layout for blocks of `ints` values; `columns` are the blocks that lie side by side. */
layout_t new_layout(shape_t shape, size_t ints, int columns);
void free_layout(layout_t *layout);
void make_absolute(layout_t *layout, const area_t *area); /* from MPI_BOTTOM on */

/* Room for `elements` of a layout with guards around, all of it in one pattern; `shift` moves it. */
area_t new_area(const layout_t *layout, size_t elements, int shift);
area_t new_room(MPI_Aint low, MPI_Aint high, int shift);
void free_area(area_t *area);
void make_constant(area_t *area); /* writing to it ends the program */

/* Write the values that `from` has for `to` into `count` elements, beginning with `first`. */
void put(const area_t *area, const layout_t *layout, size_t first, size_t count, int from, int to);
int differs(const area_t *area, const area_t *wanted);
void *room(size_t bytes);

/* ---- legal_moves.c, legal_reductions.c, legal_bits.c, legal_large.c: the calls ---- */

/* Where a call takes place. Ids tell processes apart, of both groups of an intercommunicator. */
typedef struct {
    MPI_Comm comm;
    int rank, size, peers; /* peers: those that blocks come from and go to */
    int between;           /* an intercommunicator */
    int upper;             /* of its second group, whose ids start at `UPPER` */
    int root, root_word;   /* root_word: what the call is told */
    int is_root, in_root_group;
} place_t;
enum { UPPER = 1000 };

place_t place_in(MPI_Comm comm, int root, int upper);
int own_id(const place_t *place);
int peer_id(const place_t *place, int peer);

/* What a mode does beside the tidy call. */
typedef struct {
    shape_t out, in; /* of this rank */
    int root, in_place, without_ignored, uneven, shared, absolute, shift, constant;
    int element; /* of reductions: which kind of element and operation */
} way_t;

answer_t move(const place_t *place, const case_t *one, const way_t *way);
answer_t reduce(const place_t *place, const case_t *one, const way_t *way);
int is_move(const char *collective);
int is_rooted(const char *collective);
int has_counts(const char *collective); /* one for each peer */
int is_reduction(const char *collective);
/* Choose the element and operation that a mode's variant stands for: ints that are added, where the
 * mode is not about them. Returns what else the variant may mean. */
int choose_element(const char *mode, int variant, way_t *way);
void make_elements(void);

answer_t large(const place_t *place, const case_t *one);
answer_t bits(const place_t *place, const case_t *one, char *text); /* text: of 2 WORDs */
int is_large_known(const char *collective);
int has_room_for(const case_t *one, int processes); /* on this host, with what a library keeps */

/* What the last call returned, and what is wrong with what it left; of this rank. */
extern char reason[256];
answer_t told(int code, int wrong, const char *what);

/* ---- legal.c ---- */

extern int world_rank, world_size;
void quit(const char *what, const char *detail);
int worst(int mine); /* the largest of all ranks of the world */
unsigned all_hashed(unsigned mine, int *equal); /* one hash of all ranks' hashes, in their order */

#endif
