case $1 in
  fast) export OMPI_MCA_a=1;;
  *) export OMPI_MCA_a=2;;
esac
export OMPI_MCA_b=3
mpirun ./p
