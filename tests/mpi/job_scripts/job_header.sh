#!/bin/bash
#SBATCH --job-name=x
#SBATCH -N 2
#SBATCH --ntasks-per-node=4
set -e
umask 022
ulimit -s unlimited 2>/dev/null || true
export OMP_NUM_THREADS=4
export OMPI_MCA_coll_tuned_use_dynamic_rules=1
date > /dev/null
mpirun -np 8 ./prog input.nml > out.log
