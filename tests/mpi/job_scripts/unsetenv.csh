#!/bin/tcsh -f
setenv OMPI_MCA_a 1; setenv OMPI_MCA_b 2
unsetenv OMPI_MCA_a
env OMPI_MCA_c=3 mpirun ./p
