export OMPI_MCA_a=1
exec mpirun ./p
