#!/bin/bash
module() { :; }
module purge
module load gcc/12 openmpi/5.0.3
export OMPI_MCA_a=1
mpirun ./p
