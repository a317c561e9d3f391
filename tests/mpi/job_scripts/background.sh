OMPI_MCA_a=1 mpirun ./p &
wait
