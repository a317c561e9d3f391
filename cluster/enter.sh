#!/bin/sh
# Runs a command on a host of the virtual cluster in whose process numbers it is called.
# usage: enter.sh FOLDER HOST COMMAND...
set -eu
folder=$1 host=$2
shift 2
if ! read -r pid 2> /dev/null < "$folder/pid/$host"; then
    echo "no host $host here; there are: $(tr '\n' ' ' < "$folder/names")" >&2
    exit 255
fi
exec nsenter --target="$pid" --net --uts --ipc --mount "--wdns=$PWD" -- "$@"
