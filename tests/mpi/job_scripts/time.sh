export OMPI_MCA_a=1
timeout 60 mpirun ./p
