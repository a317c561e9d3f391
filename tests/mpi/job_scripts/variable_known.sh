RULES=/opt/rules
ALG=6
export OMPI_MCA_coll_tuned_dynamic_rules_filename=$RULES/bcast.conf
export OMPI_MCA_coll_tuned_bcast_algorithm="${ALG}"
mpirun ./p
