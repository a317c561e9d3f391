"""What became of a rule: applied, overridden, ignored, harmful, other bits; and of the file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from colltune.errors import UNOBSERVED
from colltune.mpi import LIBRARIES, MpiLibrary
from colltune.mpi.formats import FORMATS
from colltune.mpi.in_effect import Rank, Setting, Settings, beside
from colltune.mpi.job_variables import concerns_collectives
from colltune.mpi.programs import Results
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules
from colltune.mpi.shell import parameter_of, variable_of
from colltune.text import computed
from colltune.verify.canary import VARYING, CallEnding, CallSeen, CanaryCall, Readability
from colltune.verify.gains import Gain, Timed
from colltune.verify.observing import UNTRACED, Observer
from colltune.verify.probe_calls import JobLayout, ProbeCall, reached_elsewhere


@dataclass(frozen=True)
class JobSettings:
    """What the job's processes see: the user's settings, and what puts the file into effect.

    A setting of the user that means the same as ours is spelled like ours.
    """

    user: Settings
    activation: Mapping[str, str]

    @classmethod
    def of(cls, mpi: MpiLibrary, user: Settings, activation: Mapping[str, str]) -> JobSettings:
        def spelled(name: str, setting: Setting) -> Setting:
            ours = activation.get(name, setting.value)
            alike = mpi.same(name, setting.value, ours)
            return replace(setting, value=ours) if alike else setting

        return cls({name: spelled(name, each) for name, each in user.items()}, activation)

    @property
    def environment(self) -> dict[str, str]:
        return beside(self.user, self.activation)

    def against(self) -> tuple[str, ...]:
        """Return those of the user's variables that may speak against the file."""
        environment = self.environment
        return tuple(
            name
            for name, setting in sorted(self.user.items())
            if environment[name] == setting.value
            and self.activation.get(name) != setting.value
            and concerns_collectives(name)
        )

    def text(self, name: str) -> str:
        return f"{name}={self.user[name].value} ({self.user[name].source})"


def gathered(
    mpi: MpiLibrary,
    seen: Mapping[str, str],
    shown: Mapping[str, tuple[str, str]],
    user: Mapping[str, str],
    words: Sequence[str],
) -> dict[str, Setting]:
    """Return the settings of a job without the file.

    `seen` is the environment of its processes, `shown` what the library says of its parameters,
    with their source; `user` is the environment of the launcher with the options `words`.
    """
    files, found = mpi.in_effect(user), dict[str, Setting]()
    for name, value in seen.items():
        of_file = files.get(name, Setting(""))
        if user.get(name) == value:
            found[name] = Setting(value)
        elif parameter_of(name) in words or any(name in word for word in words):
            found[name] = Setting(value, "the launcher's options", Rank.LAUNCHER)
        elif mpi.same(name, of_file.value, value):
            found[name] = of_file  # of the user's, which the launcher hands on
        else:
            found[name] = Setting(value, "the launcher", Rank.LAUNCHER)
    for parameter, (value, source) in shown.items():
        name = variable_of(parameter)
        file = mpi.setting_in_file(value, source)
        if file is not None and (name not in found or file.rank > found[name].rank):
            found[name] = file
    return found


def same_decision(a: Outcome, b: Outcome) -> bool:
    """Tell whether two outcomes run the same, and for the same rule."""
    return (a.configuration, a.component, a.rule) == (b.configuration, b.component, b.rule)


def culprits(parsed: Rules, call: Call, settings: JobSettings) -> str:
    """Return which of the user's settings keep the file from deciding `call`; empty if none does.

    One that alone makes the difference is named; otherwise all that would do so by themselves.
    """
    planned = parsed.decide(call, settings.activation)
    environment, against = settings.environment, settings.against()
    alone = [
        name
        for name in against
        if same_decision(parsed.decide(call, _without(environment, name, settings)), planned)
    ]
    if not alone:
        activation = dict(settings.activation)
        alone = [
            name
            for name in against
            if not same_decision(
                parsed.decide(call, activation | {name: settings.user[name].value}), planned
            )
        ]
    return " and ".join(map(settings.text, alone))


def _without(environment: Mapping[str, str], name: str, settings: JobSettings) -> dict[str, str]:
    rest = {other: value for other, value in environment.items() if other != name}
    if name in settings.activation:
        rest[name] = settings.activation[name]
    return rest


_CLEARLY = 1.15
_SAME_PART = 0.35
_NO_PART = 1 / 3
_EITHER_END = 0.10
"""The level of an interval of which either end is beyond its bound in 5 % by chance."""

_FAILED = {
    CallEnding.WRONG: "the call computes wrong numbers",
    CallEnding.DISAGREE: "the call computes wrong numbers: ranks hold different bits of a sum",
    CallEnding.REFUSED: "the library refuses the call",
    CallEnding.CRASH: "the program ends within the call",
    CallEnding.HANG: "the call does not return",
}
# what keeps a rule from ever deciding anything
_NEVER = (
    Fault.FILE_DROPPED,
    Fault.RULE_DROPPED,
    Fault.DEAD_RULE,
    Fault.UNSORTED,
    Fault.UNKNOWN,
    Fault.OUTRANKED,
    Fault.NOT_EVERYWHERE,
    Fault.MALFORMED,
)


class RuleStatus(StrEnum):
    APPLIED = "applied"
    OVERRIDDEN = "overridden"
    IGNORED = "ignored"
    HARMFUL = "harmful"
    OTHER_BITS = "other bits"
    """Sums of floating-point numbers are rounded otherwise than without the file."""
    UNREACHABLE = "unreachable"
    UNOBSERVED = "unobserved"

    @property
    def is_failure(self) -> bool:
        """Whether it makes the verification fail."""
        return self in _FAILURES


_GRAVE = (RuleStatus.HARMFUL, RuleStatus.OTHER_BITS)
"""A single call that shows one of them tells it of the rule, whatever the others show."""
_FAILURES = (*_GRAVE, RuleStatus.OVERRIDDEN, RuleStatus.IGNORED)
# the first of them that any call of the same size shows is the rule's
_ORDER = (
    *_GRAVE,
    RuleStatus.APPLIED,
    RuleStatus.UNOBSERVED,
    RuleStatus.OVERRIDDEN,
    RuleStatus.IGNORED,
    RuleStatus.UNREACHABLE,
)


@dataclass(frozen=True)
class Assessment:
    """What became of a rule."""

    status: RuleStatus
    """applied, overridden, ignored, harmful, other bits, unreachable or unobserved"""
    why: str = ""
    """why, in words"""
    ran: str = ""
    """what was seen to run; empty: nothing could be seen"""


@dataclass(frozen=True)
class Evidence:
    """What was seen of a probe's call with the file, and without it (None: not tried)."""

    probe: ProbeCall
    with_file: CallSeen
    without: CallSeen | None


@dataclass(frozen=True)
class Assessor:
    """Knows the file, the job's settings, how calls are observed and what is promised of sums."""

    parsed: Rules
    settings: JobSettings
    observer: Observer
    layout: JobLayout
    complete: bool = True
    findings: tuple[Finding, ...] = ()
    results: Results = Results.RANKS_AGREE

    def assess(
        self, rule: Rule, evidence: Sequence[Evidence]
    ) -> tuple[Assessment, Evidence | None]:
        """Return what became of `rule`, and the call that shows it best."""
        if self.parsed.dropped:
            return Assessment(RuleStatus.IGNORED, self.parsed.dropped), None
        if not evidence:
            return self._without_probe(rule), None
        assessed = [(self._one(rule, seen), seen) for seen in evidence]
        grave = [pair for pair in assessed if pair[0].status in _GRAVE]
        if grave:
            return min(grave, key=lambda pair: _GRAVE.index(pair[0].status))
        largest = max(seen.probe.size for seen in evidence)
        principal = [pair for pair in assessed if pair[1].probe.size == largest]
        best = min(principal, key=self._rank)
        return self._with_others(best, assessed), best[1]

    def _rank(self, pair: tuple[Assessment, Evidence]) -> tuple[int, bool, bool, bool]:
        """Order best first: a call of the rule's own, with data, that runs otherwise without it."""
        assessment, seen = pair
        alike = seen.without is not None and self.observer.same(seen.with_file, seen.without)
        empty = seen.probe.call.msize_bytes == 0
        return _ORDER.index(assessment.status), seen.probe.is_inner, alike, empty

    def _with_others(
        self, best: tuple[Assessment, Evidence], assessed: Sequence[tuple[Assessment, Evidence]]
    ) -> Assessment:
        assessment, chosen = best
        others: dict[str, str] = {}
        for other, seen in assessed:
            where = _where(seen.probe)
            if other.status is not assessment.status and where != _where(chosen.probe):
                others[where] = f"{where}: {other.status} {other.why.partition(':')[0]}".rstrip()
        why = "; ".join(filter(None, [assessment.why, *others.values()]))
        return Assessment(assessment.status, why, assessment.ran)

    def _without_probe(self, rule: Rule) -> Assessment:
        why = ""
        if not self.complete:
            why = "the file is too large to check all of it"
        elif rule.configuration is not None and rule.configuration.is_default:
            why = "no call of this job uses it, and it leaves the decision to the library anyway"
        elif need := reached_elsewhere(self.parsed, rule, self.layout, self.settings.activation):
            why = f"no call of this job uses it: it needs {need}"
        if why:
            return Assessment(RuleStatus.UNREACHABLE, why)
        found = (f for f in self.findings if f.line == rule.line and f.fault in _NEVER)
        worst = min(found, key=lambda finding: _NEVER.index(finding.fault), default=None)
        why = worst.message if worst else "no call of any size uses it"
        return Assessment(RuleStatus.IGNORED, why)

    def _one(self, rule: Rule, seen: Evidence) -> Assessment:
        found = self._decided(rule, seen)
        if found.status is RuleStatus.HARMFUL or not self._breaks_promise(seen):
            return found
        why = f"{_what(seen)} its result has other bits than without the file"
        return Assessment(RuleStatus.OTHER_BITS, why, found.ran)

    def _breaks_promise(self, seen: Evidence) -> bool:
        """Tell whether results were to have the bits that they have without the file, and do not.

        What the library gives by itself may change from call to call: then there is nothing to
        keep.
        """
        if self.results is not Results.SAME_BITS or seen.without is None:
            return False
        ours, usual = seen.with_file.bits, seen.without.bits
        return bool(ours and usual) and usual not in (VARYING, ours)

    def _decided(self, rule: Rule, seen: Evidence) -> Assessment:
        ending = seen.with_file.ending
        planned, expected = seen.probe.planned, seen.probe.expected
        if seen.probe.is_inner:
            planned = _inner_of(planned, rule) or planned
            expected = _inner_of(expected, rule) or expected
        if ending is CallEnding.DISAGREE and self.results is Results.ANY:
            ending = CallEnding.OK
        if ending in _FAILED:
            return self._failed(seen)
        if ending is CallEnding.NOT_RUN:
            ends = planned.ends_program
            status = RuleStatus.HARMFUL if ends else RuleStatus.UNOBSERVED
            return Assessment(status, ends or "the call was not made")
        ran = self.observer.name(seen.with_file)
        by = _taken_over(planned)
        if not same_decision(planned, expected):
            by_whom = culprits(self.parsed, seen.probe.call, self.settings)
            by = "by " + (by_whom or "the job's settings: " + " ".join(expected.reasons[-2:]))
        if by and self._obeyed_all_the_same(planned, expected, seen):
            return Assessment(RuleStatus.APPLIED, f"although it seems overridden {by}", ran)
        if by:
            return Assessment(RuleStatus.OVERRIDDEN, by, ran)
        if planned.configuration != planned.chosen:
            return Assessment(RuleStatus.IGNORED, _fallback(planned), ran)
        return self._compared(planned, seen, ran)

    def _obeyed_all_the_same(self, planned: Outcome, expected: Outcome, seen: Evidence) -> bool:
        """Tell whether the rule was seen to act where it should have no say."""
        said, other = planned.chosen, expected.configuration
        if self.observer.unavailable or said.is_default or said == other:
            return False
        if self.observer.differing(said, seen.with_file):
            return False
        if other.is_default:
            return seen.without is not None and not self.observer.same(seen.with_file, seen.without)
        return bool(self.observer.differing(other, seen.with_file))

    def _failed(self, seen: Evidence) -> Assessment:
        ending, why = seen.with_file.ending, seen.with_file.why
        text = f"{_what(seen)} {_FAILED[ending]}" + (f": {why}" if why else "")
        if seen.without is not None and seen.without.ending is ending:
            return Assessment(RuleStatus.UNOBSERVED, f"{text}, but also without the file")
        return Assessment(RuleStatus.HARMFUL, text)

    def _compared(self, planned: Outcome, seen: Evidence, ran: str) -> Assessment:
        wanted = planned.configuration
        if self.observer.unavailable:
            left = "left to the library" if wanted.is_default else ""
            return Assessment(RuleStatus.UNOBSERVED, left or self.observer.unavailable)
        if wanted.is_default:
            without = seen.without
            if without is None or self.observer.same(seen.with_file, without, first_only=True):
                return Assessment(RuleStatus.APPLIED, "left to the library", ran)
            usual = self.observer.name(without) or "nothing that can be traced"
            return Assessment(
                RuleStatus.OVERRIDDEN, f"left to the library, which runs {usual}", ran
            )
        if untraced := self.observer.untraceable(wanted, seen.with_file):
            return Assessment(RuleStatus.UNOBSERVED, untraced)
        inside, handed_on = seen.probe.is_inner, planned.handed_on
        differing = self.observer.differing(
            wanted, seen.with_file, inside=inside, handed_on=handed_on
        )
        if not differing:
            where = "inside coll/han" if inside else ""
            name = self.observer.name(seen.with_file, handed_on=inside or handed_on)
            return Assessment(RuleStatus.APPLIED, where, name)
        return Assessment(RuleStatus.OVERRIDDEN, f"by an unknown cause: {differing}", ran)


def _what(seen: Evidence) -> str:
    call = seen.probe.canary
    return f"{call.collective} of {call.msize_bytes} bytes on {seen.probe.communicator.text}:"


def _where(probe: ProbeCall) -> str:
    within = "inside " if probe.is_inner else "on "
    return within + probe.communicator.text


def _inner_of(outcome: Outcome, rule: Rule) -> Outcome | None:
    """Return what a part of a hierarchical call makes of `rule`; None where it is not asked."""
    for _, inner in outcome.inner:
        if inner.rule == rule:
            return inner
        if (found := _inner_of(inner, rule)) is not None:
            return found
    return None


def _taken_over(outcome: Outcome) -> str:
    """Return which component decides in place of the rule; empty if none does."""
    if not outcome.component or not outcome.configuration.is_default or outcome.chosen.is_default:
        return ""
    prefix = LIBRARIES[outcome.configuration.library].component_prefix
    why = outcome.reasons[0] if outcome.reasons else "it decides first"
    return f"by {prefix}{outcome.component}: {why}"


def _fallback(outcome: Outcome) -> str:
    return "; ".join(outcome.reasons) or f"{outcome.configuration.id} runs instead"


def by_timing(timed: Timed) -> Assessment:
    """Return what the runtimes of one call prove of its rule."""
    file, forced = timed.default_to_file, timed.default_to_forced
    told = f"with the file it takes {1 / file.ratio:.2f} of the default's time, forced"
    told += f" {1 / forced.ratio:.2f}"
    within = file.interval(_EITHER_END)
    if within is None or forced.interval() is None:
        return Assessment(RuleStatus.UNOBSERVED, f"{UNTRACED}, and timing needs more launches")
    if not _is_certain(forced) or abs(forced.sums.log) < math.log(_CLEARLY):
        return Assessment(
            RuleStatus.UNOBSERVED, f"{UNTRACED}, and forcing it changes the time too little"
        )
    apart = abs(file.sums.log / forced.sums.log - 1.0)
    if apart <= _SAME_PART and _is_certain(file):
        return Assessment(RuleStatus.APPLIED, f"by timing: {told}")
    if max(map(abs, within)) < abs(forced.sums.log) * _NO_PART:
        return Assessment(RuleStatus.IGNORED, f"by timing: {told}")
    return Assessment(RuleStatus.UNOBSERVED, f"{UNTRACED}, and its time proves nothing: {told}")


def _is_certain(gain: Gain) -> bool:
    """Tell whether 1 lies outside of the interval."""
    ends = gain.interval()
    return ends is not None and (ends[0] > 0 or ends[1] < 0)


@dataclass(frozen=True)
class RuleResult:
    rule: Rule
    """the rule"""
    assessment: Assessment
    """what became of it"""
    call: CanaryCall | None = None
    """the call that tried the rule"""
    default_ran: str = ""
    """what the library runs by itself; empty: not seen"""
    gain: Gain | None = None
    """what it gained; null: not timed"""
    is_regression: bool = False
    """slower than the default; in at most 5 % of runs a file that changes nothing has any"""


class FileVerdict(StrEnum):
    """What is proven of a file as a whole."""

    PASSED = "passed"
    FAILED = "failed"
    UNOBSERVED = "not observed"

    @property
    def exit_status(self) -> int:
        return {FileVerdict.PASSED: 0, FileVerdict.FAILED: 1, FileVerdict.UNOBSERVED: UNOBSERVED}[
            self
        ]


@dataclass(frozen=True)
class Proof:
    """What is proven of a file; only its readability where that has problems."""

    readability: Readability
    """whether all processes read the same file"""
    format: str = ""
    """format of the file"""
    release: str = ""
    """release of the MPI library"""
    library: str = ""
    """what MPI says of itself"""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """processes by host"""
    activation: Mapping[str, str] = field(default_factory=dict)
    """variables that put the file into effect"""
    user_settings: Mapping[str, str] = field(default_factory=dict)
    """the job's own settings against it"""
    dropped: str = ""
    """why the release ignores the file as a whole, else empty"""
    results: tuple[RuleResult, ...] = ()
    """every rule"""
    notes: tuple[str, ...] = ()
    """remarks"""
    measured: bool = True
    """whether the default was to be timed against the file"""
    promised: Results = Results.RANKS_AGREE
    """what was promised of reductions' results: any, ranks-agree or same-bits"""

    @computed
    def verdict(self) -> FileVerdict:
        """Passed (no rule fails, none is slower, and one was seen), failed or not observed."""
        failed = any(v.assessment.status.is_failure or v.is_regression for v in self.results)
        if self.readability.problems or self.dropped or failed:
            return FileVerdict.FAILED
        seen = self.counts[RuleStatus.APPLIED] or not self.results
        return FileVerdict.PASSED if seen else FileVerdict.UNOBSERVED

    @computed
    def how_to_observe(self) -> str:
        """What shows more of the file; empty: enough was seen."""
        if self.verdict is not FileVerdict.UNOBSERVED:
            return ""
        if not self.counts[RuleStatus.UNOBSERVED]:
            return (
                "no call of this job reaches a rule. Start it as the jobs are that will use the "
                "file; the reason of each rule tells what it needs."
            )
        if not self.measured:
            return (
                "leave out --no-measure, so that the default, the file and each forced algorithm "
                "are timed in turn."
            )
        return (
            "give more time with --budget, so that the default, the file and each forced "
            "algorithm are timed more often; a rule whose algorithm is as fast as the default "
            "cannot be seen by time."
        )

    @computed
    def counts(self) -> Mapping[RuleStatus, int]:
        """Rules by status."""
        return dict.fromkeys(RuleStatus, 0) | Counter(r.assessment.status for r in self.results)

    @computed
    def regressions(self) -> int:
        """Rules slower than the default beyond doubt."""
        return sum(result.is_regression for result in self.results)

    def for_registry(self) -> dict[str, Any]:
        """Return what a registry keeps: how many rules of each collective became what."""
        collectives: dict[str, dict[str, int]] = {}
        for result in self.results:
            counts = collectives.setdefault(
                result.rule.collective.value, dict.fromkeys(RuleStatus, 0)
            )
            counts[result.assessment.status] += 1
        known = FORMATS.get(self.format)
        return {
            "passed": self.verdict == "passed",
            "verdict": self.verdict,
            "file": str(self.readability.path),
            "format": self.format or None,
            "library": known.library if known else None,
            "release": self.release or None,
            "nodes": len(self.nodes),
            "processes": sum(self.nodes.values()),
            "regressions": self.regressions,
            "collectives": collectives,
        }
