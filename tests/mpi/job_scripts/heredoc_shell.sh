A=3
bash <<EOF
export OMPI_MCA_a=1
export OMPI_MCA_b=$A
mpirun ./p
EOF
OMPI_MCA_c=2 mpirun ./p
