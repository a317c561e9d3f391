export OMPI_MCA_a=1; unset OMPI_MCA_a; export OMPI_MCA_a=3; mpirun ./p
