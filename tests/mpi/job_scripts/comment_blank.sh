export OMPI_MCA_coll_tuned_allreduce_algorithm=3  # the safe one
export OMPI_MCA_coll_tuned_use_dynamic_rules=1	# tab
mpirun ./p
