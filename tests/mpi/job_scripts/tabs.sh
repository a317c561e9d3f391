	export	OMPI_MCA_a=1	OMPI_MCA_b=2
	mpirun ./p
