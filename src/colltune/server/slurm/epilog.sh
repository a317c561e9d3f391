#!/bin/sh
# EpilogSlurmctld of Slurm, or Epilog, where prolog.sh is PrologSlurmctld, or Prolog: removes what
# the job was told, and once an hour what was left by jobs whose epilog never ran. It ends with
# status 0 in any case.

trap 'exit 0' EXIT HUP INT TERM
LC_ALL=C
export LC_ALL
PATH=${PATH:-/usr/bin:/bin:/usr/sbin:/sbin}
here=${0%/*} job=${SLURM_JOB_ID-}
# shellcheck disable=SC1091 # the site's own
[ ! -r "$here/site.sh" ] || . "$here/site.sh"
export PATH
folder=${COLLTUNE_SITE_FOLDER-}

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
rm -rf -- "$folder/$job" 2>/dev/null
[ -z "$(find "$folder/.swept" -mmin -60 2>/dev/null)" ] || exit 0
: >"$folder/.swept" || exit 0
days=${COLLTUNE_SITE_DAYS:-60}
case $days in '' | *[!0-9]*) days=60 ;; esac
find "$folder/" -mindepth 1 -maxdepth 1 -type d -name '[1-9]*' -mtime "+$days" -exec rm -rf -- {} +
find "$folder/" -mindepth 1 -maxdepth 1 -type d -name '.[1-9]*' -mmin +60 -exec rm -rf -- {} +
