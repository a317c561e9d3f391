export OMPI_MCA_coll_tuned_bcast_algorithm=$((1+2)) OMPI_MCA_y=1
mpirun ./p
