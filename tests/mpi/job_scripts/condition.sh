export OMPI_MCA_a=1
if [ -n "$FAST" ]; then
  export OMPI_MCA_coll_tuned_bcast_algorithm=6
else
  export OMPI_MCA_coll_tuned_bcast_algorithm=1
fi
mpirun ./p
