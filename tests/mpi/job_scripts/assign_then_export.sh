OMPI_MCA_coll_tuned_bcast_algorithm=3; export OMPI_MCA_coll_tuned_use_dynamic_rules=1
mpirun ./a.out
