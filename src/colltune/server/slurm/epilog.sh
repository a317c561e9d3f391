#!/bin/sh
# EpilogSlurmctld of Slurm, or Epilog, where prolog.sh is PrologSlurmctld, or Prolog: tells the
# service what the job has recorded, removes what the job was told, and once an hour what was left by
# jobs whose epilog never ran. It ends with status 0 in any case.
#
# What the job's user wrote is read with care: plain files of his own with one name, no more of them
# than 64 KiB. A text that the service does not take waits in the folder .spool for a later epilog.

trap 'exit 0' EXIT HUP INT TERM
LC_ALL=C
export LC_ALL
PATH=${PATH:-/usr/bin:/bin:/usr/sbin:/sbin}
here=${0%/*} job=${SLURM_JOB_ID-}
# shellcheck disable=SC1091 # the site's own
[ ! -r "$here/site.sh" ] || . "$here/site.sh"
export PATH
folder=${COLLTUNE_SITE_FOLDER-}
newline='
'

if [ "${1-}" != now ] && command -v timeout >/dev/null; then
    timeout -s KILL 10 "$0" now
    exit 0
fi
# Tell whether root and this user alone can change what lies in $folder, and which folder that is.
is_safe() {
    set -- "$folder/"
    for part in "$folder" "$(cd -P -- "$folder" && pwd)"; do
        while part=${part%/*} && [ -n "$part" ]; do set -- "$part/" "$@"; done
    done
    [ -O "$folder" ] && [ -z "$(find "$folder/" -maxdepth 0 -perm /022)" ] && [ -z "$(find / "$@" \
        -maxdepth 0 \( ! -uid 0 ! -uid "$(id -u)" -o -perm /022 ! -perm -1000 \))" ]
}

# Print how the job ended. Before Slurm 23.02 nothing says that its time was up, but for silence.
state() {
    latest=
    { read -r latest <"$folder/$job/until"; } 2>/dev/null
    case ${SLURM_JOB_EXIT_CODE2-}/$latest in
    0:0/[1-9]*) if [ "$ended" -ge "$latest" ]; then echo timeout; else echo completed; fi ;;
    0:0/) if [ -n "$profiles" ]; then echo completed; else echo unknown; fi ;;
    [0-9]*) echo failed ;;
    *) echo unknown ;;
    esac
}

# Print the hash of the job's user, if the site wants it: with its secret, else anybody could try
# all numbers of users.
user() {
    [ "${COLLTUNE_SITE_USERS-}" = hash ] && [ -s "$here/secret" ] || return
    { cat "$here/secret" && echo "$SLURM_JOB_UID"; } | sha256sum | head -c 32
}

# Print the summary of the job; $profiles are the sizes and names of its files.
summary() {
    cd -P -- "$folder/$job/records" || return
    left_out=0 kept='' room=60000 IFS=$newline
    for profile in $profiles; do
        size=${profile%% *}
        if [ $((size + 20)) -le "$room" ]; then
            room=$((room - size - 20)) kept=$kept$newline$profile
        else
            left_out=$((left_out + 1))
        fi
    done
    printf 'colltune-summary 1\njob %s\nstarted %s\nended %s\nnodes %s\nstate %s\nuser %s\n' \
        "$job" "$started" "$ended" "${SLURM_JOB_NUM_NODES:-1}" "$(state)" "${user:--}"
    printf '%s' "$given"
    echo "left_out $left_out"
    for profile in $kept; do
        printf 'profile %s\n' "${profile%% *}"
        dd if="${profile#* }" bs="${profile%% *}" count=1 iflag=nofollow,nonblock,fullblock 2>/dev/null
    done
    echo end
}

# Send the text $1; it is done with if the service took it, or never will.
send() {
    # shellcheck disable=SC2086 # the site's options are words
    answer=$(curl --disable --silent --noproxy '*' --max-redirs 0 --max-time "$limit" --output /dev/null \
        --write-out '%{http_code}' --header 'Content-Type: text/plain' --header 'Expect:' \
        ${header:+--header "@$header"} ${COLLTUNE_SITE_SOCKET:+--unix-socket "$COLLTUNE_SITE_SOCKET"} \
        ${COLLTUNE_SITE_CURL-} --data-binary "@$1" "${COLLTUNE_SITE_URL:-http://localhost}/v1/summaries" 2>/dev/null)
    case $answer in
    2??) ;;
    400 | 413 | 422) say "the service refuses the job's summary ($answer)" ;;
    *) return 1 ;;
    esac
    rm -f -- "$1"
}

say() {
    timeout 1 logger -t colltune -p user.notice -- "job $job: $*" 2>/dev/null
}

# Tell the service what the job has recorded, and what earlier jobs could not tell.
report() {
    case ${SLURM_JOB_UID-} in '' | *[!0-9]*) return ;; esac
    IFS=' '
    limit=${COLLTUNE_SITE_LIMIT_S:-0.2} spool=$folder/.spool header=$here/summaries.header given='' user=$(user)
    [ -r "$header" ] || header=
    { read -r started <"$folder/$job/started"; } 2>/dev/null && ended=$(date +%s) || return
    for part in "$folder/$job"/*-*/; do
        part=${part%/} && name=${part##*/}
        { read -r arm <"$part/arm" && read -r bundle <"$part/bundle"; } 2>/dev/null || continue
        given="${given}given ${name%%-*} ${name#*-} $arm $bundle$newline"
    done
    [ -n "$given" ] || return
    profiles=$(find "$folder/$job/records/" -mindepth 1 -maxdepth 1 -type f -uid "$SLURM_JOB_UID" -links 1 \
        -size -121 -name '*.profile' ! -name "*[!A-Za-z0-9_.+-]*" -printf '%s %f\n' 2>/dev/null | sort -n | head -n 500)
    if ! { [ -d "$spool" ] || mkdir -m 700 "$spool"; } 2>/dev/null ||
        ! { (umask 077 && summary) >"$spool/.$job.$$" && mv -- "$spool/.$job.$$" "$spool/$job"; } 2>/dev/null; then
        rm -f -- "$spool/.$job.$$" 2>/dev/null
        say "cannot write into $spool, so what the job has recorded is lost"
        return
    fi
    set -- "$spool"/*
    if send "$spool/$job"; then
        turn=0
        for text in "$@"; do
            [ "$text" != "$spool/$job" ] && [ -f "$text" ] || continue
            [ $((turn += 1)) -le 20 ] && send "$text" || return 0
        done
    elif [ $# -gt 1000 ]; then
        rm -f -- "$spool/$job"
        say "1000 summaries wait already, so this job's is lost; is the service at ${COLLTUNE_SITE_URL-} up?"
    fi
}

case $job in '' | *[!0-9]*) exit 0 ;; esac
case $folder in /*) ;; *) exit 0 ;; esac
[ -d "$folder" ] || exit 0
# others could have put links there, along which root would remove something else
is_safe || exit 0
# as an Epilog it runs on each node, at its own time; one of them is enough
first=${SLURM_NODELIST-}
case ${first%%,*} in
*\[*)
    rest=${first#*\[}
    first=${first%%\[*}${rest%%[],-]*}
    ;;
*) first=${first%%,*} ;;
esac
if [ -n "${SLURMD_NODENAME-}" ] && [ "$first" != "$SLURMD_NODENAME" ]; then
    exit 0
fi
[ ! -d "$folder/$job/records" ] || report
rm -rf -- "$folder/$job" 2>/dev/null
[ -z "$(find "$folder/.swept" -mmin -60 2>/dev/null)" ] || exit 0
: >"$folder/.swept" || exit 0
days=${COLLTUNE_SITE_DAYS:-60}
case $days in '' | *[!0-9]*) days=60 ;; esac
find "$folder/" -mindepth 1 -maxdepth 1 -type d -name '[1-9]*' -mtime "+$days" -exec rm -rf -- {} +
find "$folder/" -mindepth 1 -maxdepth 1 -type d -name '.[1-9]*' -mmin +60 -exec rm -rf -- {} +
find "$folder/.spool" -type f -name '.*' -mmin +60 -delete 2>/dev/null
