#!/bin/sh
#PBS -l select=2:ncpus=8
#PBS -N demo
cd ${PBS_O_WORKDIR:-/}
export MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=ring
mpiexec -n 16 ./a.out
