/* MPI's functions and handles, as the process has them: PMPI(Send)(...) calls PMPI_Send.
 *
 * The library is preloaded, also into programs without MPI, of another MPI than the one that it was
 * compiled for, and into those that load MPI while they run, for a part of theirs alone (Python).
 * So nothing of MPI is linked: what is needed of it is looked up when the program begins with MPI.
 * Without CT_LATE (programs of our own) all names are those of the MPI that the program has. */
#ifndef CT_BOUND_H
#define CT_BOUND_H

#include <mpi.h>

#if defined MPI_ABI && !defined MPI_ABI_VERSION
#error "this MPI has no standard ABI (MPI 5)"
#endif

#ifndef CT_LATE
#define PMPI(name) PMPI_##name
#define CT_HIDDEN(name) __asm__(name);
#else
#define PMPI(name) ct_mpi.name
/* Behind a declaration: our function `name`, which the program's MPI may lack, takes its place for
 * whom the dynamic linker binds to it, and not for those who look names up (dlsym): these are told
 * what there is without us. Such is a version that is hidden, and the first of its library. */
#define CT_HIDDEN(name) \
    __asm__("ct_" name); \
    __asm__(".symver ct_" name ", " name "@COLLTUNE");

#define CT_MPI_COLLECTIVES(X) \
    X(Allgather) X(Allgatherv) X(Allreduce) X(Alltoall) X(Alltoallv) X(Barrier) X(Bcast) \
    X(Exscan) X(Gather) X(Reduce) X(Reduce_scatter) X(Reduce_scatter_block) X(Scan) X(Scatter)
#define CT_MPI_OTHERS(X) \
    X(Comm_call_errhandler) X(Comm_create_keyval) X(Comm_delete_attr) X(Comm_dup) X(Comm_free) \
    X(Comm_free_keyval) X(Comm_get_attr) X(Comm_get_errhandler) X(Comm_group) X(Comm_rank) \
    X(Comm_remote_size) X(Comm_set_attr) X(Comm_set_errhandler) X(Comm_size) X(Comm_split) \
    X(Comm_split_type) X(Comm_test_inter) X(Errhandler_free) X(Error_class) X(Finalize) \
    X(Finalized) X(Get_count) X(Get_library_version) X(Group_free) X(Group_translate_ranks) \
    X(Init) X(Init_thread) X(Initialized) X(Iprobe) X(Irecv) X(Isend) X(Op_commutative) X(Pack) \
    X(Pack_size) X(Query_thread) X(Recv) X(Reduce_local) X(Send) X(Sendrecv) X(Sendrecv_replace) \
    X(T_cvar_get_index) X(T_cvar_get_info) X(T_cvar_handle_alloc) X(T_cvar_handle_free) \
    X(T_cvar_read) X(T_cvar_write) X(T_enum_get_info) X(T_enum_get_item) X(T_finalize) \
    X(T_init_thread) X(Test) X(Type_commit) X(Type_create_hindexed) X(Type_free) \
    X(Type_get_extent) X(Type_get_extent_x) X(Type_get_true_extent) X(Type_size) X(Type_size_x) \
    X(Unpack) X(Wait)
#if MPI_VERSION >= 4
#define CT_MPI_LARGE(X) \
    X(Allgather_c) X(Allgatherv_c) X(Allreduce_c) X(Alltoall_c) X(Alltoallv_c) X(Bcast_c) \
    X(Exscan_c) X(Gather_c) X(Reduce_c) X(Reduce_scatter_c) X(Reduce_scatter_block_c) X(Scan_c) \
    X(Scatter_c) X(Comm_idup_with_info) X(Session_init) X(Type_get_contents_c) \
    X(Type_get_envelope_c)
#else
#define CT_MPI_LARGE(X) X(Type_get_contents) X(Type_get_envelope)
#endif

#ifdef OPEN_MPI /* whose handles are addresses of variables */
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)ct_mpi.global)
#define CT_MPI_FORTRAN(X) X(Comm_f2c) X(Op_f2c) X(Type_f2c)
#define CT_MPI_HANDLES(X) \
    X(ompi_mpi_2dblprec) X(ompi_mpi_2int) X(ompi_mpi_2integer) X(ompi_mpi_2real) \
    X(ompi_mpi_aint) X(ompi_mpi_byte) X(ompi_mpi_c_bool) X(ompi_mpi_c_double_complex) \
    X(ompi_mpi_c_float_complex) X(ompi_mpi_c_long_double_complex) X(ompi_mpi_comm_null) \
    X(ompi_mpi_comm_self) X(ompi_mpi_comm_world) X(ompi_mpi_count) X(ompi_mpi_cplex) \
    X(ompi_mpi_datatype_null) X(ompi_mpi_dblcplex) X(ompi_mpi_dblprec) X(ompi_mpi_double) \
    X(ompi_mpi_double_int) X(ompi_mpi_errors_return) X(ompi_mpi_float) X(ompi_mpi_float_int) \
    X(ompi_mpi_group_null) X(ompi_mpi_info_null) X(ompi_mpi_int) X(ompi_mpi_int16_t) \
    X(ompi_mpi_int32_t) X(ompi_mpi_int64_t) X(ompi_mpi_int8_t) X(ompi_mpi_integer) \
    X(ompi_mpi_logical) X(ompi_mpi_long) X(ompi_mpi_long_double) X(ompi_mpi_long_int) \
    X(ompi_mpi_long_long_int) X(ompi_mpi_longdbl_int) X(ompi_mpi_offset) X(ompi_mpi_op_band) \
    X(ompi_mpi_op_bor) X(ompi_mpi_op_bxor) X(ompi_mpi_op_land) X(ompi_mpi_op_lor) \
    X(ompi_mpi_op_lxor) X(ompi_mpi_op_max) X(ompi_mpi_op_maxloc) X(ompi_mpi_op_min) \
    X(ompi_mpi_op_minloc) X(ompi_mpi_op_no_op) X(ompi_mpi_op_null) X(ompi_mpi_op_prod) \
    X(ompi_mpi_op_replace) X(ompi_mpi_op_sum) X(ompi_mpi_packed) X(ompi_mpi_real) \
    X(ompi_mpi_short) X(ompi_mpi_short_int) X(ompi_mpi_signed_char) X(ompi_mpi_uint16_t) \
    X(ompi_mpi_uint32_t) X(ompi_mpi_uint64_t) X(ompi_mpi_uint8_t) X(ompi_mpi_unsigned) \
    X(ompi_mpi_unsigned_char) X(ompi_mpi_unsigned_long) X(ompi_mpi_unsigned_long_long) \
    X(ompi_mpi_unsigned_short) X(ompi_request_null)
#else
#define CT_MPI_FORTRAN(X)
#define CT_MPI_HANDLES(X)
#endif
#define CT_MPI_FUNCTIONS(X) CT_MPI_COLLECTIVES(X) CT_MPI_OTHERS(X) CT_MPI_LARGE(X) CT_MPI_FORTRAN(X)

#define CT_MPI_MEMBER(name) __typeof__(PMPI_##name) *name;
#define CT_MPI_ADDRESS(name) void *name;
typedef struct {
    CT_MPI_FUNCTIONS(CT_MPI_MEMBER)
    CT_MPI_HANDLES(CT_MPI_ADDRESS)
} ct_mpi_t;
/* What was not found is a function that returns an error, or NULL for a handle. */
extern ct_mpi_t ct_mpi __attribute__((visibility("hidden")));
int ct_nothing(void); /* that function */
#endif

/* How many MPI libraries the process was found to have. With several of them, or none, each call
 * goes to the one that it would have gone to without us. */
typedef enum { CT_UNBOUND, CT_ALONE, CT_SEVERAL } ct_bound_t;
extern ct_bound_t ct_bound;
/* Whether it is one alone, all that we use was found in it, and it is the one we were compiled for. */
extern int ct_is_ours;

void ct_bind(void);   /* look for MPI libraries; what was bound is kept while it is there */
void ct_unbind(void); /* the program may unload it from now on */
/* The first definition of a function or a variable in the process which is not ours; NULL: none. */
void *ct_defined(const char *name);
/* The one that the function `caller` returns to would have called without us. It may lie in another
 * library than the call: calls that end a function are jumps. Never NULL: where there is none, a
 * function that returns an error. */
void *ct_next(const char *name, const void *caller);

#endif
