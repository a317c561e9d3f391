"""A throw-away Slurm on a virtual cluster: a controller on its first host, a node on every host.

Its daemons run as root and end with the cluster. Users are told apart by a munged of its own.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.network import Network
from cluster.virtual import VirtualCluster, virtual_cluster
from colltune import process
from colltune.errors import ProgramError

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "squeue", "munged")
_PATIENCE_S = 60.0
COMMON = """
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
KillWait=5
"""
"""What any throw-away Slurm of root in one folder is told."""
# where TreeWidth exceeds a job's nodes, mpi/pmix's tree lets every node pass a fence at once, and
# Open MPI's MPI_Init meets messages that it cannot take yet
MPI_CONF = "PMIxCliTmpDirBase={folder}/pmix\nPMIxCollFence=ring\n"
_CONF = f"""\
ClusterName=loop
SlurmctldHost={{first}}({{address}})
AuthType=auth/munge
AuthInfo=cred_expire=5,socket={{folder}}/munge/socket
CredType=cred/munge
{COMMON}
SchedulerType=sched/backfill
MinJobAge=300
PropagateResourceLimits=NONE
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = (
    "NodeName={name} NodeHostname={name} NodeAddr={address} CPUs={cpus} Boards=1 SocketsPerBoard=1"
    " CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN\n"
)
# mpi/pmix keeps its sockets in one folder per host; slurmd looks for the control
# groups of the machine, which a host's own /sys hides
_SLURMD = """
umount /sys
mkdir -p {folder}/pmix-{name}
mount --bind {folder}/pmix-{name} {folder}/pmix
exec slurmd -f {folder}/slurm.conf -N {name}
"""


def missing() -> str:
    """Return which of Slurm's programs are not here; empty if all are."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    return f"a throw-away Slurm needs {', '.join(absent)}; install them" if absent else ""


@dataclass(frozen=True)
class ClusterSlurm:
    """A running Slurm on `cluster`, whose files are in `folder`."""

    cluster: VirtualCluster
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the user without those of a job, and where this Slurm is configured."""
        strange = ("SLURM_", "SBATCH_", "OMPI_MCA_", "COLLTUNE_")
        free = {n: v for n, v in os.environ.items() if not n.startswith(strange)}
        return {**free, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def enter(self, command: Sequence[str | Path], host: int = 0, user: str = "") -> list[str]:
        """Return the command line that runs `command` on a host, as `user` or as root."""
        account = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return self.cluster.enter([*(account if user else ()), *map(str, command)], host)

    def run(
        self,
        *command: str | Path,
        user: str = "",
        timeout_s: float = 300.0,
        environment: Mapping[str, str] | None = None,
    ) -> process.ProcessResult:
        """Run a program on the first host to its end."""
        env = self.environment | dict(environment or {})
        return process.run(self.enter(command, user=user), timeout_s=timeout_s, env=env)

    def ask(
        self,
        *command: str | Path,
        timeout_s: float = 300.0,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Return what a program on the first host says; it must succeed."""
        outcome = self.run(*command, timeout_s=timeout_s, environment=environment)
        return process.check(outcome, str(command[0])).stdout

    def job(self, number: str) -> Mapping[str, str]:
        """Return what Slurm tells of a job."""
        words = self.ask("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.partition("=")[::2] for word in words)

    def wait_until(self, is_so: Callable[[], bool], what: str, patience_s: float) -> None:
        """Wait for something to become true."""
        ends = time.monotonic() + patience_s
        while not is_so():
            if time.monotonic() > ends:
                raise ProgramError(f"waited in vain for {what}; see {self.folder}/slurm*.log")
            time.sleep(0.2)

    def restart_controller(self) -> None:
        """Let the controller read its configuration as if it began; jobs go on."""
        pid = (self.folder / "slurmctld.pid").read_text().strip()
        self.ask("kill", pid)
        gone = lambda: not self.run("kill", "-0", pid).ok  # noqa: E731
        self.wait_until(gone, "the controller's end", _PATIENCE_S)
        self._start_controller()

    def start(self, cpus: int) -> None:
        """Write the configuration and start the daemons; every node has `cpus` processors."""
        for name in ("spool", "state", "pmix", "munge"):
            (self.folder / name).mkdir()
        named, hosts = self.cluster.named, self.cluster.hosts
        values = {"first": hosts[0], "address": named.address(0), "folder": self.folder}
        nodes = (
            _NODE.format(name=host, address=named.address(number), cpus=cpus)
            for number, host in enumerate(hosts)
        )
        (self.folder / "slurm.conf").write_text(_CONF.format(**values) + "".join(nodes))
        (self.folder / "mpi.conf").write_text(MPI_CONF.format(folder=self.folder))
        (self.folder / "munge/key").write_bytes(os.urandom(1024))
        (self.folder / "munge/key").chmod(0o400)
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid"}
        files |= {"seed-file": "seed", "log-file": "log"}
        places = [f"--{option}={self.folder}/munge/{file}" for option, file in files.items()]
        self.ask("munged", "--force", *places)
        self._start_controller()
        for number, host in enumerate(hosts):
            script = _SLURMD.format(folder=self.folder, name=host)
            words = self.enter(["unshare", "--mount", "sh", "-ec", script], number)
            outcome = process.run(words, timeout_s=_PATIENCE_S, env=self.environment)
            process.check(outcome, f"slurmd on {host}")
        self.wait_idle()

    def _start_controller(self) -> None:
        self.ask("slurmctld", "-f", self.folder / "slurm.conf")

    def wait_idle(self) -> None:
        """Wait until all nodes take jobs."""
        idle = ("sinfo", "--noheader", "--states=idle", "--format=%D")
        every = str(len(self.cluster.hosts))
        self.wait_until(lambda: self.run(*idle).stdout.strip() == every, "nodes", _PATIENCE_S)


@contextmanager
def cluster_slurm(network: Network, folder: Path, cpus: int) -> Iterator[ClusterSlurm]:
    """Yield a Slurm on a virtual cluster of its own; end all of it. `folder` is empty and short."""
    with virtual_cluster(network) as cluster:
        slurm = ClusterSlurm(cluster, folder)
        slurm.start(cpus)
        yield slurm
