if [ "$1" = a ]; then export OMPI_MCA_a=1
elif [ "$1" = b ]; then export OMPI_MCA_a=2
fi
export OMPI_MCA_b=2
mpirun ./p
