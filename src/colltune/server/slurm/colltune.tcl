#%Module1.0
# Module of colltune for Environment Modules. In a batch script, before mpirun or srun:
#     module load colltune
#     eval "$(colltune env)"
proc ModulesHelp { } {
    puts stderr "Picks the fastest algorithm of every MPI collective for a job's shape: see"
    puts stderr "colltune env --help. Your own MPI settings always win."
}
module-whatis "algorithm selection for MPI collectives"
prepend-path PATH "@BIN@"
setenv @VARIABLE@ "@VALUE@"
