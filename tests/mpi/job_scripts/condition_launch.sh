if [ -z "$NOSUCH" ]; then
  export OMPI_MCA_a=6
  mpirun ./p
fi
