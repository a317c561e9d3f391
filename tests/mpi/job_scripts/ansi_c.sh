#!/bin/bash
export OMPI_MCA_a=$'x y' OMPI_MCA_b=1
mpirun ./p
