#!/bin/sh
# Measures the campaigns of this folder, or those that are named, as Slurm jobs. When they have ended,
# one more job fits what was measured and brings it into force. Run it as the user who is named below.
# Again on another day it adds an allocation. Written by `colltune site init`.
set -eu
user=
program=
data=
tasks=
partition=
here=$(cd -P -- "$(dirname -- "$0")" && pwd)

[ "$(id -un)" = "$user" ] || { echo "measure: run it as $user: sudo -u $user sh $here/measure" >&2 && exit 1; }
[ $# -gt 0 ] || set -- "$here"/campaigns/*.toml
after=
for campaign in "$@"; do
    answer=$("$program" submit "$campaign" --out "$data" --tasks "$tasks" ${partition:+"--partition=$partition"} --json)
    number=$(printf '%s\n' "$answer" | sed -n 's/^ "job": "\([0-9]*\)".*/\1/p')
    after=$after:$number
    echo "job $number measures $campaign; log: $data/slurm/"
done
number=$(sbatch --parsable --dependency="afterany$after" ${partition:+"--partition=$partition"} --job-name=colltune-retrain \
    --nodes=1 --ntasks=1 --time=120 --output="$here/log/retrain-%j.log" \
    --wrap="$program site retrain --config $here/site.toml")
echo "job ${number%%;*} then fits it and brings it into force; log: $here/log/retrain-${number%%;*}.log"
echo "watch: squeue --me; when it has ended: colltune site check $here"
