if test -d /; then OMPI_MCA_a=1 mpirun ./p; fi
