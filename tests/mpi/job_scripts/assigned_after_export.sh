export OMPI_MCA_a=1
OMPI_MCA_a=2
mpirun ./p
