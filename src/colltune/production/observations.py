"""What a job's summary says that can be compared, and what its bundle had decided there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from colltune.dataset.profile import UNKNOWN_ARM, CallKind, Use
from colltune.decisions import DecisionTable, Status
from colltune.domain import Shape
from colltune.errors import ColltuneError
from colltune.models.bundle import Bundle
from colltune.models.guard import Guard
from colltune.mpi.programs import FOR_EVERYBODY, Programs
from colltune.production.summary import Given, MpiRun, Summary
from colltune.registry import Registry, slot_of
from colltune.selector.configuration import selector_for, table_for, target_of

LEAST_TIMED = 8
"""Calls of a job that must have been timed to make an observation."""
_OWN = "own"
_MOST_TABLES, _MOST_BUNDLES = 512, 4


class HandedOut(NamedTuple):
    """What a bundle hands out: a configuration's id, and whether a measurement confirmed it."""

    configuration: str
    is_confirmed: bool


class RegistryDecisions:
    """What the bundles of a registry decide, as the service hands it out to jobs.

    `guard` and `programs` are those of the service.
    """

    def __init__(
        self, registry: Registry, guard: Guard, programs: Programs = FOR_EVERYBODY
    ) -> None:
        self._registry, self._guard, self._programs = registry, guard, programs
        self._bundles: dict[str, Bundle] = {}
        self._slots: dict[str, str] = {}
        self._tables: dict[tuple[str, Shape], _SizedTable] = {}

    def slot(self, bundle_id: str) -> str | None:
        """Return the slot of a bundle, None if the registry has it no more."""
        if bundle_id not in self._slots:
            try:
                self._slots[bundle_id] = slot_of(self._bundle(bundle_id).context)
            except ColltuneError:
                return None
        return self._slots[bundle_id]

    def choice(self, bundle_id: str, job: Shape, kind: CallKind) -> HandedOut | None:
        """Return what a job of a shape was given for calls of a kind; None for the default."""
        key = bundle_id, job
        if key not in self._tables:
            _drop_oldest(self._tables, _MOST_TABLES)
            self._tables[key] = self._table(bundle_id, job)
        return self._tables[key].choice(kind)

    def _bundle(self, bundle_id: str) -> Bundle:
        if bundle_id not in self._bundles:
            _drop_oldest(self._bundles, _MOST_BUNDLES)
            self._bundles[bundle_id] = self._registry.load(bundle_id)
        return self._bundles[bundle_id]

    def _table(self, bundle_id: str, job: Shape) -> _SizedTable:
        try:
            bundle = self._bundle(bundle_id)
            target = target_of(bundle, self._programs)
            selector = selector_for(bundle, target, guard=self._guard)
            found = table_for(selector, job, target, describe=False)
        except ColltuneError:
            # nothing was handed out where nothing can be written
            return _SizedTable(DecisionTable("", job, {}), None)
        return _SizedTable(found, job.nprocs if target.form.single_algorithm else None)


class _SizedTable(NamedTuple):
    """Decisions; ``all_sizes`` is the size of communicators whose rules hold for all, if any."""

    table: DecisionTable
    all_sizes: int | None

    def choice(self, kind: CallKind) -> HandedOut | None:
        rules = None
        if kind.shape is not None:
            rules = self.table.by_layout.get((kind.collective, kind.shape))
        if rules is None:
            rules = self.table.rules.get((kind.collective, self.all_sizes or kind.nprocs), ())
        # the geometric middle of the bin
        size = round(kind.first_bytes * 2**0.5)
        found = next((interval for interval in rules if interval.holds(size)), None)
        if found is None or found.configuration.is_default:
            return None
        return HandedOut(found.configuration.id, found.status is Status.CONFIRMED)


def _drop_oldest(known: dict[Any, Any], most: int) -> None:
    while len(known) >= most:
        del known[next(iter(known))]


class ObservedCalls(NamedTuple):
    """Calls of a kind in a job: the logarithm of their mean seconds, None where few were timed.

    With the mean logarithm the root of a broadcast, which only sends, would weigh as much as those
    who wait: that it leaves after 10 us instead of 1 ms is no gain of 100.
    """

    kind: CallKind
    log_s: float | None
    process_s: float

    @property
    def name(self) -> str:
        return f"{self.kind.collective}/{self.kind.shape}/{self.kind.first_bytes}"


@dataclass(frozen=True)
class Observed:
    """What one program of a job tells of one slot; ``shape`` is that of its MPI_COMM_WORLD."""

    slot: str
    given: Given
    program: str
    shape: Shape
    rows: tuple[ObservedCalls, ...]

    @property
    def strata(self) -> str:
        """The key of what it is compared with."""
        return f"strata/{self.slot}/{self.shape}/{self.program}"


def observed(
    summary: Summary, decisions: RegistryDecisions, left_out: Counter[str]
) -> list[Observed]:
    """Return what can be compared; `left_out` counts what cannot, by reason."""
    given = {(one.library, one.release): one for one in summary.given}
    runs: dict[tuple[Given, str, Shape], list[MpiRun]] = {}
    for run in summary.runs:
        told = given.get((run.job.library, run.job.release))
        why = _why_not(run, told)
        if why or told is None or run.job.shape is None:
            left_out[why] += 1
        else:
            runs.setdefault((told, run.job.program, run.job.shape), []).append(run)
    found = []
    for (told, program, shape), ours in runs.items():
        slot = decisions.slot(told.bundle_id)
        if slot is None:
            left_out["the bundle is in the registry no more"] += 1
        else:
            found.append(Observed(slot, told, program, shape, tuple(_rows(ours))))
    return found


def is_own(summary: Summary) -> bool:
    """Tell whether the user's own settings decided in any run."""
    return any(run.job.arm == _OWN for run in summary.runs)


def _why_not(run: MpiRun, given: Given | None) -> str:
    if given is None:
        return "the job was given nothing for the library it ran with"
    if run.job.arm == _OWN:
        return "the user's own settings decided"
    if run.job.arm not in (given.arm, UNKNOWN_ARM):
        return "the job was given one arm and ran as another"
    if run.job.shape is None:
        return "nodes had different numbers of processes"
    return ""


def _rows(runs: list[MpiRun]) -> Iterator[ObservedCalls]:
    uses: dict[CallKind, Use] = {}
    for use in (use for run in runs for use in run.uses):
        kind = use.kind
        if kind.shape is not None and kind.nprocs > 1:
            uses[kind] = uses[kind] + use if kind in uses else use
    for kind, use in uses.items():
        is_timed = sum(use.times.values()) >= LEAST_TIMED
        yield ObservedCalls(
            kind, math.log(use.call_s) if is_timed and use.call_s else None, use.process_s
        )
