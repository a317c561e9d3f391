#!/bin/sh
# What launchers call in place of ssh; it enters the host instead of logging in.
# usage: remote_shell.sh FOLDER [OPTION]... HOST WORD...
set -eu
folder=$1
shift
while :; do
    case $1 in
        -[bcDEeFIiJLlmOopQRSWw]) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
host=$1
shift
exec "$(dirname "$0")/enter.sh" "$folder" "$host" /bin/sh -c "$*"
