export OMPI_MCA_coll=^han,hcoll OMPI_MCA_btl=self,vader OMPI_MCA_pml=^ucx
mpirun ./p
