export OMPI_MCA_coll_tuned_use_dynamic_rules=1 \
  OMPI_MCA_coll_tuned_bcast_algorithm=1
mpirun \
  -np 4 \
  ./p
