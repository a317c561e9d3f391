echo 1 2 | while read x y; do OMPI_MCA_a=$x OMPI_MCA_b=3 mpirun ./p; done
