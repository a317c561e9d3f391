"""A throw-away Slurm whose jobs a real service tunes and judges, for figures/loop_slurm.py.

Everything runs on a virtual cluster and ends with it. MPI_ROOT (``.mpi`` by default) has the MPIs.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cluster import Network
from cluster.slurm import ClusterSlurm, cluster_slurm
from colltune import process
from colltune.domain import Shape
from colltune.errors import ProgramError
from colltune.production.arms import Production
from colltune.production.judgement import Judgement, latest
from colltune.production.store import Store
from colltune.registry import Registry
from colltune.retraining.site_file import load

HERE = Path(__file__).parent
MPI_ROOT = Path(os.environ.get("MPI_ROOT", HERE.parent / ".mpi"))
RELEASES = ("4.1.8", "5.0.11")
PROGRAMS = {"solver": 80, "tree": 40, "mixed": 25}
"""The programs beside this file, and how many steps a job makes: about a second."""
USERS = ("daemon", "games", "news")
LARGEST = Shape(4, 1)
MACHINE = "loop"
_COLLTUNE = (sys.executable, "-m", "colltune.cli")
_PORT = 8765
_JUDGE_S = 20
_PATIENCE_S, _MEASURING_S = 120.0, 900.0
_CAMPAIGN = """\
[machine]
name = "{machine}"
[library]
name = "openmpi"
release = "{release}"
mpi = "{mpirun}"
[launcher]
hostfile = "{hostfile}"
[space]
collectives = ["bcast", "allreduce"]
nodes = [2, 3, 4]
ppn = [1]
msizes_bytes = [8, 64, 1024, 4096, 16384, 65536]
segsizes_bytes = [0, 8192]
fanouts = [2]
[measure]
strategy = "full_grid"
[budget]
total = "{seconds:.0f}s"
max_reps = 10
cell_s = 0.3
"""
_PRODUCTION = """
[production]
record = true
control = {control}
steps = {steps}
jobs_per_step = {jobs_per_step}
rate = {rate}
"""
_JOB = """\
#!/bin/sh
srun --quiet --mpi=pmix {program} {steps} >{out}/$SLURM_JOB_ID.said 2>&1
echo $? >{out}/$SLURM_JOB_ID.status
"""


@dataclass
class Bed:
    """The Slurm, its site in ``site``, and what was started there."""

    slurm: ClusterSlurm
    folder: Path
    url: str = ""

    @property
    def site(self) -> Path:
        """The site's folder."""
        return self.folder / "site"

    @cached_property
    def registry(self) -> Registry:
        """The bundles."""
        return Registry(self.site / "registry")

    @cached_property
    def settings(self) -> Production:
        """What the site says of production."""
        return load(self.site / "site.toml").production

    @property
    def transport(self) -> dict[str, str]:
        """What jobs need on such a network; nothing of it bears on algorithms."""
        return {
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "^ofi,openib,uct,usnic",
            "OMPI_MCA_btl_tcp_if_include": ",".join(self.slurm.cluster.named.subnets),
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "TMPDIR": "/tmp",  # noqa: S108
        }

    def program(self, name: str, release: str) -> Path:
        """Return a compiled program."""
        return self.folder / f"{name}-{release}"

    def compile(self) -> None:
        """Compile the programs for each release."""
        for release in RELEASES:
            for name in PROGRAMS:
                source = HERE / f"loop_{name}.c"
                command: list[str | Path] = [mpi_program(release, "mpicc"), "-O2", source]
                outcome = process.run(
                    [*command, "-o", self.program(name, release)], timeout_s=_PATIENCE_S
                )
                process.check(outcome, f"compiling {source}")

    def measure(self, release: str, seconds: float) -> None:
        """Measure a release on the cluster, fit it and bring the bundle into force."""
        campaign, data = self.folder / f"{release}.toml", self.folder / f"measured-{release}"
        bundle = self.folder / f"bundle-{release}"
        values = {"machine": MACHINE, "release": release, "seconds": seconds}
        mpirun = mpi_program(release, "mpirun")
        hosts = self.slurm.cluster.hostfile
        campaign.write_text(_CAMPAIGN.format(**values, mpirun=mpirun, hostfile=hosts))
        there = self.slurm.cluster.environment
        measure = (*_COLLTUNE, "measure", campaign, "--out", data, "--quiet")
        self.slurm.ask(*measure, timeout_s=_MEASURING_S, environment=there)
        fit = (*_COLLTUNE, "fit", data, "--out", bundle, "--quiet")
        self.slurm.ask(*fit, timeout_s=_MEASURING_S)
        self.promote(bundle)

    def promote(self, bundle: Path) -> str:
        """Bring a bundle into force, as an administrator would."""
        added = self.registry.add(bundle)
        self.registry.promote(added, by="loop_slurm", note="measured on this bed")
        return added

    def init(self, control: float, steps: Sequence[float], jobs_per_step: int, rate: int) -> None:
        """Write the site's folder with production switched on, and put it into force."""
        url = f"http://{self.slurm.cluster.named.address(0)}:{_PORT}"
        mpis = [word for r in RELEASES for word in ("--mpi", str(mpi_program(r, "mpirun")))]
        answers = ("--yes", "--name", MACHINE, "--partition", "all", "--nodes", "2,3,4")
        local = ("--ppn", "1", "--collectives", "bcast,allreduce", "--budget", "2m")
        whose = ("--user", "root", "--nightly", "none", "--service", url)
        init = (*_COLLTUNE, "site", "init", self.site)
        self.slurm.ask(*init, *answers, *local, *whose, *mpis)
        text = (self.site / "site.toml").read_text()
        without = re.sub(r"(?ms)^\[production\].*?(?=^\[|\Z)", "", text)
        values = {"control": control, "steps": list(steps), "jobs_per_step": jobs_per_step}
        table = _PRODUCTION.format(**values, rate=rate)
        (self.site / "site.toml").write_text(without.rstrip() + "\n" + table)
        self.slurm.ask(*_COLLTUNE, "site", "init", self.site)
        # processors are few here, and all hooks and the service share them
        hooks = self.site / "slurm/site.sh"
        slow = (
            hooks.read_text().replace("LIMIT_S=0.2", "LIMIT_S=2").replace("TOTAL_S=2", "TOTAL_S=9")
        )
        hooks.write_text(slow)
        self.slurm.ask("sh", self.site / "install")
        self.slurm.restart_controller()
        self.slurm.wait_idle()

    @contextmanager
    def serving(self, port: int) -> Iterator[None]:
        """Run the service as the site says, its page on `port` of this machine (0: any)."""
        printed = self.slurm.ask("sh", self.site / "install", "--print")
        match = re.search(r"^install:   (env .*)$", printed, re.M)
        if match is None:
            raise ProgramError(f"install does not say how to run the service:\n{printed}")
        words = self.slurm.enter(shlex.split(match[1]))
        log = (self.folder / "service.log").open("w")
        env = self.slurm.environment | {"COLLTUNE_SERVER_JUDGE_S": str(_JUDGE_S)}
        with (
            log,
            subprocess.Popen(words, stdout=log, stderr=log, env=env) as ran,
        ):
            try:
                with self._page(port):
                    self.slurm.wait_until(self._is_ready, "the service", _PATIENCE_S)
                    yield
            finally:
                ran.terminate()
                with suppress(subprocess.TimeoutExpired):
                    ran.wait(20)
                ran.kill()

    @contextmanager
    def _page(self, port: int) -> Iterator[None]:
        """Relay a port of this machine to the service: no network leads to the cluster's hosts."""
        path = self.folder / "page"
        address = self.slurm.cluster.named.address(0)
        inside = self.slurm.enter([sys.executable, "-m", __name__, path, address, str(_PORT)])
        with subprocess.Popen(inside, cwd=HERE.parent) as relay:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, daemon=True)
            thread.start()
            try:
                serve = asyncio.start_server(
                    lambda r, w: joined(r, w, asyncio.open_unix_connection(path)), "127.0.0.1", port
                )
                server = asyncio.run_coroutine_threadsafe(serve, loop).result()
                self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
                yield
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                relay.kill()

    def _is_ready(self) -> bool:
        with suppress(OSError):
            self.get("/health/ready")
            return True
        return False

    def get(self, path: str) -> bytes:
        """Return what the service answers."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:  # noqa: S310
            found: bytes = answer.read()
            return found

    def judgement(self) -> Judgement | None:
        """Return what was judged last."""
        return latest(self._store)

    @cached_property
    def _store(self) -> Store:
        return Store(self.settings.store, self.settings.archive)

    def submit(self, program: str, release: str, shape: Shape, user: str) -> str:
        """Queue a job; return its number."""
        out = self.folder / "out"
        script = self.folder / f"{program}-{release}.sh"
        if not script.exists():
            values = {"program": self.program(program, release), "steps": PROGRAMS[program]}
            script.write_text(_JOB.format(**values, out=out))
            script.chmod(0o755)
        env = {**self.transport, "EBVERSIONOPENMPI": release, "HOME": "/tmp"}  # noqa: S108
        outcome = self.slurm.run(
            *("sbatch", "--parsable", f"--nodes={shape.nodes}", "--time=2", "--output=/dev/null"),
            *(f"--ntasks-per-node={shape.ppn}", "--chdir=/tmp", script),
            user=user,
            environment=env,
        )
        return process.check(outcome, "sbatch").stdout.strip().partition(";")[0]

    def queued(self) -> int:
        """Return how many jobs wait or run."""
        return len(self.slurm.ask("squeue", "--noheader", "--format=%i").split())

    def statuses(self) -> dict[str, str]:
        """Return what jobs that ended left: their exit status, by number."""
        files = (self.folder / "out").glob("*.status")
        return {file.stem: file.read_text().strip() for file in files}

    def drained(self) -> list[str]:
        """Return the nodes that take no more jobs."""
        rows = self.slurm.ask("sinfo", "--noheader", "--Node", "--format=%n=%t").split()
        good = ("idle", "comp", "alloc", "mix")
        return [row for row in rows if row.partition("=")[2].rstrip("*") not in good]


def mpi_program(release: str, name: str) -> Path:
    """Return a program of an Open MPI."""
    return MPI_ROOT / f"openmpi-{release}" / "bin" / name


def library_of(bed: Bed, release: str) -> Path:
    """Return the libcolltune that the site's jobs preload."""
    return bed.site / "lib" / f"openmpi-{release}" / "libcolltune.so"


@contextmanager
def loop_bed(folder: Path, latency_us: float, at_once: int) -> Iterator[Bed]:
    """Yield a bed in the empty `folder`, on whose nodes `at_once` jobs run beside each other."""
    network = Network(LARGEST.nodes, at_once, latency_us=latency_us, rates_mbit=(1000.0,))
    (folder / "slurm").mkdir()
    (folder / "out").mkdir()
    (folder / "out").chmod(0o1777)
    with cluster_slurm(network, folder / "slurm", at_once) as slurm:
        bed = Bed(slurm, folder)
        bed.compile()
        yield bed


async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: Any) -> None:
    """Pass on what either side of two connections says, until both have ended."""
    try:
        there_reader, there_writer = await other
    except OSError:
        writer.close()
        return
    await asyncio.gather(_passed(reader, there_writer), _passed(there_reader, writer))


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    with suppress(OSError):
        writer.close()


async def _relay(path: str, address: str, port: str) -> None:
    server = await asyncio.start_unix_server(
        lambda r, w: joined(r, w, asyncio.open_connection(address, int(port))), path
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_relay(*sys.argv[1:]))
