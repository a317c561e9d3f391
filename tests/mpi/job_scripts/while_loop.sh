i=1
while [ $i -le 2 ]; do
  export OMPI_MCA_coll_tuned_bcast_algorithm=$i
  mpirun ./p
  i=$((i+1))
done
