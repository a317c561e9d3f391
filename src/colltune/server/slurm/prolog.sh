#!/bin/sh
# PrologSlurmctld of Slurm (recommended), or Prolog: asks the colltune service once per job which
# files the job's MPI should read, checks the answer and puts it into the job's folder, whole and
# once for all. Nothing that came from the network is run or sourced. Whatever goes wrong, the job
# starts as without it: status 0, and one line to syslog.
#
# A user's wishes that are known at this point come with the job's comment: colltune:off,
# colltune:bundle=<begin of a bundle's id>, colltune:programs=<what its programs promise>,
# colltune:results=<what is promised of results>, or
# colltune:record where the site records who asks.
#
# Where the site records, the folder says when the job was prepared (started), until when it may run,
# and has a drop-box for its profiles (records): users may put files there, and not list it.

trap 'exit 0' EXIT HUP INT TERM
umask 022
LC_ALL=C
export LC_ALL
PATH=${PATH:-/usr/bin:/bin:/usr/sbin:/sbin}
here=${0%/*} job=${SLURM_JOB_ID-} temporary=
# shellcheck disable=SC1091 # the site's own
[ ! -r "$here/site.sh" ] || . "$here/site.sh"
export PATH
folder=${COLLTUNE_SITE_FOLDER-} header=$here/summaries.header
# by its token a service that has tokens knows whose requests tell what jobs need
[ -r "$header" ] || header=
limit=${COLLTUNE_SITE_LIMIT_S:-0.2}

# Leave the hook, with a line to syslog if there is something to say.
finish() {
    [ -z "$temporary" ] || rm -rf -- "$temporary"
    if [ -n "$*" ]; then
        timeout 1 logger -t colltune -p user.notice -- \
            "job $job: $*; it runs with MPI's own decisions" 2>/dev/null
    fi
    exit 0
}

# Tell whether $1 is made of the characters $2 only, and not empty.
made_of() {
    case $1 in '') return 1 ;; esac
    # shellcheck disable=SC2254 # it is a pattern
    case $1 in *[!$2]*) return 1 ;; esac
}

# Print the smallest of Slurm's processors per node, "4(x3),2".
smallest() {
    least=
    IFS=,
    for part in $1; do
        part=${part%%\(*}
        made_of "$part" 0-9 || return
        [ -n "$least" ] && [ "$least" -le "$part" ] || least=$part
    done
    IFS=' '
    echo "${least:-1}"
}

# Print the processes per node to prepare: what the job asked for, else several that are likely. To
# ask the controller for more (scontrol) would be a further request to it for every job, and not
# tell what a job's steps do; the task prolog takes the one that fits exactly, or none.
candidates() {
    cpus=$(smallest "${SLURM_JOB_CPUS_PER_NODE-}")
    made_of "$cpus" 0-9 || return
    known=${SLURM_JOB_NTASKS-}
    if made_of "$known" 0-9 && [ "$known" -gt 0 ] && [ $((known % nodes)) = 0 ]; then
        echo $((known / nodes))
        return
    fi
    for part in ${COLLTUNE_SITE_PARTS:-1 2 4 8}; do
        made_of "$part" 0-9 && [ "$part" -gt 0 ] && [ $((cpus % part)) = 0 ] && echo $((cpus / part))
    done
    echo 1
}

# Tell whether this is the first of the job's nodes, "n[0-3,7],m1".
is_first_node() {
    first=${SLURM_NODELIST-}
    case ${first%%,*} in
    *\[*)
        rest=${first#*\[}
        first=${first%%\[*}${rest%%[],-]*}
        ;;
    *) first=${first%%,*} ;;
    esac
    [ "$first" = "${SLURMD_NODENAME-}" ]
}

# Ask for one library and release ($1/$2); the answer goes to a file, the reason beside it.
ask() {
    url="${COLLTUNE_SITE_URL:-http://localhost}/v1/job/$1/$2?nodes=$nodes$query&folder=$target/$1-$2$pin$promise$named"
    # shellcheck disable=SC2086 # the site's options are words
    curl --disable --silent --show-error --fail --noproxy '*' --max-redirs 0 --max-time "$limit" \
        ${header:+--header "@$header"} ${COLLTUNE_SITE_SOCKET:+--unix-socket "$COLLTUNE_SITE_SOCKET"} ${COLLTUNE_SITE_CURL-} \
        "$url" 2>"$temporary/.$1-$2.reason" | head -c 4000001 >"$temporary/.$1-$2.answer"
}

# Check the answer for one library and release ($1/$2) and split it into its parts.
take() {
    answer=$temporary/.$1-$2.answer part=$temporary/$1-$2
    if [ ! -s "$answer" ]; then
        read -r reason <"$temporary/.$1-$2.reason"
        reasons="$reasons $1/$2: ${reason:-no answer}"
        return
    fi
    # shellcheck disable=SC2086 # shapes are words
    if ! reason=$(mkdir "$part" && (cd "$part" && mkdir $shapes) && awk -v library="$1" -v shapes="$shapes" -v folder="$target/$1-$2" \
        -v out="$part" -v variables="$here/variables.txt" -f "$here/job_file.awk" "$answer" 2>&1); then
        rm -rf -- "$part"
        reasons="$reasons $1/$2: ${reason:-cannot be written}"
        return
    fi
    taken=yes
}

# Prepare what the recording of the job needs.
prepare_record() {
    mkdir -m 1733 "$temporary/records" && date +%s >"$temporary/started" || return
    [ -z "${SLURM_JOB_END_TIME-}" ] || echo "$SLURM_JOB_END_TIME" >"$temporary/until"
    case " ${SLURM_JOB_COMMENT-} " in
    *[\ ,\;]colltune:record[\ ,\;]*) ;;
    *) [ "$COLLTUNE_SITE_RECORD" = all ] || return 0 ;;
    esac
    : >"$temporary/record"
}

# Make what is there the job's folder, for all time; who comes second has no effect.
publish() {
    rm -f -- "$temporary"/.*.answer "$temporary"/.*.reason
    echo "$job" >"$temporary/job" && chmod 755 "$temporary" &&
        mv -T -- "$temporary" "$target" 2>/dev/null && temporary=
    [ -d "$target" ] || finish "cannot write $target"
}

# Tell whether root and this user alone can change what lies in $folder, and which folder that is.
is_safe() {
    set -- "$folder/"
    for part in "$folder" "$(cd -P -- "$folder" && pwd)"; do
        while part=${part%/*} && [ -n "$part" ]; do set -- "$part/" "$@"; done
    done
    [ -O "$folder" ] && [ -z "$(find "$folder/" -maxdepth 0 -perm /022)" ] && [ -z "$(find / "$@" \
        -maxdepth 0 \( ! -uid 0 ! -uid "$(id -u)" -o -perm /022 ! -perm -1000 \))" ]
}

if [ "${1-}" != now ] && command -v timeout >/dev/null; then
    timeout -s KILL "${COLLTUNE_SITE_TOTAL_S:-2}" "$0" now && finish
    finish "the hook took longer than ${COLLTUNE_SITE_TOTAL_S:-2} s"
fi
made_of "$job" 0-9 || finish "no number of a job"
nodes=${SLURM_JOB_NUM_NODES-}
[ -n "$nodes" ] || nodes=${SLURM_NNODES-}
made_of "$nodes" 0-9 && [ "$nodes" -gt 0 ] || finish "no number of nodes"
[ -z "${SLURM_HET_JOB_ID-}${SLURM_PACK_JOB_ID-}" ] || finish
case " ${COLLTUNE_SITE_PARTITIONS-} " in "  " | *" ${SLURM_JOB_PARTITION-} "*) ;; *) finish ;; esac
pin= named=${COLLTUNE_SITE_RECORD:+&job=$job}
case " ${SLURM_JOB_COMMENT-} " in
*[\ ,\;]colltune:off[\ ,\;]*) finish ;;
*[\ ,\;]colltune:bundle=*)
    pin=${SLURM_JOB_COMMENT#*colltune:bundle=}
    pin=${pin%%[!0-9a-f]*}
    pin="&bundle=$pin"
    ;;
esac
promise=
case " ${SLURM_JOB_COMMENT-} " in
*[\ ,\;]colltune:programs=*)
    promise=${SLURM_JOB_COMMENT#*colltune:programs=}
    promise=${promise%%[!a-z,-]*}
    promise="&programs=${promise%,}"
    ;;
esac
case " ${SLURM_JOB_COMMENT-} " in
*[\ ,\;]colltune:results=*)
    results=${SLURM_JOB_COMMENT#*colltune:results=}
    promise="$promise&results=${results%%[!a-z-]*}"
    ;;
esac
shapes= query= reasons= taken= number=0
for ppn in $(candidates); do
    case " $shapes " in *" ${nodes}x$ppn "*) continue ;; esac
    [ $((nodes * ppn)) -gt 1 ] || continue
    shapes="$shapes${shapes:+ }${nodes}x$ppn" query="$query&ppn=$ppn" number=$((number + 1))
    # the service answers for no more at once
    [ "$number" -lt 8 ] || break
done
# a job of a single process has nobody to talk to
[ -n "$shapes" ] || finish
case $folder in /*) ;; *) finish "COLLTUNE_SITE_FOLDER in $here/site.sh is no absolute path" ;; esac
made_of "$folder" 'A-Za-z0-9_./-' || finish "COLLTUNE_SITE_FOLDER has other characters than letters, digits and _./-"
target=$folder/$job
[ -d "$folder" ] || finish "$folder is not there"
# what others could write there, tasks would be told
is_safe || finish "$folder, or a folder above it, is of another user, or others can write it"
[ ! -d "$target" ] || finish
if [ -n "${SLURMD_NODENAME-}" ] && ! is_first_node; then
    # a Prolog, on each node; the first one asks, and all leave only when the matter is settled
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        sleep 0.05
        [ ! -d "$target" ] || finish
    done
    COLLTUNE_SITE_LIBRARIES= reasons="the job's first node has written nothing"
fi
temporary=$(mktemp -d "$folder/.$job.XXXXXX" 2>/dev/null) || finish "cannot write into $folder"
pairs=
for pair in ${COLLTUNE_SITE_LIBRARIES-}; do
    made_of "$pair" 'A-Za-z0-9_./-' || continue
    case $pair in */*/* | *..* | /* | */ | *-*/*) continue ;; */*) pairs="$pairs $pair" ;; esac
done
for pair in $pairs; do ask "${pair%/*}" "${pair#*/}" & done
wait
for pair in $pairs; do take "${pair%/*}" "${pair#*/}"; done
[ -z "$named" ] || [ -z "$taken" ] || prepare_record || rm -rf -- "$temporary/records"
publish
finish "${reasons# }"
