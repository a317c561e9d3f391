/* Elements of a datatype as contiguous bytes, and their reduction by every operation.
 *
 * Buffers are moved between processes as bytes: all processes have one representation of data, as
 * preloading one library already supposes. */
#include "hierarchy.h"

#include <stdlib.h>
#include <string.h>

static const size_t BLOCK = (size_t)1 << 15; /* bytes combined at a time: they stay in the cache */

int ct_elements(MPI_Datatype type, ct_elements_t *elements) {
    elements->type = type;
    if (ct_type_size(type, &elements->size)) return MPI_ERR_TYPE;
    int code = PMPI(Type_get_extent)(type, &elements->lb, &elements->extent);
    if (code == MPI_SUCCESS)
        code = PMPI(Type_get_true_extent)(type, &elements->true_lb, &elements->true_extent);
    elements->dense = code == MPI_SUCCESS && ct_type_is_plain(type);
    return code;
}

char *ct_element(const ct_elements_t *e, const void *buffer, size_t i) {
    return (char *)buffer + (MPI_Aint)i * e->extent;
}

int ct_pack(const ct_elements_t *e, const void *buffer, size_t count, void *bytes, MPI_Comm comm) {
    size_t length = count * e->size;
    if (e->dense) {
        if (length && bytes != buffer) memcpy(bytes, buffer, length);
        return MPI_SUCCESS;
    }
    int at = 0;
    int code = ct_pack_from(buffer, (int)count, e->type, bytes, (int)length, &at, comm);
    return code == MPI_SUCCESS && (size_t)at != length ? MPI_ERR_TYPE : code;
}

int ct_unpack(const ct_elements_t *e, const void *bytes, void *buffer, size_t count,
              MPI_Comm comm) {
    size_t length = count * e->size;
    if (e->dense) {
        if (length && bytes != buffer) memcpy(buffer, bytes, length);
        return MPI_SUCCESS;
    }
    int at = 0;
    return ct_unpack_to(bytes, (int)length, &at, buffer, (int)count, e->type, comm);
}

/* ---- which operations ---- */

enum { INTEGER = 1, FORTRAN_INTEGER = 2, FLOATING = 4, LOGICAL = 8, COMPLEX = 16, BYTE = 32,
       ADDRESS = 64, PAIR = 128 };

/* The groups of datatypes of MPI 4.0, sec. 6.9.2 and 6.9.4. */
static int group_of(MPI_Datatype type) {
    if (type == MPI_DATATYPE_NULL) return 0;
    const struct {
        int group;
        MPI_Datatype type;
    } known[] = {
        {FLOATING, MPI_DOUBLE}, {FLOATING, MPI_FLOAT}, {INTEGER, MPI_INT}, {INTEGER, MPI_LONG},
        {FLOATING, MPI_LONG_DOUBLE}, {INTEGER, MPI_SHORT}, {INTEGER, MPI_LONG_LONG},
        {INTEGER, MPI_UNSIGNED}, {INTEGER, MPI_UNSIGNED_LONG}, {INTEGER, MPI_UNSIGNED_SHORT},
        {INTEGER, MPI_UNSIGNED_LONG_LONG}, {INTEGER, MPI_SIGNED_CHAR},
        {INTEGER, MPI_UNSIGNED_CHAR}, {INTEGER, MPI_INT8_T}, {INTEGER, MPI_INT16_T},
        {INTEGER, MPI_INT32_T}, {INTEGER, MPI_INT64_T}, {INTEGER, MPI_UINT8_T},
        {INTEGER, MPI_UINT16_T}, {INTEGER, MPI_UINT32_T}, {INTEGER, MPI_UINT64_T},
        {BYTE, MPI_BYTE}, {LOGICAL, MPI_C_BOOL}, {COMPLEX, MPI_C_FLOAT_COMPLEX},
        {COMPLEX, MPI_C_DOUBLE_COMPLEX}, {COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX},
        {ADDRESS, MPI_AINT}, {ADDRESS, MPI_OFFSET}, {ADDRESS, MPI_COUNT},
        {PAIR, MPI_DOUBLE_INT}, {PAIR, MPI_FLOAT_INT}, {PAIR, MPI_LONG_INT}, {PAIR, MPI_2INT},
        {PAIR, MPI_SHORT_INT}, {PAIR, MPI_LONG_DOUBLE_INT}, {PAIR, MPI_2INTEGER},
        {PAIR, MPI_2REAL}, {PAIR, MPI_2DOUBLE_PRECISION}, {FORTRAN_INTEGER, MPI_INTEGER},
        {FLOATING, MPI_REAL}, {FLOATING, MPI_DOUBLE_PRECISION}, {COMPLEX, MPI_COMPLEX},
        {COMPLEX, MPI_DOUBLE_COMPLEX}, {LOGICAL, MPI_LOGICAL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].type == type) return known[i].group;
    return 0;
}

/* The groups that a predefined operation is defined for; -1 if it is the user's. */
static int groups_of(MPI_Op op) {
    const int numbers = INTEGER | FORTRAN_INTEGER | FLOATING | ADDRESS;
    if (op == MPI_SUM || op == MPI_PROD) return numbers | COMPLEX;
    if (op == MPI_MAX || op == MPI_MIN) return numbers;
    if (op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR) return INTEGER | LOGICAL;
    if (op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR)
        return INTEGER | FORTRAN_INTEGER | BYTE | ADDRESS;
    if (op == MPI_MINLOC || op == MPI_MAXLOC) return PAIR;
    if (op == MPI_REPLACE || op == MPI_NO_OP || op == MPI_OP_NULL) return 0;
    return -1;
}

int ct_is_reducible(MPI_Op op, MPI_Datatype type) {
    int groups = groups_of(op);
    return groups < 0 ? ct_op_commutes(op, type) : (groups & group_of(type)) != 0;
}

/* ---- combining ---- */

static MPI_Aint span(const ct_elements_t *e, size_t count) {
    return e->true_extent + (MPI_Aint)(count - 1) * (e->extent < 0 ? -e->extent : e->extent);
}

/* Where element 0 must seem to be so that `count` elements fill a room from its start on. */
static char *origin(const ct_elements_t *e, size_t count, char *room) {
    return room - e->true_lb - (e->extent < 0 ? (MPI_Aint)(count - 1) * e->extent : 0);
}

int ct_reduction(ct_reduction_t *r, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    *r = (ct_reduction_t){.op = op, .comm = comm};
    ct_elements_t *e = &r->elements;
    int code = ct_elements(type, e);
    if (code != MPI_SUCCESS) return code;
    MPI_Aint size = (MPI_Aint)e->size;
    /* all processes have the same datatype here: the order of its bytes does not matter */
    if (e->lb == 0 && e->true_lb == 0 && e->extent == size && e->true_extent == size) e->dense = 1;
    r->most = e->size < BLOCK ? BLOCK / e->size : 1;
    if (e->dense) return MPI_SUCCESS;
    size_t bytes = (size_t)span(e, r->most);
    r->left = calloc(1, bytes);
    r->right = calloc(1, bytes);
    return r->left && r->right ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void ct_reduction_release(ct_reduction_t *r) {
    free(r->left);
    free(r->right);
}

static int combine(const ct_reduction_t *r, const char *in, char *inout, size_t count) {
    const ct_elements_t *e = &r->elements;
    if (e->dense) return PMPI(Reduce_local)(in, inout, (int)count, e->type, r->op);
    char *left = origin(e, count, r->left), *right = origin(e, count, r->right);
    int code = ct_unpack(e, in, left, count, r->comm);
    if (code == MPI_SUCCESS) code = ct_unpack(e, inout, right, count, r->comm);
    if (code == MPI_SUCCESS) code = PMPI(Reduce_local)(left, right, (int)count, e->type, r->op);
    return code == MPI_SUCCESS ? ct_pack(e, right, count, inout, r->comm) : code;
}

int ct_reduce(const ct_reduction_t *r, const char *in, char *inout, size_t count) {
    int code = MPI_SUCCESS;
    for (size_t i = 0; i < count && code == MPI_SUCCESS; i += r->most) {
        size_t at = i * r->elements.size, n = count - i < r->most ? count - i : r->most;
        code = combine(r, in + at, inout + at, n);
    }
    return code;
}
