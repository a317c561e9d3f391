#!/bin/bash
for ((i=1; i<4; i++)); do
  export OMPI_MCA_coll_tuned_bcast_algorithm=$i
  mpirun ./p
done
