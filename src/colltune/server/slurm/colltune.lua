-- Lmod module of colltune. In a batch script, before mpirun or srun:
--     module load colltune
--     colltune_job
help([[
Picks the fastest algorithm of every MPI collective for a job's shape.

    colltune_job [OPTIONS]     puts a tuned configuration into effect for this job; see
                               colltune env --help. Your own MPI settings always win.
    export COLLTUNE=off        before submitting: leave this job alone.
]])
whatis("Name: colltune")
whatis("Description: algorithm selection for MPI collectives")

prepend_path("PATH", "@BIN@")
setenv("@VARIABLE@", "@VALUE@")
set_shell_function("colltune_job",
    'eval "$(colltune env "$@")"',
    'eval `colltune env $* | sed -e "s/^export /setenv /" -e "s/=/ /" -e "s/$/;/"`')
