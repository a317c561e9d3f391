#!/bin/tcsh -f
if ( $?NOSUCH ) setenv I_MPI_ADJUST_ALLREDUCE 2
setenv I_MPI_ADJUST_BCAST "3:0-8;1"
mpirun ./p
