"""The performance dataset: one context, one row per launch, configuration and instance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from colltune.dataset.objective import Objective, cell_text, launch_times
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    LaunchStatistics,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import say
from colltune.text import counted

CELL_COLUMNS = ["collective", "algorithm", "parameters", "nodes", "ppn", "msize_bytes"]
TIME_COLUMNS = ["time_s", "time_mean_s", "time_min_s", "time_p90_s", "time_max_s"]
RANK_COLUMNS = ["time_rank_mean_s", "time_rank_min_s"]
ALL_TIMES = [*TIME_COLUMNS, *RANK_COLUMNS]
"""Of which the latter are those of imports alone."""
_TIMED = [status for status in RunStatus if status.is_timed]
_SLOW = [RunStatus.TIMEOUT, RunStatus.SKIPPED]
COLUMNS = [*CELL_COLUMNS, "launch", "status", "n_reps", *ALL_TIMES, "times_s"]


@dataclass(frozen=True, eq=False)
class PerformanceDataset:
    """Measurements of one context.

    ``frame`` has the columns ``COLUMNS``: one row per launch, configuration and instance; times
    in seconds, NaN unless the status is timed; ``times_s`` holds the raw repetitions, empty where
    they are unknown.
    """

    context: Context
    frame: pd.DataFrame

    @classmethod
    def of(cls, context: Context, measurements: Iterable[Measurement]) -> PerformanceDataset:
        """Build a dataset from measurements.

        All `measurements` are of the one context.
        """
        return cls(context, pd.DataFrame([_row(m) for m in measurements], columns=COLUMNS))

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives measured, sorted."""
        return tuple(sorted(Collective(c) for c in self.frame["collective"].unique()))

    def configurations(self, collective: Collective) -> tuple[Configuration, ...]:
        """Return the configurations seen for `collective`, sorted, the default included if seen."""
        rows = self.frame[self.frame["collective"] == collective]
        pairs = rows[["algorithm", "parameters"]].drop_duplicates().itertuples(index=False)
        library = self.context.library
        return tuple(sorted(Configuration.stored(library, collective, a, p) for a, p in pairs))

    def shapes(self) -> tuple[Shape, ...]:
        """Return the shapes measured, sorted."""
        pairs = self.frame[["nodes", "ppn"]].drop_duplicates().itertuples(index=False)
        return tuple(sorted(Shape(int(n), int(p)) for n, p in pairs))

    def measurements(self) -> tuple[Measurement, ...]:
        """Return the rows as domain objects, in order."""
        return tuple(
            _measurement(self.context.library, row) for row in self.frame.itertuples(index=False)
        )

    def where(self, mask: pd.Series[bool]) -> PerformanceDataset:
        """Keep the rows where `mask` holds."""
        return replace(self, frame=self.frame[mask].reset_index(drop=True))

    def cells(self, objective: Objective = Objective.MEDIAN) -> pd.DataFrame:
        """Return one row per configuration and instance that was measured well at least once.

        ``time_s`` is the median over launches of the launches' `objective`, in seconds; for the
        objective mean it is the mean over launches. A configuration that ever gave a wrong result
        is left out altogether.

        Raises
        ------
        DataError
            If a measurement has only a summary, and that lacks the `objective`.
        """
        frame = self.frame
        wrong = frame[frame["status"] == RunStatus.WRONG_RESULT]
        keys = ["collective", "algorithm", "parameters"]
        bad = pd.MultiIndex.from_frame(wrong[keys].drop_duplicates())
        usable = frame[
            frame["status"].isin(_TIMED) & ~pd.MultiIndex.from_frame(frame[keys]).isin(bad)
        ]
        times = usable.assign(time_s=launch_times(usable, objective))
        over_launches = "mean" if objective is Objective.MEAN else "median"
        cells = times.groupby(CELL_COLUMNS, sort=True)["time_s"].agg(over_launches)
        return cells.reset_index()

    def timed(self) -> pd.DataFrame:
        """Return the rows that have times."""
        return self.frame[self.frame["status"].isin(_TIMED)]

    def few_cells(self) -> pd.DataFrame:
        """Return the cells of `CELL_COLUMNS` that no launch repeated often enough to prove a time.

        Those of imports without their repetitions are not among them.
        """
        timed = self.timed()
        few = timed["status"] == RunStatus.TOO_FEW
        well = pd.MultiIndex.from_frame(timed.loc[~few, CELL_COLUMNS])
        found = timed.loc[few, CELL_COLUMNS].drop_duplicates()
        return found[~pd.MultiIndex.from_frame(found).isin(well)].reset_index(drop=True)

    def slow_cells(self) -> pd.DataFrame:
        """Return the cells of `CELL_COLUMNS` that were left out because they are slow.

        They ran into a time limit or were skipped as too slow by prediction, and no launch timed
        them.
        """
        frame = self.frame
        slow = frame.loc[frame["status"].isin(_SLOW), CELL_COLUMNS].drop_duplicates()
        timed = pd.MultiIndex.from_frame(frame.loc[frame["status"].isin(_TIMED), CELL_COLUMNS])
        return slow[~pd.MultiIndex.from_frame(slow).isin(timed)].reset_index(drop=True)


def join(datasets: Sequence[PerformanceDataset]) -> PerformanceDataset:
    first, *rest = datasets
    for other in rest:
        if other.context != first.context:
            raise say("contexts-differ", context=first.context, other=other.context)
    frame = pd.concat([d.frame for d in datasets], ignore_index=True)
    refuse_duplicates(frame, "the joined data")
    return replace(first, frame=frame)


def refuse_duplicates(frame: pd.DataFrame, source: str) -> None:
    """Raise `DataError` when two rows are the same cell of the same launch."""
    doubled = frame.duplicated([*CELL_COLUMNS, "launch"], keep="first")
    if doubled.any():
        at = int(np.flatnonzero(doubled.to_numpy())[0])
        cells, first = counted(int(doubled.sum()), "duplicate cell"), cell_text(frame.iloc[at])
        raise say("duplicate-cells", file=source, cells=cells, row=at + 1, cell=first)


def _row(measurement: Measurement) -> tuple[object, ...]:
    instance, configuration = measurement.instance, measurement.configuration
    summary = measurement.summary
    times = [getattr(summary, name) if summary else np.nan for name in ALL_TIMES]
    return (
        instance.collective.value,
        configuration.stored_algorithm,
        configuration.parameter_text,
        instance.shape.nodes,
        instance.shape.ppn,
        instance.msize_bytes,
        measurement.launch,
        measurement.status.value,
        summary.n_reps if summary else 0,
        *times,
        measurement.times_s,
    )


def _measurement(library: str, row: Any) -> Measurement:
    collective, status = Collective(row.collective), RunStatus(row.status)
    summary = None
    if status.is_timed:
        summary = LaunchStatistics(
            int(row.n_reps), *(float(getattr(row, n, np.nan)) for n in ALL_TIMES)
        )
    return Measurement(
        Instance(collective, Shape(int(row.nodes), int(row.ppn)), int(row.msize_bytes)),
        Configuration.stored(library, collective, row.algorithm, row.parameters),
        str(row.launch),
        status,
        tuple(row.times_s),
        summary,
    )
