setup() {
  export OMPI_MCA_a=1
}
never() { export OMPI_MCA_z=1; }
setup
mpirun ./p
