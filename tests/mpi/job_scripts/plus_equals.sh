#!/bin/bash
export OMPI_MCA_coll=^han
OMPI_MCA_coll+=,hcoll
mpirun ./p
