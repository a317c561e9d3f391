(export OMPI_MCA_a=1; echo $OMPI_MCA_a) > /dev/null
export OMPI_MCA_b=1
mpirun ./p
