"""Proves one file in the user's own job, from its readability to its speed-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from colltune.domain import Instance
from colltune.errors import ColltuneError, LibraryError, say
from colltune.mpi import LIBRARIES, formats, trace
from colltune.mpi.file_format import Format
from colltune.mpi.installation import Installation, identified
from colltune.mpi.libcolltune import PRELOAD
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.programs import Results
from colltune.mpi.rules import Finding, Rules
from colltune.text import counted
from colltune.verify import probe_calls
from colltune.verify.canary import (
    VARYING,
    CallEnding,
    CallSeen,
    Canary,
    CanaryRun,
    Executed,
    Readability,
    VerifyRequest,
    canary_of,
    companions,
    execute,
    readability,
)
from colltune.verify.gains import ForcedEnvironments, Gains, Measuring
from colltune.verify.observing import UNTRACED, Observer, said
from colltune.verify.probe_calls import JobLayout, ProbeCall
from colltune.verify.rule_status import (
    Assessment,
    Assessor,
    Evidence,
    JobSettings,
    Proof,
    RuleResult,
    RuleStatus,
    by_timing,
    gathered,
)
from colltune.verify.user_line import Preloaded, preloaded, reaches, without_preload

_MEASURED = (RuleStatus.APPLIED, RuleStatus.UNOBSERVED)
Progress = Callable[[str, float], None]


def prove(request: VerifyRequest, progress: Progress = lambda _what, _spent_s: None) -> Proof:
    started = time.monotonic()
    progress("compiling the test program", 0.0)
    canary, installation = canary_of(request)
    progress("reading the file on all processes", 0.0)
    read, look = readability(request, canary)
    if read.problems:
        return Proof(read, promised=request.results)
    proving = _Proving(request, canary, installation, progress, started)
    proving.notes += filter(None, [installation.root_note()])
    if look.differing_ranks:
        ranks = ", ".join(map(str, look.differing_ranks[:8]))
        proving.notes.append(f"ranks {ranks} have other settings of collectives than rank 0")
    return proving.run(read)


@dataclass
class _Proving:
    """The stages behind the check of readability."""

    request: VerifyRequest
    canary: Canary
    installation: Installation
    progress: Progress
    started: float
    notes: list[str] = field(default_factory=list)
    launch_s: float = 1.0
    preloaded: Preloaded | None = None

    def run(self, read: Readability) -> Proof:
        text = formats.read_text(self.request.path)
        job = self._start()
        library, release = identified(job.library)
        kind = self._format(text, library)
        self._insist(kind, library, release)
        proof = Proof(
            read,
            kind.name,
            release,
            job.library,
            dict(job.nodes),
            measured=self.request.measure,
            promised=self.request.results,
        )
        if reason := kind.unreadable_by(release):
            return replace(proof, dropped=reason, notes=tuple(self.notes))
        parsed = kind.parse(text, str(self.request.path), release)
        layout = JobLayout(tuple(n for _, n in job.nodes))
        settings = self._settings(kind, release, job, layout)
        findings = kind.lint(parsed)
        parsed = kind.with_others(parsed, settings.environment, settings.activation)
        results = self._results(parsed, findings, layout, settings)
        return replace(
            proof,
            activation=settings.activation,
            user_settings={name: settings.user[name].value for name in settings.against()},
            dropped=parsed.dropped,
            results=results,
            notes=tuple(self.notes),
        )

    def _tell(self, what: str) -> None:
        self.progress(what, time.monotonic() - self.started)

    def _format(self, text: str, library: str) -> Format:
        """Return the format of the file, preferably one of the job's library."""
        source, named = str(self.request.path), self.request.format
        try:
            return formats.format_of(text, source, named, library)
        except LibraryError as error:
            try:
                return formats.format_of(text, source, named)  # to be told whose file it is
            except LibraryError:
                raise error from None

    def _start(self) -> CanaryRun:
        self._tell("starting MPI")
        began = time.monotonic()
        job = self.canary.start(LIBRARIES[self.installation.library].prints_settings)
        self.launch_s = time.monotonic() - began
        return job

    def _insist(self, kind: Format, library: str, release: str) -> None:
        asked = self.request.release
        if kind.library != library:
            path, job = self.request.path, f"{library} {release}"
            raise say("file-of-another-library", file=path, library=kind.library, job=job)
        if asked is not None and asked != release:
            raise say("job-of-another-release", library=library, release=release, asked=asked)

    def _settings(
        self, kind: Format, release: str, job: CanaryRun, layout: JobLayout
    ) -> JobSettings:
        """Return the job's settings; from now on launches leave out what activates the file."""
        paths = {"": str(self.request.path)}
        paths |= {end: str(file) for end, file in companions(self.request.path).items()}
        line, told = self.canary.line, dict(job.settings)
        if kind.interposed:
            self.preloaded = preloaded(line.user, self.installation, self.request.work)
            paths["library"] = self.preloaded.together
            line, told = without_preload(line), {n: v for n, v in told.items() if n != PRELOAD}
        shape = layout.regular if layout.is_regular else None
        library = LIBRARIES[self.installation.library]
        activation = kind.activation(release, paths, shape)
        activation = library.for_results(activation, self.request.results)
        shown = library.prints_settings
        seen = {n: v for n, v in told.items() if n in line.user or n not in shown}
        mpi = with_libcolltune(library)
        user = gathered(mpi, seen, job.shown, line.user, line.words)
        left_out = [
            name
            for name, value in activation.items()
            if name in line.user and mpi.same(name, line.user[name], value)
        ]
        self.canary = replace(self.canary, line=replace(line, left_out=tuple(left_out)))
        return JobSettings.of(mpi, user, activation)

    def _results(
        self,
        parsed: Rules,
        findings: tuple[Finding, ...],
        layout: JobLayout,
        settings: JobSettings,
    ) -> tuple[RuleResult, ...]:
        if parsed.dropped:
            why = Assessment(
                RuleStatus.IGNORED, f"the library ignores the whole file: {parsed.dropped}"
            )
            return tuple(RuleResult(rule, why) for rule in parsed.rules)
        search = probe_calls.find(parsed, layout, settings.activation, settings.environment)
        seen = self._watch(parsed, search.probes, settings)
        watched = settings, seen.observer, layout
        assess = Assessor(parsed, *watched, search.complete, findings, self.request.results)
        assessed = []
        for number, rule in enumerate(parsed.rules):
            evidence = [seen.of(probe) for probe in search.probes.get(number, ())]
            assessment, best = assess.assess(rule, evidence)
            assessed.append(
                (RuleResult(rule, seen.spoilt or assessment if best else assessment), best)
            )
        return self._measured(assessed, seen, layout, settings)

    def _watch(
        self,
        parsed: Rules,
        found: Mapping[int, tuple[ProbeCall, ...]],
        settings: JobSettings,
    ) -> _BothWays:
        """Have the calls made with and without the file; those known to break are left alone."""
        calls = [
            probe.canary
            for of_rule in found.values()
            for probe in of_rule
            if not (probe.planned.ends_program or probe.expected.ends_program)
        ]
        tracer, observer = self._observer(parsed)
        self._tell("calling with the file")
        prints = LIBRARIES[self.installation.library].prints_choices
        talkative = {**settings.activation, **prints}
        with_file = execute(self.canary, calls, talkative, tracer)
        if with_file.broken and tracer is not None:
            # it may be the tracer that the job does not stand
            untraced = execute(self.canary, calls, settings.activation, None)
            if not untraced.broken:
                with_file, tracer = untraced, None
                observer = replace(observer, unavailable="the job does not start with the tracer")
        if with_file.first is not None:
            self.notes += said(with_file.first, self.request.path)
        self._tell("calling without the file")
        plain = {} if self.preloaded is None else self.preloaded.without
        without = execute(self.canary, calls, plain, tracer)
        varying = sum(seen.bits == VARYING for seen in without.calls.values())
        if varying and self.request.results is Results.SAME_BITS:
            many = counted(varying, "call")
            self.notes.append(
                f"without the file, {many} made twice gave other bits: they are not compared"
            )
        return _BothWays(with_file, without, observer, _spoilt(with_file, settings))

    def _observer(self, parsed: Rules) -> tuple[Path | None, Observer]:
        """Return the call tracer for the job's library, or None and why there is none."""
        found = self.installation
        observer = Observer(found.library, parsed.release)
        told = self.preloaded is not None  # libcolltune itself tells what it chose
        if not LIBRARIES[found.library].traced:
            return None, replace(observer, unavailable="" if told else UNTRACED)
        if found.release != parsed.release:
            why = f"the tracer would be for {found.mpirun}, which belongs to {found.release}"
            return None, replace(observer, unavailable="" if told else why)
        try:
            return trace.build(found, self.request.work), observer
        except ColltuneError as error:
            return None, replace(observer, unavailable="" if told else str(error))

    def _measured(
        self,
        assessed: Sequence[tuple[RuleResult, Evidence | None]],
        seen: _BothWays,
        layout: JobLayout,
        settings: JobSettings,
    ) -> tuple[RuleResult, ...]:
        line = self.canary.line
        measuring = Measuring(self.installation, line, layout, self.request.work, self.launch_s)
        instances = [
            measuring.instance_of(best.probe) if best and _is_worth(result, best, seen) else None
            for result, best in assessed
        ]
        wanted = [
            (instance, best.probe.planned.configuration)
            for (result, best), instance in zip(assessed, instances, strict=True)
            if best and instance and result.assessment.status is RuleStatus.UNOBSERVED
        ]
        observer = seen.observer
        forced = ForcedEnvironments.of(observer.library, observer.release, wanted)
        gains = self._gains(measuring, [i for i in instances if i is not None], forced, settings)
        self.notes += gains.notes
        return tuple(
            _completed(result, best, instance, seen, gains)
            for (result, best), instance in zip(assessed, instances, strict=True)
        )

    def _gains(
        self,
        measuring: Measuring,
        instances: Sequence[Instance],
        forced: ForcedEnvironments,
        settings: JobSettings,
    ) -> Gains:
        if not self.request.measure:
            return Gains()
        always = [
            name
            for name, value in settings.activation.items()
            if name in settings.user
            and settings.user[name].value == value
            and name not in self.canary.line.user
        ]
        if always:
            why = f"nothing was measured, because {always[0]} is set by the launcher's options or a"
            return Gains(notes=(f"{why} parameter file, so every job uses the file",))
        self._tell("measuring")
        spent_s = time.monotonic() - self.started
        return measuring.measure(
            instances,
            settings.activation,
            forced,
            self.request.budget_s - spent_s,
            lambda s: self.progress("measuring", spent_s + s),
        )


@dataclass(frozen=True)
class _BothWays:
    """What was seen with and without the file; ``spoilt`` is what became of all of its rules."""

    with_file: Executed
    without: Executed
    observer: Observer
    spoilt: Assessment | None

    def of(self, probe: ProbeCall) -> Evidence:
        call = probe.canary
        unmade = CallSeen(CallEnding.NOT_RUN)
        without = self.without.calls.get(call, unmade)
        known = without if without.ending is not CallEnding.NOT_RUN else None
        return Evidence(probe, self.with_file.calls.get(call, unmade), known)


def _completed(
    result: RuleResult,
    best: Evidence | None,
    instance: Instance | None,
    seen: _BothWays,
    gains: Gains,
) -> RuleResult:
    """Return the result with the call that shows it and what was measured of it."""
    if best is None:
        return result
    without = seen.observer.name(best.without) if best.without else ""
    told = replace(result, call=best.probe.canary, default_ran=without)
    if instance is None:
        return told
    if result.assessment.status is RuleStatus.UNOBSERVED and instance in gains.timed:
        told = replace(told, assessment=by_timing(gains.timed[instance]))
    slower = instance in gains.regressions
    return replace(told, gain=gains.gains.get(instance), is_regression=slower)


def _spoilt(executed: Executed, settings: JobSettings) -> Assessment | None:
    """Return what keeps the file as a whole from deciding anything; None if nothing does."""
    if executed.broken:
        return Assessment(RuleStatus.HARMFUL, f"with the file {executed.broken}")
    if executed.first is None:
        return None
    told = executed.first.settings
    for name, ours in settings.activation.items():
        wanted, got = settings.environment[name], told.get(name)
        if wanted != ours and name != PRELOAD and ours.startswith("/"):
            return Assessment(RuleStatus.OVERRIDDEN, f"by {settings.text(name)}")
        if wanted != ours:
            continue  # what it changes is known
        if got is None:
            why = f"{name} does not reach the processes, because the launcher does not pass it on"
            return Assessment(RuleStatus.IGNORED, f"not activated: {why}")
        arrives = reaches(wanted, got) if name == PRELOAD else got == wanted
        if not arrives:
            return Assessment(RuleStatus.OVERRIDDEN, f"by {name}={got}, which the processes see")
    return None


def _is_worth(result: RuleResult, evidence: Evidence, seen: _BothWays) -> bool:
    """Tell whether a rule is to be measured: it works, and runs something else than the default."""
    planned = evidence.probe.planned
    if result.assessment.status not in _MEASURED or planned.configuration.is_default:
        return False
    if evidence.with_file.ending is not CallEnding.OK or evidence.without is None:
        return False
    traced = not seen.observer.unavailable
    return not (traced and seen.observer.same(evidence.with_file, evidence.without))
