export OMPI_MCA_coll_tuned_dynamic_rules_filename=$(pwd)/rules
export OMPI_MCA_x=`hostname` OMPI_MCA_y=3
mpirun ./p
