for a in 1 2 3; do OMPI_MCA_coll_tuned_bcast_algorithm=$a OMPI_MCA_b=1 mpirun ./p; done
