export OMPI_MCA_note=a#b I_MPI_X="c # d"
mpirun ./p
