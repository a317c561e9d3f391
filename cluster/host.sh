#!/bin/sh
# A host of a virtual cluster, within namespaces of its own.
# usage: host.sh FOLDER NAME
set -eu
folder=$1 name=$2

# what is not there in an older kernel, or may not be set, is left as it is
tell() { echo "$2" > "/proc/sys/net/$1" || :; }

hostname "$name"
mount --bind "$folder/hosts" /etc/hosts
mount -t tmpfs shared-memory /dev/shm
mount -t tmpfs temporary "$folder/tmp"
# shows the network devices of where it was mounted; UCX looks for them there
mount -t sysfs sysfs /sys 2> /dev/null || :
{
    tell ipv6/conf/all/disable_ipv6 1
    tell ipv6/conf/default/disable_ipv6 1
    # windows as wide as the network asks for, from the first message on
    tell ipv4/tcp_slow_start_after_idle 0
    tell ipv4/tcp_no_metrics_save 1
    tell ipv4/tcp_rmem "4096 4194304 67108864"
    tell ipv4/tcp_wmem "4096 4194304 67108864"
} 2> /dev/null
ip -batch "$folder/host/$name"
echo $$ > "$folder/pid/.$name"
mv "$folder/pid/.$name" "$folder/pid/$name"
exec sleep infinity
