#!/bin/sh
env OMPI_MCA_coll=^han FOO=1 mpirun -np 2 ./prog
