"""What production proved: gains and harm of decisions, how trials go, drift, and what was saved.

docs/explanation/production.md tells the method and its sources.

Format history of what is kept under the key ``judgement``
----------------------------------------------------------
1. JSON with ``format`` and the fields of `Judgement`;
2. steps of trials say what was compared, and findings may be ``not_compared``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from colltune.domain import Collective, Shape
from colltune.errors import say
from colltune.evidence.arms import WORTH, Arms, EffectInterval, Total
from colltune.evidence.launches import discoveries
from colltune.json_text import DescribedRecord
from colltune.models.guard import Guard
from colltune.mpi.programs import FOR_EVERYBODY, Programs
from colltune.production.arms import Arm, ArmShares, Draw, Production
from colltune.production.cases import CELLS, JUDGED, SLOTS, STRATA, Cases, Draws, forget, utc
from colltune.production.cases import FORMAT_VERSION as REMEMBERED_VERSION
from colltune.production.observations import RegistryDecisions
from colltune.registry import Event, Registry
from colltune.registry.events import at, time_of
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.production.store import Judging, Store

FORMAT_VERSION = 3
KEY = "judgement"
MOST_AT_ONCE = 2000
"""Summaries that are taken in by one look."""
FALSE_PROVEN = 0.05
"""Share of proven decisions that may be none, in the mean."""
_DAY_S, _SHOWN_DAYS = 86400.0, 30
_MOST_FINDINGS = 2000
_PROMOTED_WRONGLY = 0.05
"""Chance that a trial goes on although it takes 1.10 times as long."""
_LEAST_COMPARED = 0.5
"""Share of the time in calls that a trial changes, of which jobs must have been compared."""
_MOST_WAITS = 10
"""After so many times as many jobs as a step has, a trial that tells nothing is said to."""


class ProductionVerdict(StrEnum):
    """Whether a decision proved faster than the default, slower (harm), neither so far, or nothing.

    ``not_compared``: there were no two jobs of different arms to compare.
    """

    PROVEN = "proven"
    REFUTED = "refuted"
    OPEN = "open"
    NOT_COMPARED = "not_compared"


class TrialVerdict(StrEnum):
    """What a trial showed: it harms, decides as before, does no harm, or nothing so far."""

    HARM = "harm"
    ALIKE = "alike"
    NO_HARM = "no_harm"
    NOT_COMPARED = "not_compared"


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
class ProductionFinding:
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
    verdict: ProductionVerdict
    saved_node_hours: float
    saved_lower: float
    saved_upper: float
    shapes: tuple[Shape, ...]
    since_utc: str


@dataclass(frozen=True)
class ProductionDrift(DescribedRecord):
    """Calls that the library decides itself take longer or shorter than before."""

    slot: str
    """library and release"""
    ratio: float
    """new over old time"""
    since_utc: str
    """since when"""
    text: str
    """the same for people"""


@dataclass(frozen=True)
class TrialStep:
    """How the trial of a bundle goes at a ``share`` of the jobs.

    ``jobs`` had it since the step began. ``lower`` to ``upper`` is the interval (95 %, at every
    look) of its time over that of the bundle in force; None while there is none. ``compared`` is
    the share of the time in calls that the trial changes, of which jobs could be compared; None
    where it changed none so far. ``showed`` is what follows from it, ``why`` says so for people.
    ``enough``: the next step can be taken.
    """

    slot: str
    bundle_id: str
    share: float
    jobs: int
    lower: float | None
    upper: float | None
    compared: float | None
    showed: TrialVerdict
    enough: bool
    why: str

    @property
    def harmed(self) -> bool:
        """Whether it is slower, or more of its jobs tell nothing."""
        return self.showed is TrialVerdict.HARM


class SavedNodeHours(NamedTuple):
    """Node-hours, with the 95 % interval."""

    expected: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ArmJobs(DescribedRecord):
    """How many jobs were given an arm, and what became of them."""

    slot: str
    """library and release"""
    arm: Arm
    """tuned, candidate or control"""
    bundle_id: str
    """its id; empty: none"""
    asked: int
    """jobs that were given it in the last 30 days; the others are since production is recorded"""
    reported: int
    """that reported a run"""
    silent: int
    """reported no MPI run"""
    own: int
    """the user's settings decided"""


@dataclass(frozen=True)
class Judgement:
    """Everything that production tells at ``at_utc`` (ISO).

    ``saved`` is since production is recorded, ``months`` the same by month (``2026-11``) of when
    the jobs ended, ``collectives`` the gain of all decisions on a collective with its 95 %
    interval. ``set_aside`` are summaries that were not judged in the last 30 days, by reason;
    ``left_out`` what could not be compared in those that were. ``proven``, ``refuted``,
    ``undecided`` and ``not_compared`` count decisions. ``waiting``: reports came in that are not
    judged yet. ``unjudged_node_hours`` were spent in calls of jobs that were the first of their
    program or kind of calls; ``saved`` is without them.
    """

    at_utc: str
    findings: tuple[ProductionFinding, ...]
    drifts: tuple[ProductionDrift, ...]
    steps: tuple[TrialStep, ...]
    saved: SavedNodeHours
    months: Mapping[str, SavedNodeHours]
    collectives: Mapping[str, SavedNodeHours]
    arms: tuple[ArmJobs, ...]
    set_aside: Mapping[str, int]
    left_out: Mapping[str, int]
    proven: int
    refuted: int
    undecided: int
    not_compared: int
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
    programs: Programs = FOR_EVERYBODY,
) -> Judgement | None:
    """Take in what came in since the last time, and return what production tells by now.

    One process judges at a time: the others return what was told last. `machine` names the site;
    `guard` and `programs` are those of the service, by which jobs were given their configurations.
    """
    with store.judging(now) as judging:
        if judging is None:
            return latest(store)
        events = (registry.current(), registry.trials())
        _begin_anew(judging)
        decisions = _decisions(registry, guard or Guard(), programs)
        cases = Cases(judging, decisions, settings, *events, _draws(store, registry, settings))
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


_LAST: list[tuple[Registry, tuple[Guard, Programs], RegistryDecisions]] = []


def _decisions(registry: Registry, guard: Guard, programs: Programs) -> RegistryDecisions:
    """Return what the bundles decide, with what was looked up at the last time."""
    told = guard, programs
    if not (_LAST and _LAST[0][0] is registry and _LAST[0][1] == told):
        _LAST[:] = [(registry, told, RegistryDecisions(registry, guard, programs))]
    return _LAST[0][2]


def _draws(store: Store, registry: Registry, settings: Production) -> Draws:
    """Return what tells how the arm of a job was drawn, as the service did when it started."""
    happened = registry.history()
    moments = sorted(m.timestamp() for e in happened if (m := time_of(e.at_utc)))
    known: dict[tuple[str, int], tuple[Event | None, Event | None]] = {}
    control_at = store.controls()

    def draw(slot: str, started: float) -> Draw:
        key = slot, bisect_right(moments, started)
        if key not in known:
            known[key] = at(happened, slot, utc(started))
        in_force, trial = known[key]
        told = control_at(started)
        control = settings.control if told is None else told
        split = ArmShares(control, trial.share or 0.0 if trial else 0.0)
        ids = (None if event is None else event.bundle_id for event in (in_force, trial))
        return Draw(split, *ids)

    return draw


def _begin_anew(judging: Judging) -> None:
    """Forget what rests on the statistics of format 1; node-hours, jobs and verdicts stay."""
    judged = judging.get([JUDGED]).get(JUDGED)
    if judged is None or judged.get("format") != 1:
        return
    judging.put(dict.fromkeys([key for key, _ in judging.items(STRATA)]))
    for prefix, part in ((CELLS, "evidence"), (SLOTS, "trial")):
        for key, value in judging.items(prefix):
            several = value.values() if prefix == CELLS else [value]
            for one in several:
                one.pop(part, None)
            judging.put({key: value})
    judging.put({JUDGED: judged | {"format": REMEMBERED_VERSION}})


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
    bets: Arms

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
            yield _Case(slot, where, configuration, cell, Arms.of(cell.get("bets", {})))


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
        faster = {case.name: case.bets.log_e_below(0.0) for case in self._cases}
        self._proven = discoveries(faster, FALSE_PROVEN)

    def judgement(self, store: Store, *, waiting: bool) -> Judgement:
        since = self._now - _SHOWN_DAYS * _DAY_S
        findings = sorted(map(self._finding, self._cases), key=_rank)
        verdicts = Counter(finding.verdict for finding in findings)
        saved = self._judged.get("saved", {})
        return Judgement(
            utc(self._now),
            tuple(findings[:_MOST_FINDINGS]),
            tuple(self._drifts()),
            tuple(self._steps()),
            _saved(saved.get("all", {}).get("")),
            {month: _saved(sums) for month, sums in sorted(saved.get("months", {}).items())},
            dict(self._gains(saved.get("collectives", {}))),
            tuple(self._arms(store.asked(since))),
            dict(store.set_aside_counts(since)),
            self._judged.get("left_out", {}),
            verdicts[ProductionVerdict.PROVEN],
            verdicts[ProductionVerdict.REFUTED],
            verdicts[ProductionVerdict.OPEN],
            verdicts[ProductionVerdict.NOT_COMPARED],
            self._judged.get("jobs", 0),
            waiting,
            self._judged.get("unjudged", 0.0),
        )

    def _finding(self, case: _Case) -> ProductionFinding:
        cell, interval = case.cell, case.bets.interval()
        verdict = ProductionVerdict.OPEN if case.bets.jobs else ProductionVerdict.NOT_COMPARED
        since = cell["first"]
        if "refuted" in cell:
            verdict, since = ProductionVerdict.REFUTED, cell["refuted"]
            told = cell.get("refuted_by")
            interval = interval or (EffectInterval(*told) if told else None)
        elif case.name in self._proven:
            verdict = ProductionVerdict.PROVEN
            bounded = case.bets.bounded()
            interval = interval or (bounded and bounded.closed)
        gain = lower = upper = None
        if interval:
            told = (interval.log, interval.upper, interval.lower)
            gain, lower, upper = (math.exp(-effect) for effect in told)
        return ProductionFinding(
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
            *_saved(cell.get("saved")),
            tuple(sorted(map(Shape.parse, cell["shapes"]))),
            utc(since),
        )

    def _gains(self, saved: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, SavedNodeHours]]:
        """Yield by collective the time without decisions over that with them."""
        for collective, sums in sorted(saved.items()):
            hours = self._judged["hours"][collective]
            if hours:
                yield (
                    collective,
                    SavedNodeHours(*(1.0 + one / hours for one in Total(*sums).interval)),
                )

    def _drifts(self) -> Iterator[ProductionDrift]:
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
                yield ProductionDrift(slot, ratio, since, text)

    def _steps(self) -> Iterator[TrialStep]:
        for slot in self._slots:
            found = self._taking.trial(slot)
            if found is not None:
                step, _, known = found
                yield self._step(slot, step.bundle_id, step.share or 0.0, known)

    def _step(self, slot: str, bundle_id: str, share: float, known: Mapping[str, Any]) -> TrialStep:
        bets = Arms.of(known.get("bets", {}))
        interval = bets.interval()
        differing = known.get("differing_s", 0.0)
        compared = known.get("compared_s", 0.0) / differing if differing else None
        showed = self._showed(known, bets, compared)
        goes_on = showed in (TrialVerdict.ALIKE, TrialVerdict.NO_HARM)
        return TrialStep(
            slot,
            bundle_id,
            share,
            known["jobs"],
            math.exp(interval.lower) if interval else None,
            math.exp(interval.upper) if interval else None,
            compared,
            showed,
            goes_on and known["jobs"] >= self._settings.jobs_per_step,
            self._why(showed, known, bets, compared),
        )

    def _showed(self, known: Mapping[str, Any], bets: Arms, compared: float | None) -> TrialVerdict:
        surely = -math.log(self._settings.alpha)
        silent = known.get("silent", [])
        is_silent = bool(silent) and math.fsum(map(math.exp, silent)) / len(silent) >= 1 / (
            self._settings.alpha
        )
        if is_silent or bets.log_e_above(math.log(self._settings.harm)) >= surely:
            return TrialVerdict.HARM
        if compared is None:
            ran = known["ran"] >= self._settings.jobs_per_step
            return TrialVerdict.ALIKE if ran else TrialVerdict.NOT_COMPARED
        is_harmless = bets.log_e_below(WORTH) >= -math.log(_PROMOTED_WRONGLY)
        if is_harmless and compared >= _LEAST_COMPARED:
            return TrialVerdict.NO_HARM
        return TrialVerdict.NOT_COMPARED

    def _why(
        self, showed: TrialVerdict, known: Mapping[str, Any], bets: Arms, compared: float | None
    ) -> str:
        """Return in words what a trial showed."""
        if showed is TrialVerdict.HARM:
            return "this harms them"
        if showed is TrialVerdict.ALIKE:
            return "it decides as before for all that ran"
        if showed is TrialVerdict.NO_HARM:
            return "no harm"
        if known["jobs"] < _MOST_WAITS * self._settings.jobs_per_step:
            return "not enough to judge"
        return f"it cannot be judged: {_obstacle(bets, known, compared)}"

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


def _obstacle(bets: Arms, known: Mapping[str, Any], compared: float | None) -> str:
    if compared is None:
        return f"only {known['ran']} of its jobs ran MPI programs that tell something"
    if bets.capped > bets.jobs / 2:
        if set(bets.users) == {""}:
            return 'nobody tells whose jobs they are (users = "hash" in [production])'
        return f"{counted(len(bets.users), 'user')} ran nearly all of its jobs"
    if compared < _LEAST_COMPARED:
        return "hardly any program ran twice"
    return "its times scatter too much"


def _saved(sums: Sequence[float] | None) -> SavedNodeHours:
    return SavedNodeHours(*Total(*sums or ()).interval)


def _rank(finding: ProductionFinding) -> tuple[bool, bool, float]:
    """Order refuted ones first, then proven ones, then by what they save or cost."""
    verdict = finding.verdict
    at_stake = -abs(finding.saved_node_hours)
    return (
        verdict is not ProductionVerdict.REFUTED,
        verdict is not ProductionVerdict.PROVEN,
        at_stake,
    )


def latest(store: Store) -> Judgement | None:
    """Return the latest judgement of a site, None if there was none yet."""
    found = store.read(KEY).get(KEY)
    # what an earlier colltune judged is judged anew within a minute
    is_older = found is not None and found["format"] < FORMAT_VERSION
    return None if found is None or is_older else from_json(found)


def as_json(judgement: Judgement) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, **asdict(judgement)}


def from_json(values: Mapping[str, Any]) -> Judgement:
    """Return the judgement that `as_json` has turned into `values`."""
    values = dict(values)
    version = values.pop("format")
    if version != FORMAT_VERSION:
        place = "the stored judgement"
        raise say("format-version", place=place, version=version, known=FORMAT_VERSION)
    return Judgement(
        **values
        | {
            "findings": tuple(map(_finding, values["findings"])),
            "drifts": tuple(ProductionDrift(**drift) for drift in values["drifts"]),
            "steps": tuple(
                TrialStep(**step | {"showed": TrialVerdict(step["showed"])})
                for step in values["steps"]
            ),
            "saved": SavedNodeHours(*values["saved"]),
            "months": {month: SavedNodeHours(*saved) for month, saved in values["months"].items()},
            "collectives": {
                name: SavedNodeHours(*gain) for name, gain in values["collectives"].items()
            },
            "arms": tuple(ArmJobs(**row | {"arm": Arm(row["arm"])}) for row in values["arms"]),
        }
    )


def _finding(values: Mapping[str, Any]) -> ProductionFinding:
    collective, *numbers = values["range"]
    return ProductionFinding(
        **{
            **values,
            "range": Range(Collective(collective), *numbers),
            "arm": Arm(values["arm"]),
            "jobs": {Arm(arm): jobs for arm, jobs in values["jobs"].items()},
            "verdict": ProductionVerdict(values["verdict"]),
            "shapes": tuple(Shape(s["nodes"], s["ppn"]) for s in values["shapes"]),
        }
    )
