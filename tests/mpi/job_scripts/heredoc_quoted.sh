cat > /dev/null <<'EOF'
export OMPI_MCA_a=$x
EOF
export OMPI_MCA_b=2
mpirun ./p
