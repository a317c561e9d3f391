export I_MPI_ADJUST_BCAST=1
export I_MPI_ADJUST_REDUCE=2;true
mpirun ./p
