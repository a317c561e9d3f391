#!/bin/tcsh -f
setenv OMPI_MCA_coll_tuned_use_dynamic_rules 1
setenv OMPI_MCA_coll_tuned_bcast_algorithm 6 # chain
mpirun -np 4 ./p
