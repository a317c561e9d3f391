"""Launchers of real MPI libraries across emulated nodes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from colltune import process
from colltune.bench.launchers import Start, launcher_of
from colltune.domain import Shape
from tests.integration import real
from tests.integration.real import Real
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts, remote_shell

pytestmark = [pytest.mark.mpi, pytest.mark.root]
HOSTS = ("va", "vb", "vc", "vd")
SHAPES = [Shape(1, 2), Shape(2, 1), Shape(2, 3), Shape(4, 2)]


def start_on_hosts(library: str, shape: Shape, program: Path, folder: Path) -> Start:
    """Return a start on emulated nodes, as a user would ask for it."""
    start = Start(shape, (program,), cores=4, exported=real.TOLD)
    if library == "openmpi":
        return replace(start, options=tuple(openmpi_hosts(folder, HOSTS, slots=4)))
    (folder / "hosts").write_text("".join(f"{host}:4\n" for host in HOSTS))
    shell = ("-launcher", "rsh", "-launcher-exec", str(remote_shell(folder)))
    # hydra looks its own address up by name, which nobody knows here
    options = (*shell, "-iface", "v0")
    return replace(start, hostfile=folder / "hosts", options=options)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_every_shape_starts_on_the_first_nodes(
    library: str, shape: Shape, spaces: Namespaces, tmp_path: Path
) -> None:
    """Ranks fill one node after the other, and variables reach the processes on other nodes."""
    mpi = Real(real.installed(library), tmp_path)
    launcher = launcher_of(mpi.installation)
    start = start_on_hosts(library, shape, mpi.compiled("where.c"), tmp_path)
    user = dict(os.environ) | real.TRANSPORT | mpi.installation.launch_environment()
    environment = launcher.environment(user, real.TOLD, shape)
    command = spaces.enter(launcher.command(start))
    outcome = process.run(command, timeout_s=real.TIMEOUT_S, env=environment)
    process.check(outcome, "the launch")
    assert real.said(outcome.stdout) == real.expected(shape, HOSTS)
