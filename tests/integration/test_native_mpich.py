"""The native benchmark with a real MPICH, which reads its control variables at every call."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.bench.backends import LaunchPlan
from colltune.bench.backends.native import NativeBackend
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.mpi import LIBRARIES
from tests.integration.real import native_backend

pytestmark = pytest.mark.mpi
THREE = Shape(1, 3)
OWN_COLLECTIVES = {"MPIR_CVAR_ALLGATHER_DEVICE_COLLECTIVE": 0, "MPIR_CVAR_COLLECTIVE_FALLBACK": 0}


@pytest.fixture(scope="module")
def backend() -> NativeBackend:
    """Return the native backend for the MPICH of this machine."""
    return native_backend("mpich")


def _statuses(
    backend: NativeBackend, folder: Path, shape: Shape, *algorithms: int | str
) -> list[RunStatus]:
    """Call an all-gather thrice under each of the algorithms, in one launch."""
    default = Configuration.default("mpich", Collective.ALLGATHER)
    cells = tuple(
        Cell(default, Instance(Collective.ALLGATHER, shape, 64 + i)) for i in range(len(algorithms))
    )
    name = "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM"
    settings: list[dict[str, int | str]] = [{**OWN_COLLECTIVES, name: a} for a in algorithms]
    plan = LaunchPlan(
        shape, cells, tuple(ScheduleStep(i, 3, 600.0) for i in range(len(cells))), 600.0
    )
    outcome = backend.launch(plan, settings, "l", folder, {})
    assert outcome.ok, outcome.explain()
    return [m.status for m in backend.salvage(folder)]


def test_a_control_variable_switches_the_next_call(backend: NativeBackend, tmp_path: Path) -> None:
    """Recursive doubling, which needs a power of two, fails on 3 processes; those around it run."""
    algorithms = ("ring", "recursive_doubling", "brucks", "recursive_doubling", "auto")
    assert _statuses(backend, tmp_path, THREE, *algorithms) == [
        RunStatus.OK,
        RunStatus.NOT_APPLICABLE,
        RunStatus.OK,
        RunStatus.NOT_APPLICABLE,
        RunStatus.OK,
    ]
    (tmp_path / "two").mkdir()
    two = _statuses(backend, tmp_path / "two", Shape(1, 2), "recursive_doubling", "ring")
    assert two == [RunStatus.OK, RunStatus.OK]


def test_items_are_known_by_name_and_number(backend: NativeBackend, tmp_path: Path) -> None:
    """A name stands for the number that the library gives it; an unknown one is a status."""
    numbers = _statuses(backend, tmp_path, THREE, 0, 1, 2, 3, 4)
    assert sorted(numbers) == [RunStatus.NOT_APPLICABLE, *[RunStatus.OK] * 4]
    (tmp_path / "names").mkdir()
    names = ("recursive", "doubling", "auto", "no_such_algorithm", "recursive_doubling")
    assert _statuses(backend, tmp_path / "names", THREE, *names) == [
        RunStatus.NOT_APPLICABLE,
        RunStatus.NOT_APPLICABLE,
        RunStatus.OK,
        RunStatus.NOT_APPLICABLE,
        RunStatus.NOT_APPLICABLE,
    ]


def test_a_configuration_of_its_own_launch_is_measured(
    backend: NativeBackend, tmp_path: Path
) -> None:
    """What MPICH reads once at its start is forced by the environment of a launch."""
    release = backend.context("m").library_version
    found = LIBRARIES["mpich"].at(release).portfolio(Collective.ALLREDUCE).configurations
    shape = Shape(1, 2)
    cells = tuple(Cell(c, Instance(Collective.ALLREDUCE, shape, 4000)) for c in found)
    groups = backend.together([cell for cell in cells if backend.feasible(cell)])
    if len(groups) == 1:
        pytest.skip(f"MPICH {release} can switch every algorithm inside a run")
    (cell,) = groups[-1]
    plan = LaunchPlan(shape, (cell,), (ScheduleStep(0, 5, 600.0),), 600.0)
    result = backend.run(plan, "l", tmp_path, lambda _: None)
    assert [(m.configuration, len(m.times_s)) for m in result.measurements] == [
        (cell.configuration, 5)
    ]
