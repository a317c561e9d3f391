"""Starts and ends virtual clusters, and runs commands on them."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import secrets
import shlex
import shutil
import signal
import string
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cluster.network import Named, Network
from colltune import process
from colltune.errors import OutputError, ProgramError
from colltune.files import cache_folder, locked, whole, write_text

HERE = Path(__file__).parent
NEEDED = ("unshare", "nsenter", "ip", "hostname", "mount", "setpriv")
_SPACES = ("--net", "--uts", "--ipc", "--pid", "--mount")
_START_S = 30.0
_END_S = 10.0
_CHECK_S = 20.0
_FLAGS = ("-O2", "-std=c11")
_SUBNETS = 256
_MPIBENCHMARK = "mpibenchmark"


def obstacle() -> str:
    """Return why no virtual cluster can be started here, and the mend; empty if it can."""
    for program in (*NEEDED, "cc"):
        if shutil.which(program) is None:
            return f"a virtual cluster needs the program {program}; install it"
    made = process.run([*_unshare(), "true"], timeout_s=_CHECK_S)
    if made.ok:
        return ""
    mend = (
        "allow namespaces to this container"
        if os.geteuid() == 0
        else "become root, or allow user namespaces to others"
        " (sysctl kernel.unprivileged_userns_clone=1"
        " kernel.apparmor_restrict_unprivileged_userns=0)"
    )
    return (
        f"a virtual cluster needs namespaces, which are not allowed here; {mend}\n{made.explain()}"
    )


@functools.cache
def realtime_allowed() -> bool:
    """Tell whether processes may be put into the real-time class SCHED_RR."""
    return (
        shutil.which("chrt") is not None
        and process.run(["chrt", "--rr", "1", "true"], timeout_s=_CHECK_S).ok
    )


@dataclass(frozen=True)
class VirtualCluster:
    """A virtual cluster that runs; `start` and `found` return one.

    Attributes
    ----------
    folder
        Its files: ``hostfile``, ``hostfile.mpich``, ``campaign.toml``, ``remote_shell``.
    keeper
        The process that holds it; when it ends, all that runs on the cluster ends.
    """

    named: Named
    folder: Path
    keeper: int

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, in the order of their numbers."""
        return self.named.hosts

    @property
    def hostfile(self) -> Path:
        """The hosts and their slots, for Open MPI."""
        return self.folder / "hostfile"

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which mpirun and mpiexec start programs on the hosts without options."""
        told = self.named.environment(self.folder)
        program = self.folder / _MPIBENCHMARK
        return {**told, "COLLTUNE_REPROMPI": str(program)} if program.exists() else told

    def enter(
        self, command: Sequence[str | Path], host: int = 0, *, realtime: bool = False
    ) -> list[str]:
        """Return the command line that runs `command` on host number `host`.

        It has to be started with `environment`, as `run` does. With `realtime` the command and all
        that it starts, on other hosts too, gets the class SCHED_RR, if that is allowed: what else
        the machine does interrupts it only briefly. It is for programs that give way while they
        wait: Open MPI, not MPICH.
        """
        user = ["--user", "--preserve-credentials"] if os.geteuid() else []
        into = ["--pid", "--mount", f"--wdns={Path.cwd()}"]
        inside = ["nsenter", f"--target={self.keeper}", *user, *into, "--"]
        first = ["chrt", "--rr", "1"] if realtime and realtime_allowed() else []
        there = [str(HERE / "enter.sh"), str(self.folder), self.hosts[host]]
        return [*inside, *there, *first, *map(str, command)]

    def run(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 60.0,
        host: int = 0,
        realtime: bool = False,
    ) -> process.ProcessResult:
        """Run `command` on a host to its end; `environment` is added to the user's and ours."""
        env = dict(os.environ) | self.environment | dict(environment or {})
        words = self.enter(command, host, realtime=realtime)
        return process.run(words, timeout_s=timeout_s, env=env)

    def change_latency(self, latency_us: float) -> None:
        """Let messages from now on take `latency_us`, as other firmware or cables would."""
        write_text(self.folder / "latency", f"{latency_us:.3f}\n")

    def alive(self) -> bool:
        """Tell whether it still runs."""
        return _held(self.folder)

    def stop(self) -> None:
        """End everything that runs on it, and remove its files; harmless when it has ended."""
        stop(self.named.name)


def base() -> Path:
    """Return the folder of this user's clusters: a short path, since names of sockets are."""
    folder = Path(tempfile.gettempdir()) / f"colltune-clusters-{os.geteuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        raise OutputError(f"{folder} belongs to somebody else; set TMPDIR to a folder of your own")
    return folder


def running() -> tuple[str, ...]:
    """Return the names of this user's clusters that run."""
    return tuple(sorted(folder.name for folder in base().iterdir() if _held(folder)))


def found(name: str) -> VirtualCluster:
    """Return the cluster `name`, which runs.

    Raises
    ------
    ProgramError
        If there is none.
    """
    folder = base() / name
    if not _held(folder):
        there = ", ".join(running()) or "none"
        raise ProgramError(f"no virtual cluster {name!r} runs; running: {there}; `make cluster`")
    words = (folder / "network").read_text().split()
    nodes, ppn, number = map(int, words[:3])
    network = Network(nodes, ppn, float(words[3]), tuple(map(float, words[4:])))
    return VirtualCluster(
        Named(network, name, number), folder, int((folder / "keeper").read_text())
    )


def start(network: Network, name: str = "virtual") -> VirtualCluster:
    """Start a cluster that goes on when this process ends, until `stop`.

    Raises
    ------
    ProgramError
        If it cannot be started, or one of this name runs already.
    """
    cluster, starter = _start(network, name, ["setsid", "--fork"])
    starter.wait()
    return cluster


def _start(
    network: Network, name: str, how: Sequence[str]
) -> tuple[VirtualCluster, subprocess.Popen[bytes]]:
    with _claimed(name) as (folder, lock, number):
        named = Named(network, name, number)
        _write(named, folder)
        note = ["sh", "-c", 'echo $$ > "$0/outer"; exec "$@"', folder]
        keep = [*_unshare(), "sh", HERE / "keeper.sh", folder, _compiled("switch.c")]
        with (folder / "log").open("w") as log:
            starter = subprocess.Popen(
                [str(word) for word in (*how, *note, *keep)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                cwd="/",
            )
    try:
        keeper = _ready(folder)
    except BaseException:
        stop(name)
        starter.wait()
        raise
    return VirtualCluster(named, folder, keeper), starter


def stop(name: str) -> bool:
    """End the cluster `name` and remove what is left of it; tell whether it ran.

    Raises
    ------
    ProgramError
        If something on it cannot be ended.
    """
    folder = base() / name
    ran = _held(folder)
    deadline = time.monotonic() + _END_S
    while _held(folder):
        for file in (folder / "outer", folder / "keeper"):
            with suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        if time.monotonic() > deadline:
            raise ProgramError(f"the virtual cluster {name!r} does not end; see {folder / 'log'}")
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)
    return ran


@contextmanager
def virtual_cluster(network: Network, name: str | None = None) -> Iterator[VirtualCluster]:
    """Start a cluster of its own, and end it in whatever way the block ends.

    Where this process is killed the cluster ends, too.

    Raises
    ------
    ProgramError
        If it cannot be started.
    """
    name = name or "v" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(6))
    cluster, starter = _start(network, name, ["setpriv", "--pdeathsig", "KILL"])
    try:
        yield cluster
    finally:
        cluster.stop()
        starter.wait()


@contextmanager
def _claimed(name: str) -> Iterator[tuple[Path, int, int]]:
    """Make the folder of a new cluster; yield it, the lock to hand on, and a free number."""
    with locked(base() / ".lock"):
        folder = base() / name
        if _held(folder):
            raise ProgramError(
                f"a virtual cluster {name!r} runs already; end it (make cluster-down NAME={name})"
                " or name another one (make cluster NAME=other)"
            )
        shutil.rmtree(folder, ignore_errors=True)
        taken = {
            int((base() / other / "network").read_text().split()[2])
            for other in running()
            if (base() / other / "network").exists()
        }
        first = zlib.crc32(name.encode())
        number = next(n for i in range(_SUBNETS) if (n := (first + i) % _SUBNETS) not in taken)
        Named(Network(), name, number)
        for part in ("", "host", "pid", "tmp"):
            (folder / part).mkdir(mode=0o700)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder, lock, number
        finally:
            os.close(lock)


def _held(folder: Path) -> bool:
    """Tell whether processes of the cluster of `folder` are left: they inherited its lock."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _write(named: Named, folder: Path) -> None:
    network = named.network
    for file, text in named.files(folder).items():
        (folder / file).write_text(text)
    words = [network.nodes, network.ppn, named.number, network.latency_us, *network.rates_mbit]
    (folder / "network").write_text(" ".join(map(str, words)) + "\n")
    shell = folder / "remote_shell"
    called = [str(HERE / "remote_shell.sh"), str(folder)]
    shell.write_text(f'#!/bin/sh\nexec {shlex.join(called)} "$@"\n')
    shell.chmod(0o755)
    real = shutil.which(os.environ.get("COLLTUNE_REPROMPI") or _MPIBENCHMARK)
    if real:
        program = folder / _MPIBENCHMARK
        clock = _compiled("clock.c", ("-shared", "-fPIC"))
        program.write_text(
            f'#!/bin/sh\nLD_PRELOAD={shlex.quote(str(clock))} exec {shlex.quote(real)} "$@"\n'
        )
        program.chmod(0o755)


def _ready(folder: Path) -> int:
    """Wait until the cluster is there; return its keeper's process number."""
    log, deadline = folder / "log", time.monotonic() + _START_S
    while "ready" not in log.read_text().splitlines():
        if not _held(folder) or time.monotonic() > deadline:
            raise ProgramError(f"the virtual cluster did not start: {log.read_text().strip()}")
        time.sleep(0.01)
    outer = (folder / "outer").read_text().strip()
    keeper = int(Path(f"/proc/{outer}/task/{outer}/children").read_text())
    (folder / "keeper").write_text(f"{keeper}\n")
    return keeper


def _unshare() -> list[str]:
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    return ["unshare", *user, *_SPACES, "--mount-proc", "--fork", "--kill-child"]


def _compiled(name: str, flags: Sequence[str] = ()) -> Path:
    """Return what the source `name` is compiled to, compiling it on first use."""
    source = HERE / name
    options = [*_FLAGS, *flags]
    digest = hashlib.sha256(repr(options).encode() + source.read_bytes()).hexdigest()
    program = cache_folder() / f"{source.stem}-{digest[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with whole(program) as temporary:
            command: list[str | Path] = ["cc", *options, "-o", temporary, source]
            outcome = process.run(command, timeout_s=_START_S)
            process.check(outcome, f"compiling the virtual cluster's {source.stem}")
    return program
