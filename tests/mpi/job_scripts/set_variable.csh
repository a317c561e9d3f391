#!/bin/tcsh -f
set dir = /opt/rules
set alg=3
setenv OMPI_MCA_coll_tuned_dynamic_rules_filename $dir/bcast.conf
setenv OMPI_MCA_coll_tuned_bcast_algorithm ${alg}
mpirun ./p
