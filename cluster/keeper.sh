#!/bin/sh
# The first process of a virtual cluster: makes hosts and switches, then reaps what ends in them.
# Whatever runs on the cluster is in its process numbers, so that the kernel ends all of it, and with
# it all namespaces, as soon as this process ends.
# usage: keeper.sh FOLDER SWITCH; cluster/virtual.py tells what is in FOLDER
set -eu
folder=$1 switch=$2
here=$(dirname "$0")
trap 'exit 1' TERM

no_ipv6() {
    for scope in all default; do
        echo 1 > "/proc/sys/net/ipv6/conf/$scope/disable_ipv6" || :
    done 2> /dev/null
}

no_ipv6
ip link set lo up
while read -r name; do
    { unshare --net --uts --ipc --mount sh "$here/host.sh" "$folder" "$name" || :; kill 1; } &
done < "$folder/names"
while read -r name; do
    until [ -e "$folder/pid/$name" ]; do sleep 0.01; done
done < "$folder/names"
ip -batch "$folder/ports"
# where it may be, before all programs on the hosts
export LATENCY_FILE="$folder/latency"
first=
chrt --fifo 10 true 2> /dev/null && first="chrt --fifo 10"
while read -r arguments; do
    # shellcheck disable=SC2086 # words on purpose
    { $first $switch $arguments || :; kill 1; } >> "$folder/switch.log" &
done < "$folder/switches"
until [ "$(grep -c ready "$folder/switch.log")" = "$(grep -c . "$folder/switches")" ]; do
    sleep 0.01
done
echo ready
wait
