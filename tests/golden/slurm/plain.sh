#!/bin/sh
# Measures one task's part of a campaign; written by colltune submit.
#SBATCH --job-name=colltune-hydra
#SBATCH --array=1-4
#SBATCH --nodes=36
#SBATCH --ntasks-per-node=32
#SBATCH --time=65
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60
#SBATCH --export=ALL
#SBATCH --comment=colltune:off
#SBATCH --output=/scratch/data/slurm/%A_%a.log

folder=/scratch/data/slurm
task="${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
requeues="$folder/$task.requeues"
started="$folder/$task.started"
measure=
stopped=

say() {
    echo "colltune: task $task: $*" >&2
}

finish() {
    rm -f -- "$started"
    exit "$1"
}

trap 'stopped=yes; [ -z "$measure" ] || kill -TERM "$measure" 2>/dev/null' TERM
true >"$started" || exit 9
/opt/venv/bin/python -m colltune measure /home/her/hydra.toml --task "$SLURM_ARRAY_TASK_ID/4" &
measure=$!
[ -z "$stopped" ] || kill -TERM "$measure" 2>/dev/null
while :; do
    wait "$measure"
    status=$?
    kill -0 "$measure" 2>/dev/null || break
done

if [ "$status" -eq 0 ]; then
    say "done"
    rm -f -- "$requeues"
    finish 0
fi
if [ -z "$stopped" ] && [ "$status" -ne 10 ] && [ "$status" -ne 130 ]; then
    say "failed with status $status"
    finish "$status"
fi
state=SIGNALING
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ "$state" = SIGNALING ] || break
    state=$(squeue --noheader --jobs="$task" --format=%T) || state=SIGNALING
    [ "$state" != SIGNALING ] || sleep 1
done
# else cancelled, or preempted and started again by Slurm itself
if [ "$state" != RUNNING ] && [ "$state" != SIGNALING ]; then
    say "stopped; what was measured is kept"
    finish "$status"
fi
if [ -z "$(find /scratch/data -name raw -prune -o -name '*.parquet' -newer "$started" -print)" ]; then
    say "stopped before anything was measured, not started again; give more --time"
    finish "$status"
fi
echo "$status" >>"$requeues"
if [ "$(wc -l <"$requeues")" -gt 3 ]; then
    say "started again 3 times and still not done; submit it again to go on"
    finish "$status"
fi
say "out of time, starting again"
scontrol requeue "$task" || say "cannot be put back into the queue; submit it again to go on"
finish "$status"
