#!/bin/tcsh -f
foreach a (1 2 3)
  setenv OMPI_MCA_coll_tuned_bcast_algorithm $a
  mpirun ./p
end
