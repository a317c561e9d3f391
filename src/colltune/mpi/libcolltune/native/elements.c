/* Elements of a datatype as contiguous bytes.
 *
 * Buffers are moved between processes as bytes: all processes have one representation of data, as
 * preloading one library already supposes. */
#include "hierarchy.h"

#include <string.h>

int ct_elements(MPI_Datatype type, ct_elements_t *elements) {
    elements->type = type;
    if (ct_type_size(type, &elements->size)) return MPI_ERR_TYPE;
    int code = PMPI_Type_get_extent(type, &elements->lb, &elements->extent);
    if (code == MPI_SUCCESS)
        code = PMPI_Type_get_true_extent(type, &elements->true_lb, &elements->true_extent);
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
