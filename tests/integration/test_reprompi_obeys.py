"""Which algorithm runs under ReproMPI's mpibenchmark, watched by the call tracer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from colltune.bench.backends import LaunchPlan
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.launchers import Launcher, Placed, launcher_of
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Configuration, Instance, RunStatus, Shape
from colltune.errors import ProgramError
from colltune.mpi import library, trace
from tests.integration.real import RealMpi
from tests.integration.virtual_nodes import Inside, Namespaces, openmpi_hosts

pytestmark = pytest.mark.mpi
FORCED = (
    "openmpi.bcast.pipeline:segsize=1024",
    "openmpi.bcast.basic_linear",
    "openmpi.allreduce.ring",
    "openmpi.allreduce.recursive_doubling",
    "openmpi.alltoall.pairwise",
)


@pytest.fixture(autouse=True, scope="module")
def _has_mpibenchmark(mpi: RealMpi) -> None:
    try:
        ReproMpiBackend(mpi.installation)
    except ProgramError as error:
        pytest.skip(str(error))


def _symbols(mpi: RealMpi, launcher: Launcher, shape: Shape, folder: Path) -> dict[str, set[str]]:
    """Return which of the forced configurations' functions the last rank ran, for each of them."""
    symbols = {
        text: library("openmpi").at(mpi.release).expected_symbols(Configuration.parse(text))
        for text in FORCED
    }
    backend = ReproMpiBackend(mpi.installation, launcher)
    seen = {}
    for number, text in enumerate(FORCED):
        configuration = Configuration.parse(text)
        cell = Cell(configuration, Instance(configuration.collective, shape, 16384))
        (folder / str(number)).mkdir()
        plan = LaunchPlan(shape, (cell,), (ScheduleStep(0, 5, 600.0),), 600.0)
        result = backend.run(plan, "l", folder / str(number), lambda _: None)
        assert [m.status for m in result.measurements] == [RunStatus.OK], result.message
        (said,) = (folder / str(number)).glob("stderr-*.txt")
        traced = said.read_text()
        collective = configuration.collective
        seen[text] = {
            other
            for other in FORCED
            if Configuration.parse(other).collective is collective
            and any(symbol in traced for symbol in symbols[other])
        }
    return seen


def _traced(mpi: RealMpi, shape: Shape, options: Sequence[str] = ()) -> Launcher:
    last = trace.launch_options(mpi.tracer, rank=shape.nprocs - 1)
    return Placed(launcher_of(mpi.installation), options=(*last, *options))


def test_the_forced_algorithm_is_the_one_that_runs(mpi: RealMpi, tmp_path: Path) -> None:
    """Each configuration runs its own function, and none of another one of its collective."""
    shape = Shape(1, 4)
    assert _symbols(mpi, _traced(mpi, shape), shape, tmp_path) == {text: {text} for text in FORCED}


@pytest.mark.root
def test_it_runs_on_other_nodes_too(mpi: RealMpi, spaces: Namespaces, tmp_path: Path) -> None:
    """Across nodes, where Open MPI 5.0 would prefer coll/han, the forced function runs as well."""
    shape = Shape(2, 2)
    hosts = openmpi_hosts(tmp_path, ["na", "nb"], slots=2)
    launcher = Inside(_traced(mpi, shape, hosts), spaces)
    assert _symbols(mpi, launcher, shape, tmp_path) == {text: {text} for text in FORCED}
