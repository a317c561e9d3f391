export OMPI_MCA_note="größe ✓" OMPI_MCA_a=1 # größer
mpirun ./p
