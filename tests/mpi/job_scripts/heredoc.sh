cat > /dev/null <<EOF
export OMPI_MCA_a=1
EOF
export OMPI_MCA_b=2
mpirun ./p
