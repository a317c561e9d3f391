"""The native benchmark across (emulated) nodes that MPI itself takes for nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import pytest

from colltune.bench.backends import Ending, LaunchPlan, NativeBackend
from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher, Start, launcher_of
from colltune.bench.runner import run_campaign
from colltune.bench.schedule import Cell, Step
from colltune.dataset import read_parquet
from colltune.domain import (
    Collective,
    Configuration,
    Instance,
    RunStatus,
    Shape,
    Synchronisation,
)
from colltune.errors import ProgramError
from colltune.mpi import installation
from colltune.mpi.installation import Installation
from tests.integration.virtual_nodes import Namespaces, openmpi_hosts, skip_without

pytestmark = [pytest.mark.mpi, pytest.mark.root]
LAUNCHED = Shape(3, 2)
GONE = 'shift\n[ "$host" = nc ] && exit 255\n'
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


@contextmanager
def _emulated(folder: Path) -> Iterator[tuple[NativeBackend, Namespaces]]:
    """Yield a backend that launches on three emulated nodes, and where they live."""
    skip_without()
    try:
        found = installation.find(library="openmpi")
    except ProgramError as error:
        pytest.skip(str(error))
    if not found.release.startswith("5.0."):
        pytest.skip(f"nodes are emulated for Open MPI 5.0, not {found.release}")
    with Namespaces("launcher") as spaces:
        options = openmpi_hosts(folder, ["na", "nb", "nc"], slots=2)
        launcher = _Inside(launcher_of(found), spaces, (*options, "--oversubscribe"))
        yield NativeBackend(found, launcher=launcher), spaces


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeBackend]:
    """Return a backend that launches on three emulated nodes."""
    with _emulated(tmp_path_factory.mktemp("hosts")) as (backend, _spaces):
        yield backend


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
    steps = tuple(Step(i, 3, 5.0) for i in range(len(cells)))
    plan = LaunchPlan(LAUNCHED, cells, steps, 60.0, sync, side_by_side)
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert result.ending is Ending.PLAN, result.message
    assert [(m.status, len(m.times_s)) for m in result.measurements] == [
        (RunStatus.OK, 3) for _ in cells
    ]
    hosts = [result.facts[f"node.{i}"] for i in range(3)]
    assert hosts == ["na, 2 processes", "nb, 2 processes", "nc, 2 processes"]


KILL_NODE = """
for process in /proc/[0-9]*; do
    number=${process#/proc/}
    [ "$(nsenter --target=$number --uts hostname 2>/dev/null)" = nc ] && kill -KILL $number
done
true
"""


@pytest.mark.slow
def test_a_node_that_vanishes_is_blamed_on_no_algorithm(tmp_path: Path) -> None:
    """Its shapes are given up, what was timed is kept, and the campaign ends by itself.

    Smaller shapes are tried, too; mpirun may insist on every node of its host file.
    """
    shell = tmp_path / "remote_shell"
    campaign = Campaign(
        (Collective.BCAST,),
        (8, 4096),
        machine="m",
        nodes=(1, 2, 3),
        ppn=(2,),
        only=("*.binomial:*", "*.pipeline:*"),
        total_s=240.0,
        max_reps=20,
    )
    with _emulated(tmp_path) as (backend, spaces):

        def vanish(_what: str, _spent_s: float) -> None:
            measuring = list((tmp_path / "d" / "raw").glob("*/raw.txt"))
            alive = "nc" not in shell.read_text()
            if alive and len(measuring) > 1:
                shell.write_text(shell.read_text().replace("shift\n", GONE, 1))
                spaces.run(["sh", "-c", KILL_NODE])

        report = run_campaign(campaign, backend, tmp_path / "d", seed=1, progress=vanish)
    frame = read_parquet(tmp_path / "d").frame
    assert "nc" in shell.read_text()
    assert "no more launches on 3x2" in report.problems
    assert report.finished
    assert set(frame["status"]) <= {"ok", "abandoned"}
