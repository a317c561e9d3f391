export OMPI_MCA_a=\^han OMPI_MCA_b="say \"x\"" OMPI_MCA_c='$y' OMPI_MCA_d="\$z"
mpirun ./p
