#!/bin/tcsh -f
setenv I_MPI_ADJUST_BCAST 1
if ( $?NOSUCH ) then
  setenv I_MPI_ADJUST_ALLREDUCE 2
endif
mpirun ./p
