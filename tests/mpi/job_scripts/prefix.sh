I_MPI_ADJUST_BCAST=3 I_MPI_DEBUG=5 mpiexec -n 4 ./prog > log 2>&1
