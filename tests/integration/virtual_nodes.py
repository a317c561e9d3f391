"""Several nodes on one machine: host names in namespaces, for tests that span nodes.

Everything lives in namespaces of its own, so that tests may run side by side; nothing outlives the
process that holds them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

from colltune import process
from colltune.bench.launchers import Launcher, Start
from colltune.domain import Shape
from tests.integration.real import QUIET

NEEDED = ("unshare", "nsenter", "setpriv", "ip", "hostname", "mount")
SPACES = ("--net", "--uts", "--ipc", "--pid", "--mount")
READY_S = 20.0
# one address that is no loopback, which Open MPI leaves out, and a first process that reaps
HOLD = """
hostname {name}
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 10.77.0.1/24 dev v0
ip link set v0 up
ip link set v1 up
echo ready
while :; do sleep 0.2; done
"""
REMOTE_SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec unshare --uts --ipc /bin/sh -c "hostname $host; exec /bin/sh -c \\"\\$*\\"" sh "$@"
"""


def skip_without(*programs: str) -> None:
    """Skip the test, with the reason, where nodes cannot be emulated or `programs` are missing."""
    if os.geteuid() != 0:
        pytest.skip("emulating nodes by namespaces needs root")
    for needed in (*NEEDED, *programs):
        if shutil.which(needed) is None:
            pytest.skip(f"emulating nodes needs the program {needed}")
    allowed = process.run(["unshare", *SPACES, "--fork", "true"], timeout_s=READY_S)
    if not allowed.ok:
        pytest.skip(f"namespaces are not allowed here: {allowed.stderr.strip()}")


class Namespaces:
    """Network, host name, process numbers and mounts apart from the machine's; a context manager.

    At its end every process inside is killed, in whatever way the test ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._temporary = ""
        self._holder: subprocess.Popen[str] | None = None
        self.pid = 0

    def __enter__(self) -> Self:
        # process numbers begin anew, and with them the names of what launchers leave in /tmp
        self._temporary = tempfile.mkdtemp(prefix="ct")
        hold = ["unshare", *SPACES, "--mount-proc", "--fork", "--kill-child"]
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *hold, "sh", "-ec", HOLD.format(name=self._name)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._holder.stdout is not None
        first = self._holder.stdout.readline()
        if first != "ready\n":
            self.__exit__()
            pytest.fail(f"cannot make namespaces: {first}")
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self.pid = int(children.read_text())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._holder is not None
        self._holder.kill()
        self._holder.communicate()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def enter(self, command: Sequence[str | Path]) -> list[str]:
        """Return the command line that runs `command` inside."""
        inside = ["nsenter", f"--target={self.pid}", *SPACES, f"--wdns={Path.cwd()}", "--"]
        return [*inside, "env", f"TMPDIR={self._temporary}", *map(str, command)]

    def run(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> process.ProcessResult:
        """Run `command` inside to its end."""
        env = dict(os.environ) | dict(environment or {})
        return process.run(self.enter(command), timeout_s=timeout_s, env=env)


@dataclass(frozen=True)
class Inside:
    """A launcher whose programs are started inside namespaces, with options of its own."""

    launcher: Launcher
    spaces: Namespaces
    options: tuple[str, ...] = ()

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line that enters them first."""
        placed = replace(start, options=(*start.options, *self.options))
        return tuple(self.spaces.enter(self.launcher.command(placed)))

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return the environment of the launch."""
        return self.launcher.environment(user, {**QUIET, **wanted}, shape)


def remote_shell(folder: Path) -> Path:
    """Write the program that a launcher calls in place of ssh; return its path."""
    path = folder / "remote_shell"
    path.write_text(REMOTE_SHELL)
    path.chmod(0o755)
    return path


def openmpi_hosts(
    folder: Path, names: Sequence[str], slots: int, release: str = "5.0"
) -> list[str]:
    """Write a hostfile of emulated nodes; return the options with which mpirun uses them."""
    hosts = folder / "hosts"
    hosts.write_text("".join(f"{name} slots={slots}\n" for name in names))
    agent, file = str(remote_shell(folder)), ["--hostfile", str(hosts)]
    if not release.startswith("4."):
        return [
            *("--prtemca", "plm_ssh_agent", agent, "--prtemca", "plm_ssh_no_tree_spawn", "1"),
            *file,
        ]
    unresolved = ["--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "orte_do_not_resolve", "1"]
    return ["--mca", "plm_rsh_agent", agent, *unresolved, *file]
