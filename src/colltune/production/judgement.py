"""What production proved: gains and harm of decisions, how trials go, drift, and what was saved.

docs/explanation/production.md tells the method and its sources.

Format history of what is kept under the key ``judgement``
----------------------------------------------------------
1. JSON with ``format`` and the fields of `Judgement`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.guard import Guard
from colltune.mpi.programs import Programs
from colltune.production.arms import Arm
from colltune.production.cases import CELLS, JUDGED, SLOTS, STRATA, Cases, forget, utc
from colltune.production.evidence import Decided, Evidence, discoveries, saved
from colltune.production.observations import Decisions
from colltune.production.settings import Production
from colltune.registry import Registry

if TYPE_CHECKING:
    from colltune.production.store import Judging, Store

FORMAT_VERSION = 1
KEY = "judgement"
MOST_AT_ONCE = 2000
"""Summaries that are taken in by one look."""
FALSE_PROVEN = 0.05
"""Share of proven decisions that may be none, in the mean."""
_DAY_S, _SHOWN_DAYS = 86400.0, 30
_MOST_FINDINGS = 2000
_WIDE = 1.10
"""A trial goes on once harm of this ratio beyond the limit is excluded."""
_MOST_WAITS = 10
""" … or after so many times as many jobs as a step has: there is too little that differs."""


class Verdict(StrEnum):
    """Whether a decision proved faster than the default, slower (harm), or neither so far."""

    PROVEN = "proven"
    REFUTED = "refuted"
    OPEN = "open"


class Range(NamedTuple):
    """Calls that are judged together.

    They are of one collective, on communicators that lie on ``nodes_first`` to ``nodes_last`` nodes
    (a power of two, up to below the next) with ``ppn`` processes each, with messages of
    ``first_bytes`` to ``last_bytes``.
    """

    collective: Collective
    nodes_first: int
    nodes_last: int
    ppn: int
    first_bytes: int
    last_bytes: int

    def __str__(self) -> str:
        nodes = str(self.nodes_first)
        if self.nodes_last > self.nodes_first:
            nodes += f" to {self.nodes_last}"
        size = str(self.first_bytes)
        if self.last_bytes > self.first_bytes:
            size += f" to {self.last_bytes}"
        return f"{self.collective} on {nodes} nodes x {self.ppn}, {size} bytes"


@dataclass(frozen=True)
class Finding:
    """What production says of one decision.

    ``configuration`` is its id; ``arm`` and ``bundle_id`` are those by which jobs last got it.
    ``jobs`` used the range, by their arm. ``gain`` is the time of the control group over that of
    jobs with the decision, ``lower`` to ``upper`` its interval (95 %, at every look), all None
    where there is no estimate yet. ``saved_node_hours`` is what the decision saved since
    production is recorded. ``shapes`` are layouts of communicators that used it; ``since_utc`` is
    when the verdict fell, or the first job came.
    """

    slot: str
    range: Range
    configuration: str
    arm: Arm
    bundle_id: str
    jobs: Mapping[Arm, int]
    gain: float | None
    lower: float | None
    upper: float | None
    verdict: Verdict
    saved_node_hours: float
    saved_lower: float
    saved_upper: float
    shapes: tuple[Shape, ...]
    since_utc: str


@dataclass(frozen=True)
class Drift:
    """Calls that the library decides itself take ``ratio`` times as long as before ``since_utc``.

    ``text`` says so for people.
    """

    slot: str
    ratio: float
    since_utc: str
    text: str


@dataclass(frozen=True)
class Step:
    """How the trial of a bundle goes at a ``share`` of the jobs.

    ``jobs`` had it since the step began. ``lower`` to ``upper`` is the interval (95 %, at every
    look) of its time over that of the bundle in force, or of the control group where none is; None
    while there is none. ``harmed``: it is slower, or more of its jobs tell nothing; ``enough``: the
    next step can be taken if it is not.
    """

    slot: str
    bundle_id: str
    share: float
    jobs: int
    lower: float | None
    upper: float | None
    harmed: bool
    enough: bool


class Saved(NamedTuple):
    """Node-hours, with the 95 % interval."""

    expected: float
    lower: float
    upper: float


class ArmJobs(NamedTuple):
    """Jobs of an arm: given it, reported, ``silent`` (reported no MPI run), on their ``own``.

    ``asked`` is of the last 30 days, the others since production is recorded.
    """

    slot: str
    arm: Arm
    bundle_id: str
    asked: int
    reported: int
    silent: int
    own: int


@dataclass(frozen=True)
class Judgement:
    """Everything that production tells at ``at_utc`` (ISO).

    ``saved`` is since production is recorded, ``months`` the same by month (``2026-11``) of when
    the jobs ended, ``collectives`` the gain of all decisions on a collective with its 95 %
    interval. ``set_aside`` are summaries that were not judged in the last 30 days, by reason;
    ``left_out`` what could not be compared in those that were. ``proven``, ``refuted`` and
    ``undecided`` count decisions. ``waiting``: reports came in that are not judged yet.
    ``unjudged_node_hours`` were spent in calls whose decision has no interval yet; ``saved`` is
    without them.
    """

    at_utc: str
    findings: tuple[Finding, ...]
    drifts: tuple[Drift, ...]
    steps: tuple[Step, ...]
    saved: Saved
    months: Mapping[str, Saved]
    collectives: Mapping[str, Saved]
    arms: tuple[ArmJobs, ...]
    set_aside: Mapping[str, int]
    left_out: Mapping[str, int]
    proven: int
    refuted: int
    undecided: int
    jobs: int
    waiting: bool = False
    unjudged_node_hours: float = 0.0


def judge(
    store: Store,
    registry: Registry,
    settings: Production,
    machine: str,
    now: float,
    guard: Guard | None = None,
) -> Judgement | None:
    """Take in what came in since the last time, and return what production tells by now.

    One process judges at a time: the others return what was told last. `machine` names the site;
    `guard` is the one of the service, by which jobs were given their configurations.
    """
    with store.judging(now) as judging:
        if judging is None:
            return latest(store)
        events = (registry.current(), registry.trials())
        cases = Cases(judging, _decisions(registry, guard or Guard(), settings), settings, *events)
        received = judging.new(MOST_AT_ONCE)
        cases.take(received)
        cases.close()
        if received:
            judging.done(received[-1].number)
        _sweep(judging, now, settings.months)
        bench = _Bench(judging, cases, settings, machine, now)
        found = bench.judgement(store, waiting=len(received) == MOST_AT_ONCE)
        judging.put({KEY: as_json(found)})
    return found


_LAST: list[tuple[Registry, tuple[Guard, str], Decisions]] = []


def _decisions(registry: Registry, guard: Guard, settings: Production) -> Decisions:
    """Return what the bundles decide, with what was looked up at the last time."""
    told = guard, settings.promise
    if not (_LAST and _LAST[0][0] is registry and _LAST[0][1] == told):
        programs = Programs.parse(settings.promise)
        _LAST[:] = [(registry, told, Decisions(registry, guard, programs))]
    return _LAST[0][2]


def _sweep(judging: Judging, now: float, months: int) -> None:
    """Forget once a day what nobody uses any more."""
    judged = judging.get([JUDGED]).get(JUDGED, {})
    today = int(now // _DAY_S)
    if judged.get("swept") != today:
        for prefix in (STRATA, CELLS):
            judging.put(forget(judging.items(prefix), now, months))
        judging.put({JUDGED: judged | {"swept": today}})


class _Case(NamedTuple):
    """A decision: where, and what is remembered of it."""

    slot: str
    range: Range
    configuration: str
    cell: Mapping[str, Any]
    evidence: Evidence

    @property
    def hours(self) -> float:
        return math.fsum(self.cell["hours"].values())

    def decided(self, hours: float) -> Decided:
        return Decided(f"{self.slot} {self.range.collective}", hours, self.evidence)

    @property
    def name(self) -> str:
        return f"{self.slot} {self.range} {self.configuration}"


def _cases(cells: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[_Case]:
    for key, several in cells:
        slot, collective, nodes, ppn = key.removeprefix(CELLS).rsplit("/", 3)
        for name, cell in several.items():
            size, _, configuration = name.partition("|")
            if "hours" not in cell:
                continue
            first, last = int(size), max(0, 2 * int(size) - 1)
            span = (int(nodes), 2 * int(nodes) - 1, int(ppn), first, last)
            where = Range(Collective(collective), *span)
            yield _Case(slot, where, configuration, cell, Evidence(**cell.get("evidence", {})))


class _Bench:
    """Says what follows from all that is remembered, at one moment."""

    def __init__(
        self, judging: Judging, cases: Cases, settings: Production, machine: str, now: float
    ) -> None:
        self._settings, self._machine, self._now = settings, machine, now
        self._slots = {k.removeprefix(SLOTS): v for k, v in judging.items(SLOTS)}
        self._judged = judging.get([JUDGED]).get(JUDGED, {})
        self._cases = list(_cases(judging.items(CELLS)))
        self._taking = cases
        faster = {case.name: case.evidence.log_e(-1) for case in self._cases}
        self._proven = discoveries(faster, FALSE_PROVEN)

    def judgement(self, store: Store, *, waiting: bool) -> Judgement:
        since = self._now - _SHOWN_DAYS * _DAY_S
        findings = sorted(map(self._finding, self._cases), key=_rank)
        verdicts = Counter(finding.verdict for finding in findings)
        sure = [case for case in self._cases if case.evidence.interval()]
        months = sorted({month for case in sure for month in case.cell["hours"]})
        return Judgement(
            utc(self._now),
            tuple(findings[:_MOST_FINDINGS]),
            tuple(self._drifts()),
            tuple(self._steps()),
            Saved(*saved([case.decided(case.hours) for case in sure])),
            {month: self._of_month(sure, month) for month in months},
            self._gains(sure),
            tuple(self._arms(store.asked(since))),
            dict(store.set_aside_counts(since)),
            self._judged.get("left_out", {}),
            verdicts[Verdict.PROVEN],
            verdicts[Verdict.REFUTED],
            verdicts[Verdict.OPEN],
            self._judged.get("jobs", 0),
            waiting,
            math.fsum(case.hours for case in self._cases if not case.evidence.interval()),
        )

    def _finding(self, case: _Case) -> Finding:
        cell, interval = case.cell, case.evidence.interval()
        verdict, since = Verdict.OPEN, cell["first"]
        if "refuted" in cell:
            verdict, since = Verdict.REFUTED, cell["refuted"]
        elif case.name in self._proven:
            verdict = Verdict.PROVEN
        gain = lower = upper = None
        told = (0.0, 0.0, 0.0)
        if interval:
            gain, lower, upper = (
                math.exp(-one) for one in (interval.mean, interval.upper, interval.lower)
            )
            told = (case.hours * (gain - 1), case.hours * (lower - 1), case.hours * (upper - 1))
        return Finding(
            case.slot,
            case.range,
            case.configuration,
            Arm(cell["arm"]),
            cell["bundle"],
            {Arm(arm): jobs for arm, jobs in cell["jobs"].items()},
            gain,
            lower,
            upper,
            verdict,
            *told,
            tuple(sorted(map(Shape.parse, cell["shapes"]))),
            utc(since),
        )

    def _of_month(self, sure: Iterable[_Case], month: str) -> Saved:
        return Saved(*saved([case.decided(case.cell["hours"].get(month, 0.0)) for case in sure]))

    def _gains(self, sure: Iterable[_Case]) -> dict[str, Saved]:
        found: dict[str, list[_Case]] = {}
        for case in sure:
            found.setdefault(case.range.collective.value, []).append(case)
        gains = {}
        for collective, cases in sorted(found.items()):
            hours = math.fsum(case.hours for case in cases)
            if hours:
                told = saved([case.decided(case.hours) for case in cases])
                gains[collective] = Saved(*(1.0 + one / hours for one in told))
        return gains

    def _drifts(self) -> Iterator[Drift]:
        for slot, known in self._slots.items():
            for drift in known.get("drifts", ()):
                if drift["told"] < self._now - _SHOWN_DAYS * _DAY_S:
                    continue
                since, ratio = utc(drift["since"]), math.exp(drift["now"] - drift["before"])
                text = (
                    f"{self._machine}: calls that {slot} decides itself take {ratio:.2f} times as "
                    f"long since {since}. No bundle causes that: look at the fabric, firmware and "
                    "nodes."
                )
                yield Drift(slot, ratio, since, text)

    def _steps(self) -> Iterator[Step]:
        for slot in self._slots:
            found = self._taking.trial(slot)
            if found is not None:
                step, _, known = found
                yield self._step(slot, step.bundle_id, step.share or 0.0, known)

    def _step(self, slot: str, bundle_id: str, share: float, known: Mapping[str, Any]) -> Step:
        settings, jobs = self._settings, known["jobs"]
        evidence = Evidence(**known.get("evidence", {}))
        interval = evidence.interval()
        surely = -math.log(settings.alpha)
        is_slower = evidence.mean > math.log(settings.harm) and evidence.log_e(1) >= surely
        silent = known.get("silent", [])
        is_silent = bool(silent) and math.fsum(map(math.exp, silent)) / len(silent) >= 1 / (
            settings.alpha
        )
        narrow = interval is not None and math.exp(interval.upper) < settings.harm * _WIDE
        same = not evidence.count
        waited = jobs >= _MOST_WAITS * settings.jobs_per_step
        enough = jobs >= settings.jobs_per_step and (narrow or same or waited)
        lower, upper = (
            (math.exp(interval.lower), math.exp(interval.upper)) if interval else (None, None)
        )
        return Step(slot, bundle_id, share, jobs, lower, upper, is_slower or is_silent, enough)

    def _arms(self, asked: Mapping[Any, int]) -> Iterator[ArmJobs]:
        rows: dict[tuple[str, Arm, str], list[int]] = {}
        for one, jobs in asked.items():
            rows.setdefault((one.slot, Arm(one.arm), one.bundle_id), [0, 0, 0, 0])[0] += jobs
        for slot, known in self._slots.items():
            for name, counts in known.get("arms", {}).items():
                arm, bundle_id = name.split(" ")
                rows.setdefault((slot, Arm(arm), bundle_id), [0, 0, 0, 0])[1:] = counts
        for (slot, arm, bundle_id), numbers in sorted(rows.items()):
            yield ArmJobs(slot, arm, bundle_id, *numbers)


def _rank(finding: Finding) -> tuple[bool, bool, float]:
    """Order refuted ones first, then proven ones, then by what they save or cost."""
    verdict = finding.verdict
    at_stake = -abs(finding.saved_node_hours)
    return (verdict is not Verdict.REFUTED, verdict is not Verdict.PROVEN, at_stake)


def latest(store: Store) -> Judgement | None:
    """Return the latest judgement of a site, None if there was none yet."""
    found = store.read(KEY).get(KEY)
    return None if found is None else from_json(found)


def as_json(judgement: Judgement) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, **asdict(judgement)}


def from_json(values: Mapping[str, Any]) -> Judgement:
    """Return the judgement that `as_json` has turned into `values`."""
    values = dict(values)
    version = values.pop("format")
    if version != FORMAT_VERSION:
        raise DataError(
            f"the stored judgement has format {version}, but this colltune reads "
            f"{FORMAT_VERSION}. Upgrade colltune."
        )
    return Judgement(
        **values
        | {
            "findings": tuple(map(_finding, values["findings"])),
            "drifts": tuple(Drift(**drift) for drift in values["drifts"]),
            "steps": tuple(Step(**step) for step in values["steps"]),
            "saved": Saved(*values["saved"]),
            "months": {month: Saved(*saved) for month, saved in values["months"].items()},
            "collectives": {name: Saved(*gain) for name, gain in values["collectives"].items()},
            "arms": tuple(ArmJobs(row[0], Arm(row[1]), *row[2:]) for row in values["arms"]),
        }
    )


def _finding(values: Mapping[str, Any]) -> Finding:
    collective, *numbers = values["range"]
    return Finding(
        **{
            **values,
            "range": Range(Collective(collective), *numbers),
            "arm": Arm(values["arm"]),
            "jobs": {Arm(arm): jobs for arm, jobs in values["jobs"].items()},
            "verdict": Verdict(values["verdict"]),
            "shapes": tuple(Shape(s["nodes"], s["ppn"]) for s in values["shapes"]),
        }
    )
