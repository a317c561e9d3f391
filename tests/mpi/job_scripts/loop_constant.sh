for i in 1 2; do
  export OMPI_MCA_coll_tuned_allgather_algorithm=5
  mpirun ./p $i
done
