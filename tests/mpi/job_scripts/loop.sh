export OMPI_MCA_coll_tuned_use_dynamic_rules=1
for alg in 1 2 3 6; do
  export OMPI_MCA_coll_tuned_bcast_algorithm=$alg
  mpirun -np 8 ./osu_bcast
done
