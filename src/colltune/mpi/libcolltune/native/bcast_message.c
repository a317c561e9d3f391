/* The message of a broadcast as a buffer of a datatype and as bytes. */
#include "bcast.h"

#include <stdlib.h>

static int copy_of_bytes(ct_message_t *m) {
    int room, position = 0;
    int error = PMPI_Pack_size(m->count, m->type, m->comm, &room);
    if (error != MPI_SUCCESS) return error;
    if ((size_t)room < m->msize) room = (int)m->msize;
    if (!(m->bytes = malloc((size_t)room))) return MPI_ERR_NO_MEM;
    if (!m->in_buffer) return MPI_SUCCESS;
    error = PMPI_Pack(m->buffer, m->count, m->type, m->bytes, room, &position, m->comm);
    if (error == MPI_SUCCESS && (size_t)position != m->msize) error = MPI_ERR_INTERN;
    m->in_bytes = error == MPI_SUCCESS;
    return error;
}

int ct_message_bytes(ct_message_t *m) {
    if (m->bytes) return MPI_SUCCESS; /* leaders get the message once, and then have it in both */
    if (!ct_type_is_plain(m->type)) return copy_of_bytes(m);
    m->bytes = m->buffer;
    m->in_bytes = m->in_buffer;
    return MPI_SUCCESS;
}

int ct_message_buffer(ct_message_t *m) {
    int position = 0, error = MPI_SUCCESS;
    if (m->in_buffer || !m->in_bytes) return MPI_SUCCESS;
    if (m->bytes != m->buffer)
        error = PMPI_Unpack(m->bytes, (int)m->msize, &position, m->buffer, m->count, m->type, m->comm);
    m->in_buffer = error == MPI_SUCCESS;
    return error;
}

void ct_message_end(ct_message_t *m) {
    if (m->bytes != m->buffer) free(m->bytes);
    m->bytes = NULL;
}
