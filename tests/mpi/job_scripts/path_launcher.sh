export OMPI_MCA_a=1
LAUNCH=mpirun
$LAUNCH -np 3 ./p
