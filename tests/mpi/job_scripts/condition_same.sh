if [ -n "$FAST" ]; then
  export OMPI_MCA_a=6
else
  export OMPI_MCA_a=6
fi
mpirun ./p
