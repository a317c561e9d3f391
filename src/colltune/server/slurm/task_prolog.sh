#!/bin/sh
# TaskProlog of Slurm, or a user's srun --task-prolog. It runs as the user before every task and
# before a batch script's shell; Slurm takes the lines "export NAME=value", "unset NAME" and
# "print TEXT" from its output. It tells the MPI of a job which files to read, and nothing else: no
# program is started, and whatever goes wrong, it ends with status 0 and the job runs as without it.
#
# All ranks must be told the same, or they wait for each other for ever. Therefore a batch job is
# decided on once, here, before its shell starts, and its steps inherit that; steps of no batch job
# decide each task by itself, from a folder that never changes, by what is the same in all tasks.
#
# Users: COLLTUNE=off, COLLTUNE_BUNDLE=<begin of an id>, COLLTUNE_LIBRARY=openmpi/4.1.4,
# COLLTUNE_FOLDER=<folder that colltune env wrote>, COLLTUNE_RECORD=off or on, COLLTUNE_VERBOSE=1.

trap 'exit 0' EXIT
set -f
LC_ALL=C
newline='
'
lines= told= ready= decided= inherited= job_tasks= unrecorded= job=${SLURM_JOB_ID-} step=${SLURM_STEP_ID-}

# Leave the hook with what is to be printed, all of it or nothing.
finish() {
    [ -z "$ready" ] || record
    if [ -n "${COLLTUNE_VERBOSE-}" ] && [ "${SLURM_PROCID:-0}" = 0 ] && [ -n "$*" ]; then
        lines="$lines${newline}print colltune: $*$unrecorded"
    fi
    [ -z "$lines" ] || printf '%s\n' "${lines#"$newline"}"
    exit 0
}

# Set ppn from Slurm's list of tasks per node, "4(x3)", if it is one number on all $2 nodes.
uniform() {
    ppn=
    case $1 in
    '' | *[!0-9x\(\)]* | ???????*\(* | 0*) return 1 ;;
    "${1%%\(*}(x$2)") ppn=${1%%\(*} ;;
    *[!0-9]* | ???????*) return 1 ;;
    *) [ "$2" != 1 ] || ppn=$1 ;;
    esac
    [ -n "$ppn" ]
}

# Tell whether a variable still has the value that a hook of this or another job gave it.
still_ours() {
    case " $told " in *" $1 "*) return 0 ;; esac
    return 1
}

# List what could bear on algorithms, exported or in the user's own file of Open MPI's parameters,
# as NAME=value in $found.
look_around() {
    found=
    IFS=$newline
    for line in $(export -p); do
        case $line in
        "export OMPI_MCA_coll"* | "export MPIR_CVAR_"* | "export MPIR_PARAM_"* | "export MPICH_"* | \
            "export I_MPI_ADJUST_"* | "export I_MPI_TUNING"*)
            name=${line#export } value=
            case $name in *=*) value=${name#*=} name=${name%%=*} ;; esac
            value=${value#[\'\"]}
            found="$found$newline$name=${value%[\'\"]}"
            ;;
        esac
    done
    IFS=' '
    [ -r "${HOME-}/.openmpi/mca-params.conf" ] || return
    while read -r line || [ -n "$line" ]; do
        name=${line%%[!A-Za-z0-9_]*} value=${line#*=}
        case $line in coll*=*) found="$found${newline}OMPI_MCA_$name=${value#"${value%%[! ]*}"}" ;; esac
    done <"$HOME/.openmpi/mca-params.conf"
}

# Take back what a hook has set, as far as nobody has changed it since.
forget() {
    IFS=$newline
    for line in $found; do
        ! still_ours "$line" || lines="$lines${newline}unset ${line%%=*}"
    done
    IFS=' '
    lines="$lines${newline}unset COLLTUNE_SECTION${newline}unset COLLTUNE_SET"
    lines="$lines${newline}unset COLLTUNE_VARIABLES"
}

# Set $others to what is preloaded beside the site's libraries.
look_at_preload() {
    others=
    IFS=': '
    for item in ${LD_PRELOAD-}; do
        case $item in "$libraries"/*) ;; *) others=$others${others:+:}$item ;; esac
    done
    IFS=' '
}

# Take back what has the processes of another job recorded.
forget_record() {
    for name in COLLTUNE_RECORD COLLTUNE_RECORD_RATE COLLTUNE_RECORD_NAMES COLLTUNE_ARM; do
        lines="$lines${newline}unset $name"
    done
    case ${OMPI_MCA_orte_fork_agent-} in "$agent "*) lines="$lines${newline}unset OMPI_MCA_orte_fork_agent" ;; esac
    case ${PRTE_MCA_odls_base_exec_agent-} in "$agent "*) lines="$lines${newline}unset PRTE_MCA_odls_base_exec_agent" ;; esac
    look_at_preload
    case ${LD_PRELOAD-} in
    "$others") return ;;
    *) lines="$lines$newline${others:+export LD_PRELOAD=}${others:-unset LD_PRELOAD}" ;;
    esac
    LD_PRELOAD=$others
}

# Have the processes of this step, or those of launchers in this batch job, recorded: all ranks load
# the library, or none does. A launcher's daemons are one task per node. Hydra's start all ranks, and
# hand the variable on. Open MPI's mpirun starts some itself; it is told what to start each rank by.
record() {
    case ${COLLTUNE-}/${COLLTUNE_RECORD-} in
    off/* | */off) return ;;
    */"$folder/records" | */on) ;;
    */) [ -e "$folder/record" ] || return ;;
    *) return ;;
    esac
    [ -d "$folder/records" ] || return
    arm=own
    [ -z "$decided" ] || { read -r arm <"$decided/arm"; } 2>/dev/null
    pick
    library=$libraries/${where##*/}/libcolltune.so by=
    [ -n "$where" ] || return
    if [ ! -r "$library" ]; then
        unrecorded="; nothing is recorded: $library cannot be read"
        return
    fi
    [ "$decided" = "$where" ] || arm=own
    case $where in
    */openmpi-4.*) by=OMPI_MCA_orte_fork_agent its=${OMPI_MCA_orte_fork_agent-} ;;
    */openmpi-5.*) by=PRTE_MCA_odls_base_exec_agent its=${PRTE_MCA_odls_base_exec_agent-} ;;
    */openmpi-*) return ;;
    esac
    if [ -n "$step" ]; then
        [ -z "$by" ] || [ "${tasks:-0}" -gt "$nodes" ] || [ "$tasks" = "$job_tasks" ] || return
        look_at_preload
        lines="$lines${newline}export LD_PRELOAD=$others${others:+:}$library"
    elif [ -n "$by" ]; then
        case $its in '' | "$agent "*) lines="$lines${newline}export $by=$agent $library" ;; *) return ;; esac
    fi
    lines="$lines${newline}export COLLTUNE_RECORD=$folder/records${newline}export COLLTUNE_ARM=${arm:-own}"
    lines="$lines${newline}export COLLTUNE_RECORD_RATE=${COLLTUNE_SITE_RATE:-20}"
    [ "${COLLTUNE_SITE_PROGRAMS-}" != names ] || lines="$lines${newline}export COLLTUNE_RECORD_NAMES=1"
}

matches() {
    for pattern in $2; do
        # shellcheck disable=SC2254 # it is a pattern
        case $1 in $pattern) return 0 ;; esac
    done
    return 1
}

# Set $own to a variable by which the user decides himself, beside what is to be set ($1).
users_own() {
    own= deciding= harmless=
    IFS=$newline
    # shellcheck disable=SC2086 # lines
    set -- "$1" $found
    IFS=' '
    set=$1 && shift
    for item in "$@"; do
        ! still_ours "$item" || continue
        case " $set " in *" $item "*) continue ;; esac
        if [ -z "$deciding" ]; then
            { read -r deciding <"$where/deciding" && read -r harmless <"$where/harmless"; } 2>/dev/null
            # not knowing which variables decide, any could
            deciding=${deciding:-*}
        fi
        if matches "${item%%=*}" "$deciding" && ! matches "${item%%=*}" "$harmless"; then
            own=$item
            return 0
        fi
    done
    return 1
}

# Set $wanted to the loaded MPI, "openmpi/4.1.4", "openmpi/" without a known release, or "?/" for
# one that nothing is written for; empty if modules tell nothing.
loaded() {
    wanted=${COLLTUNE_LIBRARY:+${COLLTUNE_LIBRARY%/}/}
    case $wanted in */*/) wanted=${wanted%/} ;; esac
    [ -z "$wanted" ] || return
    IFS=:
    for module in ${LOADEDMODULES-}; do
        release=${module##*/}
        case $module in
        *[Mm][Vv][Aa][Pp][Ii][Cc][Hh]* | *cray-mpich* | *psmpi* | *[Hh][Pp][Cc][Xx]*) wanted="?/" ;;
        *[Oo]pen[Mm][Pp][Ii]* | *open-mpi*) wanted=openmpi/$release ;;
        *[Mm][Pp][Ii][Cc][Hh]*) wanted=mpich/$release ;;
        impi/* | */impi/* | intel-mpi/* | */intel-mpi/* | intelmpi/* | */intelmpi/*) wanted=intelmpi/$release ;;
        intel-oneapi-mpi/* | */intel-oneapi-mpi/* | mpi/2019* | mpi/2021*) wanted=intelmpi/$release ;;
        esac
    done
    IFS=' '
    [ -z "${EBVERSIONOPENMPI-}" ] || wanted=openmpi/$EBVERSIONOPENMPI
    [ -z "${EBVERSIONMPICH-}" ] || wanted=mpich/$EBVERSIONMPICH
    [ -z "${EBVERSIONIMPI-}" ] || wanted=intelmpi/$EBVERSIONIMPI
    case $wanted in */[0-9]*) ;; */*) wanted=${wanted%%/*}/ ;; esac
}

# Set $where to the folder of the MPI library and release that the job uses; empty if there is none.
# A release is never guessed: rules for another one can end the job.
pick() {
    where= default=${COLLTUNE_SITE_DEFAULT-} only=
    loaded
    case $default in "$wanted"*) case $wanted in '' | */) wanted=$default ;; esac ;; esac
    set +f
    set -- "$folder"/*-*/
    set -f
    [ -z "${COLLTUNE_FOLDER-}" ] || [ $# != 1 ] || only=yes
    for candidate in "$@"; do
        candidate=${candidate%/} && name=${candidate##*/}
        library=${name%%-*} release=${name#*-}
        case $wanted in
        "$library/$release" | "$library/$release"[!0-9.]*) where=$candidate ;;
        "intelmpi/$release.0" | "intelmpi/$release.0"[!0-9.]*) where=$candidate ;;
        '' | "$library/") [ -z "$only" ] || where=$candidate ;;
        esac
    done
}

# Tell whether the file that the setting $1 names, if it names one, is no longer there to be read;
# MPICH ends programs over that.
is_lost() {
    lost=${1#*=}
    case $lost in /*) [ ! -f "$lost" ] || [ ! -r "$lost" ] || [ ! -s "$lost" ] ;; *) return 1 ;; esac
}

# Print what section $1 of $where says, unless the user decides himself.
offer() {
    exports= names= set=
    [ -r "$where/$1/exports" ] || finish "nothing is prepared for $1 processes in $where"
    pin=${COLLTUNE_BUNDLE-}
    if [ -n "$pin" ]; then
        read -r bundle <"$where/bundle"
        case $bundle in "$pin"*) ;; *) finish "bundle $pin was asked for, this is $bundle" ;; esac
    fi
    while IFS= read -r line; do
        case $line in
        *..*) finish "$where/$1/exports is damaged" ;;
        OMPI_MCA_coll_*=* | MPIR_CVAR_*=* | I_MPI_ADJUST_*=* | I_MPI_TUNING*=*) ;;
        *) finish "$where/$1/exports is damaged" ;;
        esac
        ! is_lost "$line" || finish "$lost cannot be read, so MPI's own decisions are kept"
        exports="$exports${newline}export $line" names="$names ${line%%=*}" set="$set $line"
    done <"$where/$1/exports"
    ! users_own "$set" || finish "$own is the user's own setting, so nothing was changed"
    [ -n "$pin" ] || decided=$where
    [ -n "$exports" ] || finish "MPI's own decisions are kept for $1"
    lines="$lines$exports${newline}export COLLTUNE_SECTION=$where/$1"
    lines="$lines${newline}export COLLTUNE_SET=${set# }${newline}export COLLTUNE_VARIABLES=${names# }"
    finish "$where/$1"
}

# Tell whether somebody has taken any of our variables back, or changed it; $item is that one.
changed() {
    for item in $told; do
        case "$newline$found$newline" in *"$newline$item$newline"*) ;; *) return 0 ;; esac
    done
    return 1
}

# What a step does about the decision that it inherits from its batch job.
follow() {
    section=$COLLTUNE_SECTION where=${COLLTUNE_SECTION%/*}
    if changed; then
        forget
        finish "${item%%=*} was changed since, so this is the user's own setting"
    fi
    if users_own; then
        forget
        finish "$own is the user's own setting, so nothing is set"
    fi
    for item in $told; do
        is_lost "$item" || continue
        forget
        finish "$lost cannot be read, so MPI's own decisions are kept"
    done
    shape=${section##*/}
    if [ "$nodes"x"$ppn" = "$shape" ]; then
        [ -n "${COLLTUNE_BUNDLE-}" ] || decided=$where
        finish "as the job: $section"
    fi
    if [ -n "$ppn" ] && [ -r "$where/${nodes}x$ppn/exports" ]; then
        forget
        offer "${nodes}x$ppn"
    fi
    # the same number of processes in another layout would get rules that were not made for it
    if [ "$tasks" = $((${shape%%x*} * ${shape##*x})) ]; then
        forget
        finish "nothing is prepared for these $tasks processes on $nodes nodes"
    fi
    finish "a part of the job: $section"
}

if [ "${1-}" = arm ]; then
    # rank.sh asks for the arm of what runs now, with the library $2
    IFS=' ' where=${2%/*} told=${COLLTUNE_SET-}
    where=${COLLTUNE_RECORD%/*}/${where##*/}
    look_around
    ! changed && ! users_own || COLLTUNE_ARM=own
    printf '%s\n' "${COLLTUNE_ARM:-own}"
    exit 0
fi
site=${0%/*}/site.sh
# shellcheck disable=SC1090 # the site's own
[ ! -r "$site" ] || . "$site"
folder=${COLLTUNE_FOLDER:-${COLLTUNE_SITE_FOLDER:+$COLLTUNE_SITE_FOLDER/$job}}
libraries=${COLLTUNE_SITE_LIB:-/nowhere} agent=${0%/*}/rank.sh
inherited=${COLLTUNE_JOB-} told=${COLLTUNE_SET-}
case ${COLLTUNE_RECORD-} in
"$folder/records") ;;
"${COLLTUNE_SITE_FOLDER:-/nowhere}"/*/records)
    forget_record
    COLLTUNE_RECORD=
    ;;
esac
[ -n "$inherited" ] || [ -d "$folder" ] || finish "nothing is prepared for this job"
IFS=' '
look_around
if [ -n "$inherited" ] && [ "${inherited%%:*}" != "$job" ]; then
    # a job that was submitted from within another one has that one's variables
    [ -z "$told" ] || forget
    inherited=
    lines="$lines${newline}unset COLLTUNE_JOB"
fi
[ -z "${SLURM_HET_SIZE-}${SLURM_PACK_SIZE-}" ] || finish "heterogeneous job"

nodes=${SLURM_STEP_NUM_NODES:-${SLURM_JOB_NUM_NODES:-${SLURM_NNODES-}}}
per_node=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE-}}
case $nodes in '' | *[!0-9]* | 0* | ???????*) finish "unknown number of nodes" ;; esac
tasks=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS-}}
if uniform "$per_node" "$nodes"; then
    tasks=$((nodes * ppn))
elif [ -z "$step" ]; then
    tasks=${tasks:-$((nodes + 1))}
fi

ready=yes
if [ -z "$step" ]; then
    lines="$lines${newline}export COLLTUNE_JOB=$job:$tasks"
elif [ -n "$inherited" ]; then
    job_tasks=${inherited#*:}
    # mpirun starts its daemons as a step with one task per node; the ranks have the job's variables
    if [ "$tasks" = "$nodes" ] && [ "${job_tasks:-0}" -gt "$tasks" ]; then
        finish "one task per node, as a launcher's daemons"
    fi
elif [ "$tasks" = "$nodes" ] && [ "${SLURM_CPUS_ON_NODE:-1}" != "${SLURM_CPUS_PER_TASK:-1}" ]; then
    finish "one task per node that leaves processors free, as a launcher's daemons"
fi
if [ "${COLLTUNE-}" = off ]; then
    [ -z "$inherited" ] || [ -z "$told" ] || forget
    finish "COLLTUNE=off"
fi
if [ -n "$inherited" ] && [ -n "$step" ] && [ -n "${COLLTUNE_SECTION-}" ]; then
    follow
fi
[ -d "$folder" ] || finish "nothing is prepared for this job"
[ -n "$ppn" ] || finish "$per_node tasks per node: not the same on all nodes"
pick
[ -n "$where" ] || finish "nothing is prepared for the MPI of this job (${wanted:-unknown})"
offer "${nodes}x$ppn"
