"""The job that is tuned for: its decisions as a table, and what became of each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from colltune.decisions import DecisionTable, Interval, Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.mpi import Release
from colltune.selector.confirming import ContestedInstance, ContestState, cuts_between
from colltune.selector.decision_table import merged
from colltune.text import UNPRINTED, computed

_ELEMENT_BYTES = 8
_SAME_REASON = "the default runs this algorithm by itself"
Watched = Mapping[Instance, str]
"""Which function was seen to run for an instance."""


@dataclass(frozen=True)
class TunedRange:
    """A range of message sizes: what it was given, and what became of it."""

    collective: Collective
    interval: Interval = field(metadata=UNPRINTED)
    default_algorithms: tuple[str, ...]
    """algorithms that the library runs there by itself"""
    predicted_gain: float | None
    """predicted runtime of the default over that of the proposed configuration"""
    measured: Confirmation | None = field(metadata=UNPRINTED)
    in_effect: bool | None
    """whether exactly this configuration was seen to run; null: not looked at"""

    @computed
    def first_bytes(self) -> int:
        """Smallest message of the range."""
        return self.interval.first_bytes

    @computed
    def last_bytes(self) -> int | None:
        """Largest message of the range; null: no end."""
        return self.interval.last_bytes

    @computed
    def configuration(self) -> Configuration:
        """Id of the configuration that the file has."""
        return self.interval.configuration

    @computed
    def measured_gain(self) -> float | None:
        """Runtime of the default over that of what was proposed; null: not measured."""
        return self.measured.gain if self.measured else None

    @computed
    def measured_gain_lower(self) -> float | None:
        """Lower end of its 95 % interval."""
        return self.measured.lower if self.measured else None

    @computed
    def measured_gain_upper(self) -> float | None:
        """Upper end of its 95 % interval."""
        return self.measured.upper if self.measured else None

    @computed
    def launches(self) -> int:
        """Launches in which it was measured."""
        return self.measured.launches if self.measured else 0

    @computed
    def verdict(self) -> str:
        """Confirmed, withdrawn, or withdrawn, not measured; empty: nothing was proposed."""
        if self.measured is None:
            return ""
        not_measured = "" if self.measured.launches else ", not measured"
        return f"{self.measured.status}{not_measured}"

    @computed
    def withdrawn(self) -> Configuration | None:
        """Id of the configuration that was withdrawn."""
        return self.measured.proposed if self.measured and self.configuration.is_default else None


@dataclass(frozen=True)
class TunedJob:
    shape: Shape
    msizes_bytes: tuple[int, ...]
    release: Release

    def instances(self, collective: Collective, interval: Interval) -> list[Instance]:
        inside = sorted(m for m in self.msizes_bytes if interval.holds(m))
        return [Instance(collective, self.shape, m) for m in inside]

    def intervals(self, table: DecisionTable) -> list[tuple[Collective, Interval]]:
        return [
            (collective, interval)
            for (collective, comm_size), intervals in table.rules.items()
            if comm_size == self.shape.nprocs
            for interval in intervals
        ]

    def same(
        self, chosen: Configuration, instances: Iterable[Instance], default_seen: Watched
    ) -> list[Instance]:
        """Return those of `instances` for which the default certainly runs what was chosen."""
        # with parameters, the same algorithm can still run in another way
        expected = () if chosen.parameters else self.release.expected_symbols(chosen)
        return [instance for instance in instances if default_seen.get(instance) in expected]

    def ends(self, sizes: Iterable[int]) -> list[int]:
        """Return sizes at the ends of the ranges around `sizes`, whole elements of 8 bytes."""
        ascending = sorted(sizes)
        cuts = cuts_between(ascending)
        ends = {_up(first) for first in (1, *cuts)}
        ends |= {_down(last) for last in (*(cut - 1 for cut in cuts), 2 * ascending[-1])}
        return sorted(ends - {0, *ascending})

    def alike(self, contest: ContestedInstance, default_seen: Watched) -> tuple[int, int | None]:
        """Return from where to where the default was seen to run as at the size of a contest."""
        at, first, last = contest.instance, contest.first_bytes, contest.last_bytes
        size = at.msize_bytes

        def runs_as_here(msize_bytes: int) -> bool:
            there = replace(at, msize_bytes=msize_bytes)
            return at in default_seen and default_seen.get(there) == default_seen[at]

        is_first = _up(max(first, 1)) <= size and runs_as_here(_up(max(first, 1)))
        is_last = last is not None and _down(last) >= size and runs_as_here(_down(last))
        return first if is_first else size, last if is_last else size

    def without_same(self, table: DecisionTable, default_seen: Watched) -> DecisionTable:
        """Leave to the library what it does by itself, as far as that is certain."""

        def changed(collective: Collective, intervals: Sequence[Interval]) -> Iterator[Interval]:
            default = Configuration.default(table.library, collective)
            for interval in intervals:
                instances = self.instances(collective, interval)
                same = self.same(interval.configuration, instances, default_seen)
                yield from without_same(default, interval, instances, same)

        return self._with_own(table, changed)

    def merged(self, table: DecisionTable) -> DecisionTable:
        return self._with_own(table, lambda _collective, intervals: merged(intervals))

    def _with_own(
        self,
        table: DecisionTable,
        change: Callable[[Collective, Sequence[Interval]], Iterable[Interval]],
    ) -> DecisionTable:
        """Change the intervals of the whole job's communicator."""
        rules = dict(table.rules)
        for key, intervals in table.rules.items():
            if key[1] == self.shape.nprocs:
                rules[key] = tuple(change(key[0], intervals))
        return replace(table, rules=rules)

    def unproven(self, table: DecisionTable, now_utc: str) -> list[Confirmation]:
        """Return that what no measurement proved is withdrawn: nothing shows that it is faster."""
        return [
            Confirmation(
                collective=collective,
                shape=self.shape,
                first_bytes=interval.first_bytes,
                last_bytes=interval.last_bytes,
                status=Status.WITHDRAWN,
                configuration=Configuration.default(interval.configuration.library, collective),
                proposed=interval.configuration,
                gain=None,
                lower=None,
                upper=None,
                launches=0,
                measured_utc=now_utc,
            )
            for collective, interval in self.intervals(table)
            if interval.status is Status.PREDICTED and not interval.configuration.is_default
        ]

    def rows(
        self,
        table: DecisionTable,
        bundle: Bundle,
        judgements: Sequence[ContestState],
        default_seen: Watched,
        tuned_seen: Watched,
    ) -> list[TunedRange]:
        """Return the result of each interval; sizes between those measured join their neighbour."""
        names = self._names(bundle.collectives)
        predicted = {
            (judgement.contest.collective, judgement.first_bytes): judgement.contest.gain
            for judgement in judgements
        }
        rows: list[TunedRange] = []
        for collective, interval in self.intervals(table):
            instances = self.instances(collective, interval)
            measured = self._record(bundle, collective, interval)
            if measured and not measured.launches and not instances:
                measured = None  # beside what was measured
            if not instances and rows and _is_alike(rows[-1], collective, interval, measured):
                longer = replace(rows[-1].interval, last_bytes=interval.last_bytes)
                rows[-1] = replace(rows[-1], interval=longer)
                continue
            default_names = [names.get(default_seen.get(i, ""), "") for i in instances]
            rows.append(
                TunedRange(
                    collective,
                    interval,
                    tuple(dict.fromkeys(name for name in default_names if name)),
                    predicted.get((collective, interval.first_bytes)),
                    measured,
                    self._in_effect(interval, instances, tuned_seen),
                )
            )
        return rows

    def _names(self, collectives: Iterable[Collective]) -> dict[str, str]:
        """Return the algorithm's name for each traced function."""
        return {
            symbol: configuration.algorithm
            for collective in collectives
            for configuration in self.release.portfolio(collective).configurations
            for symbol in self.release.expected_symbols(configuration)
        }

    def _record(
        self, bundle: Bundle, collective: Collective, interval: Interval
    ) -> Confirmation | None:
        if interval.status is Status.PREDICTED:
            return None
        first, ours = np.array(interval.first_bytes), (collective, self.shape)
        known = (r for r in bundle.confirmations if (r.collective, r.shape) == ours)
        return next((record for record in known if record.holds(first)), None)

    def _in_effect(
        self, interval: Interval, instances: Sequence[Instance], seen: Watched
    ) -> bool | None:
        if interval.configuration.is_default or not instances or not seen:
            return None
        expected = self.release.expected_symbols(interval.configuration)
        return all(seen.get(instance) in expected for instance in instances)


def _up(msize_bytes: int) -> int:
    return -(-msize_bytes // _ELEMENT_BYTES) * _ELEMENT_BYTES


def _down(msize_bytes: int) -> int:
    return msize_bytes // _ELEMENT_BYTES * _ELEMENT_BYTES


def _is_alike(
    row: TunedRange, collective: Collective, interval: Interval, measured: Confirmation | None
) -> bool:
    """Tell whether sizes between those measured are left to the default, as the row before."""
    return (
        row.collective is collective
        and row.interval.configuration == interval.configuration
        and row.measured is None
        and (measured is None or not measured.launches)
    )


def without_same(
    default: Configuration,
    interval: Interval,
    instances: Sequence[Instance],
    same: Collection[Instance],
) -> list[Interval]:
    """Split a chosen interval into what changes anything and what the library does by itself.

    `same` are the instances for which the library itself runs the chosen algorithm; they are left
    to `default`. The parts around instances are cut at geometric means of their sizes.
    """
    if interval.configuration.is_default or not set(instances) & set(same):
        return [interval]
    left = {"configuration": default, "reason": _SAME_REASON, "status": Status.PREDICTED}
    cuts = cuts_between([i.msize_bytes for i in instances])
    firsts = [interval.first_bytes, *cuts]
    lasts = [*(cut - 1 for cut in cuts), interval.last_bytes]
    parts: list[Interval] = []
    for instance, first, last in zip(instances, firsts, lasts, strict=True):
        change: dict[str, Any] = left if instance in same else {}
        part = replace(interval, first_bytes=first, last_bytes=last, **change)
        if parts and parts[-1].configuration == part.configuration:
            parts[-1] = replace(parts[-1], last_bytes=last)
        else:
            parts.append(part)
    return parts
