"""Selections as plain values, the same in files, JSON and HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from colltune.decisions import Interval, Selection, Status
from colltune.domain import Collective, Configuration, Shape
from colltune.selector.argmin import ModelSelector

if TYPE_CHECKING:
    from colltune.mpi.programs import Programs


class NextBest(NamedTuple):
    """A candidate that was not chosen."""

    configuration: Configuration
    time_s: float
    """its predicted runtime"""


class SelectedInstance(NamedTuple):
    """What to use for one instance, and why."""

    collective: Collective
    nodes: int
    ppn: int
    msize_bytes: int
    algorithm: str
    """name of the selected algorithm"""
    parameters: str | None
    """its parameters, segsize=65536,fanout=4; null: none"""
    segsize_bytes: int | None
    """its segment size, if it has one"""
    time_s: float | None
    """its predicted runtime"""
    lower_s: float | None
    """lower end of the 90 % interval"""
    upper_s: float | None
    """upper end of the 90 % interval"""
    default_time_s: float | None
    """predicted runtime of the default"""
    reason: str
    """why, in words"""
    configuration: Configuration
    gain: float
    """default's runtime over its runtime, 1 where unknown"""
    gain_bound: float | None
    """lower bound of the gain that the choice rests on"""
    extrapolated: bool
    """whether the instance lies outside what was measured"""
    status: Status
    """predicted, confirmed or withdrawn"""
    runners_up: tuple[NextBest, ...]
    """the next best configurations, fastest first"""

    @classmethod
    def of(cls, selection: Selection) -> SelectedInstance:
        """Return one decision with everything that is known of it; None for what is not."""
        instance, configuration = selection.instance, selection.configuration
        prediction, default = selection.prediction, selection.default
        return cls(
            instance.collective,
            instance.shape.nodes,
            instance.shape.ppn,
            instance.msize_bytes,
            configuration.algorithm,
            configuration.parameter_text or None,
            configuration.segsize_bytes,
            prediction.time_s if prediction else None,
            prediction.lower_s if prediction else None,
            prediction.upper_s if prediction else None,
            default.time_s if default else None,
            selection.reason,
            configuration,
            selection.gain,
            selection.gain_bound,
            selection.extrapolated,
            selection.status,
            tuple(NextBest(c.configuration, c.prediction.time_s) for c in selection.runners_up),
        )

    def row(self) -> list[object]:
        """Return the values of `COLUMNS`; the empty text stands for what is not known."""
        return ["" if value is None else value for value in self[: len(COLUMNS)]]


COLUMNS = SelectedInstance._fields[:12]
"""Of `SelectedInstance.row`."""


class SelectedShape(NamedTuple):
    """A job's shape."""

    nodes: int
    ppn: int


class SelectionTable(NamedTuple):
    """What to use on a shape, over all message sizes."""

    bundle: str
    """id of the bundle"""
    objective: str
    promise: str
    shape: SelectedShape
    """the job's shape"""
    intervals: tuple[Interval, ...]
    """ranges of message sizes, collective by collective"""

    @classmethod
    def of(
        cls,
        selector: ModelSelector,
        collectives: Iterable[Collective],
        shape: Shape,
        programs: Programs,
    ) -> SelectionTable:
        """Return what `selector`, which chooses for `programs`, decides on `shape`."""
        from colltune.selector.decision_table import intervals

        bundle, where = selector.bundle, SelectedShape(shape.nodes, shape.ppn)
        found = tuple(each for c in collectives for each in intervals(selector, c, shape))
        return cls(bundle.id, bundle.objective, str(programs), where, found)
