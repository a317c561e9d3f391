#!/bin/csh -f
cat > /dev/null << EOF
setenv OMPI_MCA_a 1
EOF
setenv OMPI_MCA_b 2
mpirun ./p
