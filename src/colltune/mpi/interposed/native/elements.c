/* Elements of a datatype as contiguous bytes.
 *
 * Buffers are moved between processes as bytes: all processes have one representation of data, as
 * preloading one library already supposes. */
#include "hierarchy.h"

#include <string.h>

/* Whether the type is `n` of one basic type without gaps, in order. Other types may be dense too,
 * but their bytes need not be in the order of the peer's type. */
static int is_plain(MPI_Datatype type, int *plain) {
    int integers, addresses, types, combiner;
    int code = PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (code != MPI_SUCCESS) return code;
    if (combiner == MPI_COMBINER_NAMED) {
        int size;
        MPI_Aint lb, extent;
        code = PMPI_Type_size(type, &size);
        if (code == MPI_SUCCESS) code = PMPI_Type_get_extent(type, &lb, &extent);
        *plain = code == MPI_SUCCESS && lb == 0 && size == extent;
        return code;
    }
    *plain = 0;
    if (combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS) return MPI_SUCCESS;
    if (integers > 1 || addresses || types != 1) return MPI_SUCCESS;
    int n;
    MPI_Aint no_address;
    MPI_Datatype inner;
    code = PMPI_Type_get_contents(type, integers, 0, 1, &n, &no_address, &inner);
    if (code != MPI_SUCCESS) return code;
    code = is_plain(inner, plain);
    int named = PMPI_Type_get_envelope(inner, &integers, &addresses, &types, &combiner);
    if (named == MPI_SUCCESS && combiner != MPI_COMBINER_NAMED) PMPI_Type_free(&inner);
    return code == MPI_SUCCESS ? named : code;
}

int ct_elements(MPI_Datatype type, ct_elements_t *elements) {
    int size;
    elements->type = type;
    int code = PMPI_Type_size(type, &size);
    if (code == MPI_SUCCESS) code = PMPI_Type_get_extent(type, &elements->lb, &elements->extent);
    if (code == MPI_SUCCESS)
        code = PMPI_Type_get_true_extent(type, &elements->true_lb, &elements->true_extent);
    if (code == MPI_SUCCESS && size == MPI_UNDEFINED) code = MPI_ERR_TYPE;
    if (code != MPI_SUCCESS) return code;
    elements->size = (size_t)size;
    return is_plain(type, &elements->dense);
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
    int code = PMPI_Pack(buffer, (int)count, e->type, bytes, (int)length, &at, comm);
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
    return PMPI_Unpack(bytes, (int)length, &at, buffer, (int)count, e->type, comm);
}
