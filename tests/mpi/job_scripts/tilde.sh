export OMPI_MCA_coll_tuned_dynamic_rules_filename=~/rules OMPI_MCA_y=~
mpirun ./p
