export OMPI_MCA_a= OMPI_MCA_b=""
mpirun ./p
