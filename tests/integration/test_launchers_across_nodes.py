"""Launchers of real MPI libraries across emulated nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from colltune import process
from colltune.bench.launchers import Start, launcher_of
from colltune.domain import Shape
from colltune.mpi.installation import Installation
from tests.integration import where
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts, remote_shell, skip_without

pytestmark = [pytest.mark.mpi, pytest.mark.root]
HOSTS = ("va", "vb", "vc", "vd")
SHAPES = [Shape(1, 2), Shape(2, 1), Shape(2, 3), Shape(4, 2)]


@pytest.fixture(scope="module")
def spaces() -> Iterator[Namespaces]:
    """Return namespaces in which nodes can be emulated, or skip with the reason."""
    skip_without()
    with Namespaces("launcher") as inside:
        yield inside


def start_on_hosts(library: str, shape: Shape, program: Path, folder: Path) -> Start:
    """Return a start on emulated nodes, as a user would ask for it."""
    start = Start(shape, (program,), cores=4, exported=where.TOLD)
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
    mpi: Installation = where.find_or_skip(library)
    program = where.compiled(mpi, tmp_path)
    launcher = launcher_of(mpi)
    start = start_on_hosts(library, shape, program, tmp_path)
    user = dict(os.environ) | where.TRANSPORT | mpi.launch_environment()
    environment = launcher.environment(user, where.TOLD, shape)
    command = spaces.enter(launcher.command(start))
    outcome = process.run(command, timeout_s=where.TIMEOUT_S, env=environment)
    process.check(outcome, "the launch")
    assert where.said(outcome.stdout) == where.expected(shape, HOSTS)
