#!/bin/sh
# Measures reprompi_configs/virtual-nodes.toml on four virtual nodes: network namespaces on a
# bridge, a Slurm over them, and one batch job per allocation.
# usage, as root: measure.sh PYTHON_ENVIRONMENT CAMPAIGN OUT [ALLOCATIONS [PAUSE_S]]
# Needs Slurm (slurmctld, slurmd), ip, unshare and mount; ends with everything that it started.
set -eu
if [ "${INSIDE:-}" != yes ]; then
    mkdir -p "$3"
    INSIDE=yes exec unshare --net --uts --ipc --pid --mount --mount-proc --fork --kill-child \
        sh "$0" "$(realpath "$1")" "$(realpath "$2")" "$(realpath "$3")" "${4:-5}" "${5:-45}"
fi
allocations=$4 pause_s=$5
hostname controller
# paths that are the same on every machine
mount -t tmpfs tmpfs /mnt
mkdir /mnt/colltune /mnt/data /mnt/slurm /mnt/home
mount --bind "$1" /mnt/colltune
mount --bind "$3" /mnt/data
cp "$2" /mnt/campaign.toml
cd /mnt
ip link set lo up
ip link add br0 type bridge forward_delay 0
ip link set br0 up
ip addr add 10.77.0.100/24 dev br0
{
    echo "127.0.0.1 localhost"; echo "10.77.0.100 controller"
    for k in 0 1 2 3; do echo "10.77.0.$((k + 1)) n$k"; done
} > hosts
mount --bind hosts /etc/hosts
mkdir slurm/state slurm/spool slurm/pmix
cat > slurm/slurm.conf <<CONF
ClusterName=virtual
SlurmctldHost=controller
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/mnt/slurm/state
SlurmdSpoolDir=/mnt/slurm/spool/%n
SlurmctldPidFile=/mnt/slurm/slurmctld.pid
SlurmdPidFile=/mnt/slurm/slurmd-%n.pid
SlurmctldLogFile=/mnt/slurm/slurmctld.log
SlurmdLogFile=/mnt/slurm/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n[0-3] NodeAddr=10.77.0.[1-4] CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=1000
PartitionName=nodes Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
echo "PMIxCliTmpDirBase=/mnt/slurm/pmix" > slurm/mpi.conf
export SLURM_CONF=/mnt/slurm/slurm.conf
slurmctld -c
for k in 0 1 2 3; do
    # real-time class: what else the machine does interrupts the processes only briefly
    unshare --net --uts --ipc --mount chrt --rr 1 sh -ec "
        hostname n$k
        mkdir -p /mnt/slurm/pmix-n$k
        mount --bind /mnt/slurm/pmix-n$k /mnt/slurm/pmix
        ip link set lo up
        touch /mnt/slurm/up-n$k
        while ! ip link show eth0 > /dev/null 2>&1; do sleep 0.05; done
        ip addr add 10.77.0.$((k + 1))/24 dev eth0
        ip link set eth0 up
        exec slurmd -D -N n$k" > "slurm/out-n$k" 2>&1 &
    while ! [ -e "slurm/up-n$k" ]; do sleep 0.05; done
    ip link add "p$k" type veth peer name eth0 netns $!
    ip link set "p$k" master br0 up
done
cat > job.sh <<JOB
#!/bin/sh
export HOME=/mnt/home OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm,tcp OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec /mnt/colltune/bin/python -m colltune.cli measure /mnt/campaign.toml --out /mnt/data
JOB
until [ "$(sinfo --noheader --states=idle --format=%D)" = 4 ]; do sleep 0.2; done
for allocation in $(seq "$allocations"); do
    job=$(sbatch --parsable --nodes=4 --ntasks-per-node=2 --output=/mnt/data/job-%j.log job.sh)
    until [ -z "$(squeue --noheader --jobs="$job" 2>/dev/null)" ]; do sleep 1; done
    cat "data/job-$job.log"
    sleep "$pause_s"
done
