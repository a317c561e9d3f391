#!/bin/bash
[[ -n $NOSUCH ]] && export OMPI_MCA_a=1
export OMPI_MCA_b=2
mpirun ./p
