/* Numbers whose sums depend on the order of the additions: kinds of them, and hashes of their bits. */
#ifndef COLLTUNE_NUMBERS_H
#define COLLTUNE_NUMBERS_H

#include "collectives.h"

/* Element k of a rank is like element k + PERIOD. Few elements could be equal by chance, so that
 * messages of less than FEW are to be reduced several times with other data, FEW elements in all. */
enum { PERIOD = 61, FEW = 16, SALTS = FEW, KINDS = 8, FIRST_PRODUCT = 3, PRODUCTS = 2, FIRST_OWN = 6 };
extern const unsigned EMPTY_HASH;

typedef struct {
    MPI_Datatype type;
    MPI_Op op;
    size_t width, meant; /* meant: bytes of an element that have a meaning */
    int spread;          /* of exponents; large: sums cancel */
    int in_place, last;  /* of the conformance program; last: the root is the last rank */
    void (*fill)(void *element, int from, size_t k, int salt, int spread);
} number_t;

/* From FIRST_OWN on they are reduced by a program's own operations. */
extern number_t number_kinds[KINDS];
void make_numbers(void);

/* Write the `n` elements that rank `from` sends. */
void fill_numbers(const number_t *kind, unsigned char *into, size_t n, int from, int salt);

unsigned fold_hash(unsigned hash, const void *bytes, size_t n);
unsigned hash_numbers(const number_t *kind, const unsigned char *numbers, size_t n);

/* ---- checks of what a reduction gives; sums of doubles come first ---- */

enum { SUMMED = 4 };

/* Kind number 0..SUMMED-1 of those whose sums are checked. */
number_t summed_kind(int number);

/* Of how many kinds they are checked: of all where the ranks have to agree, else of doubles. */
int kinds_to_check(const collective_t *collective);
int ranks_must_agree(const collective_t *collective);

/* What one rank saw: an error that a call returned, or whether a sum of doubles is wrong; and a hash
 * of the bits that it holds. */
typedef struct { int code, wrong; unsigned hash; } sums_t;

/* Reduce numbers of a kind in messages of at most call->msize, by `run`, which is told `with`. The call's
 * buffers are used; else it stays as it is. Kinds that do not fit, or that the library does not have,
 * are not tried. */
sums_t sum_numbers(const call_t *call, const collective_t *collective, const number_t *kind,
                   int (*run)(call_t *call, void *with), void *with);

#endif
