#!/bin/bash
algs=(1 2 3)
export OMPI_MCA_a=${algs[1]} OMPI_MCA_b=1
mpirun ./p
