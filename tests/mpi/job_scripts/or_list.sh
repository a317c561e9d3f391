export OMPI_MCA_c=1
false || export OMPI_MCA_a=1
mpirun ./p
