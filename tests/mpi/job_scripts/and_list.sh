cd / && export OMPI_MCA_a=1
[ -d /nonexistent ] && export OMPI_MCA_b=1
mpirun ./p
