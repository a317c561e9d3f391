#!/bin/sh
# Starts a rank of Open MPI's mpirun in a job that is recorded: rank.sh LIBRARY PROGRAM ARGUMENTS.
# mpirun and its daemons run it in the place of every rank's program, so that all ranks load the
# library, after what the user preloads. No other variable is touched, since the program would see it.

case ${OMPI_COMM_WORLD_RANK-} in
0)
    # settings of mpirun's command line, or of the batch script, are the user's own
    COLLTUNE_ARM=$("${0%/*}/task_prolog.sh" arm "$1" 2>/dev/null) || COLLTUNE_ARM=own
    ;;
esac
case :${LD_PRELOAD-}: in
*[:\ ]"$1"[:\ ]*) ;;
*)
    if [ -r "$1" ]; then
        export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$1"
    elif [ "${OMPI_COMM_WORLD_RANK-}${COLLTUNE_LOG:+log}" = 0log ]; then
        echo "colltune: nothing is recorded: $1 cannot be read" >&2
    fi
    ;;
esac
shift
# like mpirun, take a program that lies here and not on PATH
case $1 in
*/*) exec "$@" ;;
esac
if [ -x "./$1" ] && ! command -v -- "$1" >/dev/null 2>&1; then
    exec "./$@"
fi
exec "$@"
