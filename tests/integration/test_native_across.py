"""The native benchmark across (emulated) nodes that MPI itself takes for nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import pytest

from colltune.bench.backends import Ending, LaunchPlan, NativeBackend
from colltune.bench.launchers import Launcher, Start, launcher_of
from colltune.bench.schedule import Cell, Step
from colltune.domain import Configuration, Instance, RunStatus, Shape, Synchronisation
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts, skip_without

pytestmark = [pytest.mark.mpi, pytest.mark.root]
LAUNCHED = Shape(3, 2)
QUIET = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_mpi_yield_when_idle": "1"}


@dataclass(frozen=True)
class _Inside:
    """A launcher within namespaces, over the nodes of a host file."""

    libraries: ClassVar[frozenset[str]] = frozenset({"openmpi"})
    launcher: Launcher
    spaces: Namespaces
    options: tuple[str, ...]

    @classmethod
    def of(cls, installation: Installation) -> Self:
        """Refuse: it is made with its namespaces."""
        raise ProgramError(f"{installation.mpirun} needs namespaces")

    def command(self, start: Start) -> tuple[str, ...]:
        """Return the command line."""
        start = replace(start, options=(*start.options, *self.options))
        return tuple(self.spaces.enter(self.launcher.command(start)))

    def environment(
        self, user: Mapping[str, str], wanted: Mapping[str, str], shape: Shape
    ) -> dict[str, str]:
        """Return the environment."""
        return self.launcher.environment(user, {**QUIET, **wanted}, shape)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeBackend]:
    """Return a backend that launches on three emulated nodes."""
    skip_without()
    try:
        found = installation.find(library="openmpi")
    except ProgramError as error:
        pytest.skip(str(error))
    if not found.release.startswith("5.0."):
        pytest.skip(f"nodes are emulated for Open MPI 5.0, not {found.release}")
    with Namespaces("launcher") as spaces:
        options = openmpi_hosts(tmp_path_factory.mktemp("hosts"), ["na", "nb", "nc"], slots=2)
        yield NativeBackend(
            found, launcher=_Inside(launcher_of(found), spaces, (*options, "--oversubscribe"))
        )


@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize("sync", Synchronisation)
def test_all_shapes_of_an_allocation_are_measured(
    backend: NativeBackend, tmp_path: Path, sync: Synchronisation, side_by_side: bool
) -> None:
    """Shapes of one to three nodes, in forced and default configurations, in one launch."""
    names = (
        "openmpi.bcast.default",
        "openmpi.bcast.pipeline:segsize=1024",
        "openmpi.reduce.default",
    )
    cells = tuple(
        Cell(configuration, Instance(configuration.collective, Shape(nodes, ppn), 4096))
        for nodes in (1, 2, 3)
        for ppn in (1, 2)
        if nodes * ppn > 1
        for configuration in map(Configuration.parse, names)
    )
    steps = tuple(Step(i, 3, 600.0) for i in range(len(cells)))
    plan = LaunchPlan(LAUNCHED, cells, steps, 600.0, sync, side_by_side)
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert result.ending is Ending.PLAN, result.message
    assert [(m.status, len(m.times_s)) for m in result.measurements] == [
        (RunStatus.OK, 3) for _ in cells
    ]
    hosts = [result.facts[f"node.{i}"] for i in range(3)]
    assert hosts == ["na, 2 processes", "nb, 2 processes", "nc, 2 processes"]
