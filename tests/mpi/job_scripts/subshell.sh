(export OMPI_MCA_a=1; mpirun ./p)
export OMPI_MCA_b=1
