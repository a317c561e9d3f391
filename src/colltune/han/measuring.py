"""Measures the tasks of a search space within a budget; what is in the file is not done again."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from colltune.domain import Collective, Configuration, Context, RunStatus, Shape
from colltune.errors import BudgetError
from colltune.han import launching, tasks_file
from colltune.han.launching import TaskBench
from colltune.han.space import Inputs, Space, pipeline, repetitions, worth_measuring
from colltune.han.tasks_file import TaskTimes, Wanted, wanted_for

REPS = 5
Setups = tuple[Configuration, ...]
_LEAST_LAUNCH_S = 1.0
_MOST_LAUNCHES_WITHOUT_PROGRESS = 3


@dataclass(frozen=True)
class Request:
    """What is to be tuned over which space, repetitions of each series, whether by heuristics."""

    inputs: Inputs
    space: Space
    reps: int = REPS
    heuristics: bool = False


@dataclass(frozen=True)
class TaskProgress:
    """How far measuring is: series done of those known to be needed, seconds of the budget."""

    done: int
    series: int
    spent_s: float
    budget_s: float


Progress = Callable[[TaskProgress], None]


@dataclass(frozen=True)
class Done:
    """The task times, whether all wanted ones are among them, and what was spent on them here."""

    tasks: TaskTimes
    complete: bool
    spent_s: float
    launches: int


def measure(
    bench: TaskBench,
    context: Context,
    request: Request,
    path: Path,
    budget_s: float,
    progress: Progress = lambda _: None,
) -> Done:
    """Measure what `request` needs and the file `path` lacks; append it there."""
    folder = path.with_name(f"{path.name}.launch")
    tasks = tasks_file.begin(path, context)
    left = launching.left_behind(folder)
    if left is not None:
        tasks_file.append(path, left[0].series)
        tasks = tasks.with_series(left[0].series)
        launching.clear(folder)
    work = _Work(bench, request, path, folder, budget_s, progress, tasks)
    complete = work.all_series()
    launching.clear(folder)
    if not work.tasks.series:
        raise BudgetError(f"{budget_s:g} s were over before a series of tasks was timed; give more")
    return Done(work.tasks, complete, work.spent_s, work.launches)


class _Work:
    """Measuring under way."""

    def __init__(
        self,
        bench: TaskBench,
        request: Request,
        path: Path,
        folder: Path,
        budget_s: float,
        progress: Progress,
        tasks: TaskTimes,
    ) -> None:
        self.tasks, self.launches = tasks, 0
        self._bench, self._request = bench, request
        self._path, self._folder = path, folder
        self._budget_s, self._progress = budget_s, progress
        self._started = time.monotonic()

    @property
    def spent_s(self) -> float:
        """Seconds since the begin."""
        return time.monotonic() - self._started

    def all_series(self) -> bool:
        """Measure everything that is wanted; tell whether the budget was enough."""
        wanted, idle = needed(self._request, self._bench.release), 0
        while True:
            open_ = [w for w in wanted if not self.tasks.covers(w.shape, w.setup, w.most)]
            if not open_:
                return True
            left_s = self._budget_s - self.spent_s
            if left_s < _LEAST_LAUNCH_S or idle >= _MOST_LAUNCHES_WITHOUT_PROGRESS:
                return False
            idle = 0 if self._launch(open_, len(wanted), left_s) else idle + 1

    def _launch(self, open_: Sequence[Wanted], known: int, left_s: float) -> bool:
        """Start the program once; tell whether anything came of it."""
        done = known - len(open_)

        def tell(ended: int, _: float) -> None:
            self._progress(TaskProgress(done + ended, known, self.spent_s, self._budget_s))

        launched = self._request.inputs.launched
        result = self._bench.run(launched, open_, left_s, self._folder, tell)
        self.launches += 1
        found = list(result.output.series)
        if result.crashed and result.output.in_flight is not None:
            status = RunStatus.TIMEOUT if result.timed_out else RunStatus.CRASH
            found.append(
                launching.blamed(open_[result.output.in_flight], status, "ended its launch")
            )
        tasks_file.append(self._path, found)
        launching.clear(self._folder)
        self.tasks = self.tasks.with_series(found)
        return bool(found)


def setups_of(request: Request, release: str, shape: Shape) -> dict[Collective, Setups]:
    """Return the setups to be compared on a shape, by collective."""
    inputs = request.inputs
    found = {c: tuple(request.space.setups(release, c)) for c in inputs.collectives}
    if not request.heuristics:
        return found
    msizes = inputs.msizes_bytes
    return {c: worth_measuring(setups, shape, msizes) for c, setups in found.items()}


def needed(request: Request, release: str) -> tuple[Wanted, ...]:
    """Return the series from which the runtimes of all setups and message sizes can be told.

    Setups and messages with the same tasks share them; shapes follow each other, the largest first.
    """
    reps = repetitions(request.reps) if request.heuristics else request.reps
    found: list[Wanted] = []
    for shape in sorted(request.inputs.shapes, reverse=True):
        segments: dict[Configuration, set[int]] = defaultdict(set)
        for setups in setups_of(request, release, shape).values():
            for setup, msize in product(setups, request.inputs.msizes_bytes):
                tasks, count = pipeline(release, setup, msize)
                segments[tasks].add(count)
        for tasks, counts in segments.items():
            found += wanted_for(shape, tasks, counts, reps)
    return tuple(found)
