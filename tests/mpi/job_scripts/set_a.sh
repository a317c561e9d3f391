set -a
OMPI_MCA_a=1
set +a
OMPI_MCA_b=1
mpirun ./p
