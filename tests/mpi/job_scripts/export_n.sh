#!/bin/bash
export OMPI_MCA_a=1 OMPI_MCA_b=2
export -n OMPI_MCA_a
mpirun ./p
