#!/bin/bash
declare -x OMPI_MCA_a=1
typeset -x OMPI_MCA_b=2
declare OMPI_MCA_c=3
mpirun ./p
