"""What follows from a judgement, at once and without anybody looking.

A decision that production refuted is withdrawn in a revision of the bundle, for its range alone and
in all shapes of its class: the class is what was judged, so a job on a shape that no job has used
yet is not let into the same harm. A class of more than `MOST_SHAPES` shapes loses the decision on
those that jobs used; others follow when one does. Files that decide on a collective as a whole
leave all of it to the library then. A trial goes on by a step, or ends. Drift changes nothing,
since it slows the control group, too; it is noted.

Everything is done in the registry alone, which refuses what somebody else changed meanwhile; the
next judgement is then acted on instead. What was done before is not done again: a bundle that does
not decide so (any more) is left as it is, as is a decision that was measured and confirmed after
the verdict, or whose withdrawal somebody rolled back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from colltune.decisions import Status
from colltune.domain import Configuration, Shape
from colltune.errors import BundleError, ColltuneError, RegistryConflict
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.guard import Guard
from colltune.mpi.programs import FOR_EVERYBODY, Programs
from colltune.production.arms import Production
from colltune.production.judgement import Judgement, ProductionFinding, ProductionVerdict, TrialStep
from colltune.registry import Action, Event, Registry
from colltune.registry.events import Cause, time_of, trials
from colltune.registry.registry import NOTHING
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, selector_for, target_of
from colltune.selector.decision_table import decision_table

MOST_SHAPES = 64
REPORT = "production"
_NOTE_CHARACTERS = 2000
_MOST_SETTLED = 10_000
_SETTLED: dict[Hashable, None] = {}
"""Findings that a bundle decides nothing of (any more)."""


class ConsequenceKind(StrEnum):
    """What was done; ``failed``: it could not be, and is tried again after the next judgement."""

    WITHDRAWN = "withdrawn"
    STEP = "step"
    PROMOTED = "promoted"
    STOPPED = "stopped"
    DRIFT = "drift"
    FAILED = "failed"


class Consequence(NamedTuple):
    """What was done in a slot, why, and which bundle came of it or was meant."""

    kind: ConsequenceKind
    slot: str
    text: str
    bundle_id: str


def act(
    judgement: Judgement,
    registry: Registry,
    settings: Production,
    by: str,
    guard: Guard | None = None,
    programs: Programs = FOR_EVERYBODY,
) -> tuple[Consequence, ...]:
    """Do what follows from `judgement`, and return what was done.

    `guard` and `programs` are those of the service, by which jobs were given their configurations.
    """
    slots = {f.slot for f in judgement.findings} | {s.slot for s in judgement.steps}
    found: list[Consequence] = []
    for slot in sorted(slots):
        one = _Slot(slot, judgement, registry, settings, by, guard or Guard(), programs)
        try:
            found += one.stepped()
            found += one.withdrawn()
        except RegistryConflict:
            # somebody else was first: the next judgement tells what is left to be done
            continue
        except ColltuneError as error:
            found.append(Consequence(ConsequenceKind.FAILED, slot, str(error), ""))
    return (*found, *_noted(judgement, registry, found))


class _Slot(NamedTuple):
    name: str
    judgement: Judgement
    registry: Registry
    settings: Production
    by: str
    guard: Guard
    programs: Programs

    def withdrawn(self) -> Iterator[Consequence]:
        """Withdraw what is refuted from the bundle in force and from the one on trial."""
        refuted = [
            finding
            for finding in self.judgement.findings
            if finding.slot == self.name and finding.verdict is ProductionVerdict.REFUTED
        ]
        in_force = self.registry.current().get(self.name)
        if not refuted or in_force is None:
            return
        interrupted = self._interrupted()
        trial, kept = interrupted or self.registry.trials().get(self.name), self._kept()
        tried = self._revised(trial, refuted, kept) if trial else None
        new = self._revised(in_force, refuted, kept)
        if new:
            note = _note(new[1])
            self.registry.promote(
                new[0],
                by=self.by,
                note=note,
                expected=in_force.bundle_id,
                cause=Cause.WITHDRAWAL,
            )
            yield Consequence(ConsequenceKind.WITHDRAWN, self.name, note, new[0])
        if trial and trial.share and (new or tried or interrupted):
            # a promotion ends a trial, which goes on with what is left of its bundle
            bundle_id, records = tried or (trial.bundle_id, [])
            beside = new[0] if new else in_force.bundle_id
            note = _note(records) if records else f"goes on beside {beside[:12]}"
            now = NOTHING if new or interrupted else trial.bundle_id
            cause = Cause.WITHDRAWAL if records else None
            self.registry.step(
                bundle_id, trial.share, by=self.by, note=note, expected=now, cause=cause
            )
            if records:
                yield Consequence(ConsequenceKind.WITHDRAWN, self.name, note, bundle_id)

    def _interrupted(self) -> Event | None:
        """Return the trial that the latest withdrawal ended, before it was said to go on."""
        events = self.registry.history(self.name)
        if events[-1].action is Action.PROMOTE and events[-1].cause is Cause.WITHDRAWAL:
            return trials(events[:-1]).get(self.name)
        return None

    def _kept(self) -> tuple[str, ...]:
        """Return the revisions that somebody rolled back: people have the last word."""
        events = self.registry.history(self.name)
        ours = {e.bundle_id for e in events if e.cause is Cause.WITHDRAWAL}
        undone = {e.previous_id for e in events if e.action is Action.ROLLBACK}
        return tuple(sorted(ours & undone))

    def _steps(self, trial: Event) -> list[TrialStep]:
        """Return what was judged of `trial` as it is now."""
        now = (trial.slot, trial.bundle_id, trial.share)
        return [s for s in self.judgement.steps if (s.slot, s.bundle_id, s.share) == now]

    def _revised(
        self, event: Event, refuted: Iterable[ProductionFinding], kept: tuple[str, ...]
    ) -> tuple[str, list[Confirmation]] | None:
        """Add a revision without what is `refuted`; None if the bundle decides nothing of it.

        Decisions that the bundles `kept` have withdrawn stay.
        """
        now = (event.bundle_id, kept, self.guard, self.programs)
        keys = {
            (*now, f.bundle_id, f.range, f.configuration, f.shapes, f.since_utc): f
            for f in refuted
            if f.gain
        }
        left = {key: finding for key, finding in keys.items() if key not in _SETTLED}
        if not left:
            return None
        bundle = self.registry.load(event.bundle_id)
        known = list(bundle.confirmations)
        for bundle_id in kept:
            with suppress(BundleError):
                theirs = self.registry.load(bundle_id, ()).confirmations
                known += [record for record in theirs if record.jobs]
        selector = _selector(bundle, self.guard, self.programs)
        records = [
            record
            for finding in left.values()
            for record in withdrawals(*selector, finding, self.judgement.at_utc, known)
        ]
        if not records:
            # a bundle never changes, and what was refuted stays in the judgement for months
            _SETTLED.update(dict.fromkeys(left))
            while len(_SETTLED) > _MOST_SETTLED:
                del _SETTLED[next(iter(_SETTLED))]
            return None
        return self.registry.add(bundle.with_confirmations(records)), records

    def stepped(self) -> Iterator[Consequence]:
        """Let the trial go on, or end it."""
        trial = self.registry.trials().get(self.name)
        in_force = self.registry.current().get(self.name)
        if trial is None or in_force is None:
            return
        for step in self._steps(trial):
            named: Mapping[str, Any] = {"by": self.by, "note": _step_note(step)}
            if step.harmed:
                self.registry.stop(self.name, expected=step.bundle_id, **named)
                yield Consequence(ConsequenceKind.STOPPED, self.name, named["note"], step.bundle_id)
            elif step.enough:
                share = min((s for s in self.settings.steps if s > step.share), default=1.0)
                if share < 1.0:
                    self.registry.step(step.bundle_id, share, expected=step.bundle_id, **named)
                    text = f"on trial with {share:.0%} of the jobs: {named['note']}"
                    yield Consequence(ConsequenceKind.STEP, self.name, text, step.bundle_id)
                else:
                    self.registry.promote(step.bundle_id, expected=in_force.bundle_id, **named)
                    yield Consequence(
                        ConsequenceKind.PROMOTED, self.name, named["note"], step.bundle_id
                    )


def _step_note(step: TrialStep) -> str:
    text = f"{step.jobs} jobs with {step.share:.0%} of all"
    if step.lower is not None and step.upper is not None:
        text += f": {step.lower:.3f} to {step.upper:.3f} times as long as without it"
    return f"{text}; {step.why}"


def _selector(bundle: Bundle, guard: Guard, programs: Programs) -> tuple[ModelSelector, Target]:
    """Return what decides for jobs, and for which files."""
    target = target_of(bundle, programs)
    return selector_for(bundle, target, guard=guard), target


def withdrawals(
    selector: ModelSelector,
    target: Target,
    finding: ProductionFinding,
    at_utc: str,
    known: Sequence[Confirmation],
) -> list[Confirmation]:
    """Return what takes a refuted decision back where `selector` decides so, nothing where not.

    What is settled by the confirmations `known` stays as it is.
    """
    bundle = selector.bundle
    gain, lower, upper = finding.gain, finding.lower, finding.upper
    of, configuration = finding.range, Configuration.parse(finding.configuration)
    is_there = of.collective in bundle.collectives and configuration in bundle.configurations()
    if not is_there or not gain or not lower or not upper:
        return []
    return [
        Confirmation(
            of.collective,
            shape,
            first_bytes,
            last_bytes,
            Status.WITHDRAWN,
            Configuration.default(configuration.library, of.collective),
            configuration,
            gain,
            lower,
            upper,
            0,
            at_utc,
            max(1, finding.jobs.get(finding.arm, 0)),
        )
        for shape, first_bytes, last_bytes in _decided(selector, target, finding, configuration)
        if not _is_settled(known, finding, shape, first_bytes, last_bytes)
    ]


def _decided(
    selector: ModelSelector,
    target: Target,
    finding: ProductionFinding,
    configuration: Configuration,
) -> Iterator[tuple[Shape, int, int]]:
    """Yield the shapes with the message sizes of a finding where `selector` decides so."""
    of = finding.range
    form = target.form
    as_a_whole = (
        form.single_algorithm
        or not form.allows_partial_collective
        or of.collective in target.bound.one_rule
    )
    parts = [(shape, of.first_bytes, of.last_bytes) for shape in _shapes(finding)]
    if as_a_whole:
        # what a job gets there rests on all its communicators: only its own bundle is sure
        yield from (part for part in parts if finding.bundle_id == selector.bundle.id)
    else:
        yield from _intervals(selector, finding, configuration)


def _intervals(
    selector: ModelSelector, finding: ProductionFinding, configuration: Configuration
) -> Iterator[tuple[Shape, int, int]]:
    of = finding.range
    table = decision_table(
        selector,
        Shape(of.nodes_last, of.ppn),
        (of.collective,),
        comm_layouts={shape.nprocs: (shape,) for shape in _shapes(finding)},
        describe=False,
    )
    for shape in _shapes(finding):
        for interval in table.rules[of.collective, shape.nprocs]:
            first = max(interval.first_bytes, of.first_bytes)
            end = of.last_bytes if interval.last_bytes is None else interval.last_bytes
            last = min(end, of.last_bytes)
            if interval.configuration == configuration and first <= last:
                yield shape, first, last


def _shapes(finding: ProductionFinding) -> list[Shape]:
    """Return the shapes of the class, or where these are many those that jobs used."""
    of = finding.range
    nodes: Sequence[int] = range(of.nodes_first, of.nodes_last + 1)
    if len(nodes) > MOST_SHAPES:
        nodes = sorted({shape.nodes for shape in finding.shapes})
    return [Shape(n, of.ppn) for n in nodes if n * of.ppn > 1]


def _is_settled(
    known: Iterable[Confirmation], finding: ProductionFinding, shape: Shape, first: int, last: int
) -> bool:
    """Tell whether it is withdrawn, or `confirm` measured it after the verdict to be faster."""
    fallen = time_of(finding.since_utc)
    return any(
        (record.collective, record.shape) == (finding.range.collective, shape)
        and record.first_bytes <= first
        and (record.last_bytes is None or last <= record.last_bytes)
        and (record.jobs > 0 or _is_confirmed_after(record, fallen))
        for record in known
    )


def _is_confirmed_after(record: Confirmation, fallen: datetime | None) -> bool:
    measured = time_of(record.measured_utc)
    is_later = fallen is not None and measured is not None and measured > fallen
    return record.status is Status.CONFIRMED and is_later


def _note(records: Sequence[Confirmation]) -> str:
    """Return what is withdrawn and why, for the history."""
    told: dict[tuple[object, ...], list[Confirmation]] = {}
    for one in records:
        key = (
            one.collective,
            one.proposed,
            one.shape.ppn,
            one.gain,
            one.lower,
            one.upper,
            one.jobs,
        )
        told.setdefault(key, []).append(one)
    texts = [f"{_range(ours)}: {ours[0].harm}" for ours in told.values()]
    text = f"withdrawn by production: {'; '.join(texts)}"
    return text if len(text) <= _NOTE_CHARACTERS else f"{text[: _NOTE_CHARACTERS - 1]}…"


def _range(records: Sequence[Confirmation]) -> str:
    nodes = sorted({record.shape.nodes for record in records})
    first = min(record.first_bytes for record in records)
    last = max(record.last_bytes or 0 for record in records)
    at = f"{nodes[0]} to {nodes[-1]}" if len(nodes) > 1 else str(nodes[0])
    one = records[0]
    return (
        f"{one.proposed.short} of {one.collective} on {at} x {one.shape.ppn}, {first} to {last} B"
    )


def _noted(
    judgement: Judgement, registry: Registry, done: Sequence[Consequence]
) -> Iterator[Consequence]:
    """Leave a report where something was done or the drift is another; yield what drifts anew."""
    drifts = {f"{drift.slot} since {drift.since_utc}": drift.text for drift in judgement.drifts}
    last: dict[str, str] = {}
    with suppress(ColltuneError):
        last = (registry.latest_report(REPORT) or {}).get("drifts", {})
    done = [one for one in done if one.kind is not ConsequenceKind.FAILED]
    if not done and set(drifts) == set(last):
        return
    new = [
        Consequence(ConsequenceKind.DRIFT, drift.slot, drift.text, "")
        for key, drift in zip(drifts, judgement.drifts, strict=True)
        if key not in last
    ]
    content = {"drifts": drifts, "consequences": [one._asdict() for one in (*done, *new)]}
    with suppress(ColltuneError):
        registry.put_report(REPORT, content)
    yield from new
