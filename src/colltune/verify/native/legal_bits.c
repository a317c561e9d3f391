/* Reductions of numbers whose result depends on the order of the operations, as hashes of its bits. */
#include "legal.h"
#include "numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = KINDS * 9 + 1 };

static int is(const case_t *one, const char *name) { return !strcmp(one->collective, name); }

/* What one rank saw. */
typedef struct {
    unsigned hashes[KINDS], head;
    int again, place, code;
} seen_t;

static int reduce_numbers(const place_t *p, const case_t *one, const number_t *kind, void *sent,
                          void *got, size_t n, int *counts) {
    void *from = kind->in_place && !is(one, "reduce") ? MPI_IN_PLACE : sent;
    int root = kind->last ? p->size - 1 : 0;
    if (kind->in_place && is(one, "reduce") && p->rank == root) from = MPI_IN_PLACE;
    if (is(one, "allreduce")) return MPI_Allreduce(from, got, (int)n, kind->type, kind->op, p->comm);
    if (is(one, "reduce")) return MPI_Reduce(from, got, (int)n, kind->type, kind->op, root, p->comm);
    if (is(one, "scan")) return MPI_Scan(from, got, (int)n, kind->type, kind->op, p->comm);
    if (is(one, "exscan")) return MPI_Exscan(from, got, (int)n, kind->type, kind->op, p->comm);
    if (is(one, "reduce_scatter"))
        return MPI_Reduce_scatter(from, got, counts, kind->type, kind->op, p->comm);
    return MPI_Reduce_scatter_block(from, got, (int)n, kind->type, kind->op, p->comm);
}

/* How many elements a rank sends, and how many of the result are its own. */
static size_t lengths(const place_t *p, const case_t *one, const number_t *kind, size_t n, int *counts,
                      size_t *mine) {
    int root = kind->last ? p->size - 1 : 0;
    *mine = n;
    if (is(one, "reduce") && p->rank != root) *mine = 0;
    if (is(one, "exscan") && !p->rank) *mine = 0;
    for (int r = 0; r < p->size; r++)
        counts[r] = (int)(n / (size_t)p->size + ((size_t)r < n % (size_t)p->size));
    if (is(one, "reduce_scatter")) *mine = (size_t)counts[p->rank];
    return is(one, "reduce_scatter_block") ? n * (size_t)p->size : n;
}

/* A call's result as a hash; `got` stays as it is. */
static unsigned called_once(const place_t *p, const case_t *one, const number_t *kind, int salt,
                            unsigned char *sent, unsigned char *got, seen_t *seen, size_t *mine) {
    size_t n = one->ints / kind->width;
    int *counts = room((size_t)p->size * sizeof(int));
    size_t sent_n = lengths(p, one, kind, n, counts, mine);
    fill_numbers(kind, sent, sent_n, p->rank, salt);
    if (kind->in_place) memcpy(got, sent, sent_n * kind->width);
    int code = reduce_numbers(p, one, kind, sent, got, n, counts);
    if (code != MPI_SUCCESS) seen->code = code;
    free(counts);
    return hash_numbers(kind, got, *mine);
}

static void try_kind(const place_t *p, const case_t *one, const number_t *kind, int closely,
                     seen_t *seen) {
    size_t n = one->ints / kind->width, mine = 0;
    size_t bytes = n * kind->width * (is(one, "reduce_scatter_block") ? (size_t)p->size : 1) + 1;
    unsigned char *sent = room(bytes), *got = room(bytes);
    unsigned *hash = &seen->hashes[kind - number_kinds];
    *hash = EMPTY_HASH;
    for (int salt = n < FEW ? (FEW - 1) / (int)n : 0; salt >= 0; salt--) {
        unsigned found = called_once(p, one, kind, salt, sent, got, seen, &mine);
        *hash = fold_hash(*hash, &found, sizeof found);
        if (closely)
            seen->again &= found == called_once(p, one, kind, salt, sent, got, seen, &mine);
    }
    for (size_t k = PERIOD; closely && k < mine; k++)
        seen->place &= !memcmp(got + k * kind->width, got + (k - PERIOD) * kind->width, kind->meant);
    if (closely && mine) seen->head = fold_hash(EMPTY_HASH, got, kind->meant);
    free(sent), free(got);
}

/* To `text` goes whether all ranks of an allreduce hold the same, whether a second call gives the
 * same, and whether like elements do wherever they stand; then a hash of the message's first element,
 * and those of all that every kind of number gave, "-" where a message is too small for one. Odd
 * variants try a program's own operations, the others those of MPI. */
answer_t bits(const place_t *p, const case_t *one, char *text) {
    seen_t seen = {.again = 1, .place = 1, .code = MPI_SUCCESS};
    int own = one->variant % 2, first = own ? FIRST_OWN : 0, last = own ? KINDS : FIRST_OWN;
    int agree = 1, equal;
    size_t at = 0;
    char words[TEXT] = "";
    for (int i = first; i < last; i++)
        if (one->ints >= number_kinds[i].width) try_kind(p, one, &number_kinds[i], i == first, &seen);
    for (int i = first; i < last; i++) {
        unsigned all = all_hashed(seen.hashes[i], &equal);
        if (one->ints < number_kinds[i].width) at += (size_t)sprintf(words + at, ".-");
        else at += (size_t)sprintf(words + at, ".%08x", all);
        agree &= equal || !is(one, "allreduce");
    }
    unsigned head = all_hashed(seen.head, &equal);
    int again = !worst(!seen.again), place = !worst(!seen.place);
    snprintf(text, WORD * 2, "%d%d%d.%08x%s", agree, again, place, head, words);
    return told(seen.code, 0, "");
}
