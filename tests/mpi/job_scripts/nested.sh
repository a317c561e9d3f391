for n in 1 2; do
  for a in 1 3; do
    if [ $n -gt 1 ]; then
      export MPIR_CVAR_BCAST_INTRA_ALGORITHM=nb
    fi
    I_MPI_ADJUST_BCAST=$a OMPI_MCA_x=1 mpirun ./p
  done
done
