"""A throw-away Slurm on one machine: a controller and several nodes, for tests.

All of it runs inside namespaces of its own (so the ports never collide and nothing outlives the
test) and writes into one folder. Each node has its own host name and its own folder for PMIx.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.slurm import COMMON, MPI_CONF
from colltune import process
from tests.integration.real_munge import daemon
from tests.integration.virtual_nodes import Namespaces, skip_without

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "squeue", "scontrol", "sinfo", "scancel")
PATIENCE_S = 300.0
CONTROLLER = "controller"
# a job that is put back into the queue waits until its old credentials are void
CONF = f"""
AuthInfo=cred_expire=5{{auth_info}}
ClusterName=bed
SlurmctldHost={{controller}}(127.0.0.1)
SlurmctldPort=6817
AuthType=auth/{{auth}}
CredType=cred/{{auth}}
{COMMON}
SchedulerType=sched/{{scheduler}}
MinJobAge=3000
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1"
    " SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN\n"
)
# mpi/pmix keeps its sockets in one folder per host: here, one per node
SLURMD = """
hostname {name}
mkdir -p {folder}/pmix-{name}
mount --bind {folder}/pmix-{name} {folder}/pmix
exec slurmd -f {folder}/slurm.conf -N {name}
"""


class Slurmbed:
    """A running Slurm; ``nodes`` are the names of its nodes, with `cpus` processors each."""

    def __init__(self, folder: Path, spaces: Namespaces, nodes: Sequence[str]) -> None:
        self.folder = folder
        self.nodes = tuple(nodes)
        self._spaces = spaces
        free = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "SBATCH_"))}
        self.environment = {**free, "SLURM_CONF": str(folder / "slurm.conf")}

    def run(self, *command: str | Path, **environment: str) -> process.ProcessResult:
        """Run a program beside the controller to its end."""
        env = self.environment | environment
        return process.run(self._spaces.enter(command), timeout_s=PATIENCE_S, env=env)

    def ask(self, *command: str | Path, **environment: str) -> str:
        """Return what a program beside the controller says; it must succeed."""
        return process.check(self.run(*command, **environment), "a program in the test").stdout

    def job(self, job: str) -> Mapping[str, str]:
        """Return what Slurm tells of a job or of a task of an array, ``7_1``."""
        words = self.ask("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.partition("=")[::2] for word in words)

    def wait_for_state(self, job: str, *states: str) -> Mapping[str, str]:
        """Wait until the job is in one of `states`; return what Slurm tells of it."""
        self.wait_until(lambda: self.job(job)["JobState"] in states, f"job {job} {states}")
        return self.job(job)

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for something to become true; fail with the logs if it never does."""
        ends = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > ends:
                pytest.fail(f"waited in vain for {what}\n{self.logs()}")
            time.sleep(0.1)

    def skip_without_plugin(self, mpi_type: str) -> None:
        """Skip the test, with the reason, where srun cannot use the plugin `mpi_type`."""
        tried = self.run("srun", f"--mpi={mpi_type}", "true")
        if not tried.ok:
            reason = tried.stderr.strip().partition("\n")[0]
            pytest.skip(f"srun --mpi={mpi_type} does not work (Debian: libpmix-dev): {reason}")

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        files = sorted(self.folder.glob("slurm*.log"))
        return "\n".join(f"{file.name}:\n{file.read_text()[-3000:]}" for file in files)


@contextmanager
def slurmbed(
    folder: Path,
    nodes: int = 2,
    cpus: int = 4,
    *,
    munge: bool = False,
    scheduler: str = "builtin",
    extra: str = "",
) -> Iterator[Slurmbed]:
    """Yield a Slurm that is ready for jobs, or skip with the reason; end all of it.

    With `munge` it has a munged of its own. Heterogeneous jobs need the `scheduler` "backfill".
    `extra` are further lines of its configuration.
    """
    skip_without(*PROGRAMS, *(["munged"] if munge else []))
    names = [f"node{number}" for number in range(nodes)]
    (folder / "spool").mkdir()
    (folder / "state").mkdir()
    (folder / "pmix").mkdir()
    lines = [
        NODE.format(name=name, port=7000 + number, cpus=cpus) for number, name in enumerate(names)
    ]
    values = {"auth": "none", "auth_info": "", "scheduler": scheduler}
    if munge:
        values |= {"auth": "munge", "auth_info": f",socket={folder}/munge/socket"}
    conf = CONF.format(folder=folder, controller=CONTROLLER, **values) + extra + "".join(lines)
    (folder / "slurm.conf").write_text(conf)
    (folder / "mpi.conf").write_text(MPI_CONF.format(folder=folder))
    with Namespaces(CONTROLLER) as spaces:
        bed = Slurmbed(folder, spaces, names)
        hosts = [f"10.77.0.1 {name}\n" for name in (CONTROLLER, *names)]
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(hosts))
        bed.ask("mount", "--bind", folder / "hosts", "/etc/hosts")
        if munge:
            (folder / "munge").mkdir()
            bed.ask(*daemon(folder / "munge", "--force"))
        bed.ask("slurmctld", "-f", folder / "slurm.conf", "-c")
        for name in names:
            script = SLURMD.format(name=name, folder=folder)
            bed.ask("unshare", "--uts", "--ipc", "--mount", "sh", "-ec", script)
        idle = ("sinfo", "--noheader", "--states=idle", "--format=%D")
        bed.wait_until(lambda: bed.run(*idle).stdout.strip() == str(nodes), "idle nodes")
        yield bed
