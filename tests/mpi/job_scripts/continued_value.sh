export OMPI_MCA_coll_tuned_dynamic_rules_filename=/opt/\
rules.conf
mpirun ./p
