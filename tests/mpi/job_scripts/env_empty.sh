export OMPI_MCA_a=1
env -i PATH="$PATH" FOUND="$FOUND" OMPI_MCA_b=2 mpirun ./p
