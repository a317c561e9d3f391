export OMPI_MCA_a=1
echo mpirun OMPI_MCA_a > /dev/null
export OMPI_MCA_a=2
mpirun ./p
