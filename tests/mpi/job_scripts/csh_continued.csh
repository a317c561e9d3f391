#!/bin/tcsh -f
setenv OMPI_MCA_a \
  1
setenv OMPI_MCA_b '\$x y'
mpirun ./p
