"""The tuner's picks beside an exhaustive search on the same machine (figures 8 and 9)."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus
from colltune.errors import DataError
from colltune.han.choosing import pick
from colltune.han.tasks_file import TaskTimes
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.library import OPENMPI

Exhaustive = Mapping[Instance, Mapping[Configuration, float]]


@dataclass(frozen=True)
class Compared:
    """One instance: what the tuner picked, and what whole collectives were measured to take.

    ``composed_s`` is what the tuner took the pick's runtime for, ``picked_s`` what was measured of
    it; ``best_s``, ``median_s`` and ``mean_s`` are over all setups.
    """

    instance: Instance
    picked: Configuration
    best: Configuration
    composed_s: float
    picked_s: float
    best_s: float
    median_s: float
    mean_s: float

    @property
    def regret(self) -> float:
        """How much slower the pick is than the best, as a share of the best."""
        return self.picked_s / self.best_s - 1


def exhaustive_of(
    release: str, measurements: Iterable[Measurement]
) -> dict[Instance, dict[Configuration, float]]:
    """Return the median runtime of each setup of coll/han that was measured as a whole collective.

    Setups that run in the same way for an instance stand under their smallest spelling.
    """
    times: dict[Instance, dict[Configuration, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in measurements:
        if not han_setups.is_setup(one.configuration) or one.status is not RunStatus.OK:
            continue
        if one.summary is not None:
            spelled = OPENMPI.han_setups(release).cut(one.configuration, one.instance.msize_bytes)
            times[one.instance][spelled].append(one.summary.time_s)
    return {
        instance: {setup: statistics.median(found) for setup, found in by_setup.items()}
        for instance, by_setup in times.items()
    }


def compare(
    tasks: TaskTimes,
    setups: Mapping[Collective, Sequence[Configuration]],
    exhaustive: Exhaustive,
) -> tuple[Compared, ...]:
    """Return the comparison of every instance of the exhaustive search that the tasks tell."""
    found = []
    for instance in sorted(exhaustive, key=lambda i: (i.collective, i.shape, i.msize_bytes)):
        compared = _compared(tasks, setups.get(instance.collective, ()), instance, exhaustive)
        if compared is not None:
            found.append(compared)
    if not found:
        raise DataError(
            "no instance was both tuned by tasks and measured exhaustively; measure whole"
            " collectives by `colltune measure --only '*.han_intra*'` on the same machine"
        )
    return tuple(found)


def mean_regret(compared: Sequence[Compared]) -> float:
    """Return the mean over instances of the picks' regret."""
    return statistics.fmean(one.regret for one in compared)


def _compared(
    tasks: TaskTimes,
    setups: Sequence[Configuration],
    instance: Instance,
    exhaustive: Exhaustive,
) -> Compared | None:
    release, measured = tasks.context.library_version, exhaustive[instance]

    def runs(setup: Configuration) -> Configuration:
        return OPENMPI.han_setups(release).cut(setup, instance.msize_bytes)

    known = [setup for setup in setups if runs(setup) in measured]
    try:
        chosen = pick(tasks, known, instance)
    except DataError:
        return None
    best = min(measured, key=lambda setup: measured[setup])
    return Compared(
        instance,
        runs(chosen.setup),
        best,
        chosen.time_s,
        measured[runs(chosen.setup)],
        measured[best],
        statistics.median(measured.values()),
        statistics.fmean(measured.values()),
    )
