"""The stages of `colltune tune`, one after the other, within one wall-time budget.

What does not fit is left out, least important first: the picture, launches that confirm, the look
at which algorithm ran, all learners but one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from colltune import process
from colltune.bench.backends import NativeBackend
from colltune.bench.runner import CampaignReport, run_campaign
from colltune.cli.configuration import WrittenConfiguration, write_table
from colltune.cli.standing import cells_done, under_way
from colltune.cli.tune_settings import Settings
from colltune.cli.tune_verdict import grid, unproven, without_same
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.decisions import DecisionTable, Interval, Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import BudgetError, CampaignError, ColltuneError, ProgramError
from colltune.files import cache_folder
from colltune.interrupts import cut_short
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.models.learners import AUTO, PREFERRED
from colltune.mpi import MpiLibrary, trace
from colltune.mpi.installation import Installation
from colltune.selector.configuration import Target, selector_for, table_for
from colltune.selector.confirming import Judgement, confirmations
from colltune.selector.decision_table import merged
from colltune.verify import alternating as verify
from colltune.verify.confirm import Asked, confirming, proposals

if TYPE_CHECKING:
    from colltune.cli.console import Progress

_QUICK = "knn"
_OVERRUN = 1.2
_FIT_SHARE = 1 / 3
_WATCH_SHARE = 1 / 4
_PICTURE_SHARE = 1 / 4
_ALTERNATING = "the default and what was selected, in turns"
_DOUBTFUL = 1.0


@dataclass(frozen=True)
class Row:
    """One message-size range of the result.

    ``default_algorithms`` are what the library itself runs there (empty if it could not be seen);
    ``predicted`` is the predicted gain (geometric mean over the measured sizes of the range, None
    where nothing was proposed), ``measured`` what came of measuring it beside the default, None
    where the default is kept anyway; ``in_effect`` tells whether exactly the chosen algorithm was
    seen to run (None: could not be looked at).
    """

    collective: Collective
    interval: Interval
    default_algorithms: tuple[str, ...]
    predicted: float | None
    measured: Confirmation | None
    in_effect: bool | None

    @property
    def verdict(self) -> str:
        """``confirmed``, ``withdrawn``, ``withdrawn, not measured``; empty: default kept."""
        if self.measured is None:
            return ""
        not_measured = "" if self.measured.launches else ", not measured"
        return f"{self.measured.status}{not_measured}"


@dataclass(frozen=True)
class TuneResult:
    """Everything `colltune tune` found and made; no picture where there was no time for it."""

    shape: Shape
    context: str
    rows: tuple[Row, ...]
    dataset_path: Path
    bundle_path: Path
    picture_path: Path | None
    written: WrittenConfiguration
    report: CampaignReport
    wall_s: float
    timed_s: float
    phases_s: Mapping[str, float]
    notes: tuple[str, ...]


def run(
    settings: Settings, installation: Installation, backend: NativeBackend, progress: Progress
) -> TuneResult:
    """Tune for the campaign's one shape; see `colltune tune`.

    Raises
    ------
    CampaignError
        If the campaign asks for more than one shape.
    """
    if len(settings.campaign.shapes) != 1:
        raise CampaignError("tune works on one shape; use measure, fit and select for several")
    library = installation.library
    target = Target.named(
        f"{library}-table" if settings.campaign.interposed else library,
        installation.release,
        builtin_operations_only=settings.builtin_operations_only,
    )
    folder = (
        settings.out / f"{settings.campaign.machine}-{installation.library}-{installation.release}"
    )
    with process.ending_by(settings.moment()):
        with settings.told_of_time():
            backend.program()
            if target.form.interposed:
                backend.interposed()
        ends = {"start": settings.spent_s()}
        report = _measure(settings, backend, folder / "dataset", progress)
        ends["measure"] = settings.spent_s()
        dataset = read_parquet(folder / "dataset")
        began = time.monotonic(), time.process_time()
        bundle, notes = _fitted(settings, dataset, progress)
        notes = (*filter(None, [installation.root_note()]), *notes)
        bundle.save(folder / "bundle")
        ends["fit"] = settings.spent_s()
        settings = replace(settings, slowdown=slowdown(*began))
        finish = _Finish(
            settings, installation, target, backend, progress, folder, dataset, bundle, ends, notes
        )
        return finish.run(report)


def slowdown(began_s: float, began_cpu_s: float) -> float:
    """Return how many seconds went by for one that this process computed, since then; at least 1.

    The arguments are what `time.monotonic` and `time.process_time` said.
    """
    computed_s = time.process_time() - began_cpu_s
    return max(1.0, (time.monotonic() - began_s) / computed_s) if computed_s > 0 else 1.0


def _measure(
    settings: Settings, backend: NativeBackend, folder: Path, progress: Progress
) -> CampaignReport:
    budget_s = settings.measuring_s()
    with process.ending_by(time.monotonic() + _OVERRUN * budget_s):
        return run_campaign(
            settings.campaign.changed(total_s=budget_s),
            backend,
            folder,
            seed=settings.seed,
            resume=False,
            progress=lambda s: settings.tell(progress, "measuring", under_way(s), cells_done(s)),
        )


class _TooLateError(Exception):
    """The time for fitting is up."""


def _fitted(
    settings: Settings, dataset: PerformanceDataset, progress: Progress
) -> tuple[Bundle, tuple[str, ...]]:
    """Fit as asked, or in time by the quickest learner, with a note of that."""
    is_auto = settings.learner == AUTO
    try:
        within_s = (_FIT_SHARE if is_auto else 1.0) * settings.left_s()
        return _fitted_within(settings, dataset, progress, settings.learner, within_s), ()
    except _TooLateError:
        if is_auto:
            note = f"fitted by {_QUICK}: there was no time for {PREFERRED}"
            return _fitted(replace(settings, learner=_QUICK), dataset, progress)[0], (note,)
    raise BudgetError(
        f"fitting by {settings.learner} did not end within what was left of the budget of"
        f" {settings.campaign.total_s:g} s; what was measured is kept in {settings.out}; give more,"
        " or try when the machine is less busy"
    )


def _fitted_within(
    settings: Settings,
    dataset: PerformanceDataset,
    progress: Progress,
    learner: str,
    within_s: float,
) -> Bundle:
    ends_s = settings.spent_s() + within_s
    longest_s, before_s = 0.0, settings.spent_s()

    def tell(done: int, total: int, what: str) -> None:
        nonlocal longest_s, before_s
        settings.tell(progress, "fitting", what)
        now_s = settings.spent_s()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s
        if done < total and now_s + longest_s >= ends_s:
            raise _TooLateError

    return fit(dataset, learner, progress=tell)


@dataclass
class _Finish:
    """From the bundle to the result.

    ``ends`` are the times at which the phases ended, ``notes`` what is to be told of them.
    """

    settings: Settings
    installation: Installation
    target: Target
    backend: NativeBackend
    progress: Progress
    folder: Path
    dataset: PerformanceDataset
    bundle: Bundle
    ends: dict[str, float]
    notes: tuple[str, ...]

    @property
    def mpi(self) -> MpiLibrary:
        return self.target.mpi

    @property
    def release(self) -> str:
        return self.installation.release

    @property
    def shape(self) -> Shape:
        return self.settings.campaign.shapes[0]

    def run(self, report: CampaignReport) -> TuneResult:
        default_seen, tracer, watch_s = self._watch_default()
        is_drawn = self._prepare_drawing()
        self.ends["prepare"] = self.settings.spent_s()
        reserved_s = watch_s + self.settings.picture_s * is_drawn
        confirmed = self._confirm(default_seen, self.settings.left_s() - reserved_s)
        self.ends["verify"] = self.settings.spent_s()
        kept = self._kept(confirmed.judgements, default_seen)
        written = self._write(self._merged(kept))
        tuned_seen = self._watch_tuned(written, tracer, watch_s)
        self.ends["watch"] = self.settings.spent_s()
        rows = self._rows(kept, confirmed.judgements, default_seen, tuned_seen)
        picture = self._draw(kept) if is_drawn else None
        self.ends["picture"] = self.settings.spent_s()
        if picture is None:
            self._note("no picture was drawn: there was no time for it")
        return TuneResult(
            shape=self.shape,
            context=str(self.bundle.context),
            rows=tuple(rows),
            dataset_path=self.folder / "dataset",
            bundle_path=self.folder / "bundle",
            picture_path=picture,
            written=written,
            report=report,
            wall_s=self.settings.spent_s(),
            timed_s=report.timed_s + confirmed.timed_s,
            phases_s=_durations(self.ends),
            notes=(*self.notes, *written.written.notes, *self._user_settings(written)),
        )

    def _tell(self, what: str, now: str = "") -> None:
        self.settings.tell(self.progress, what, now)

    def _note(self, note: str) -> None:
        self.notes = (*self.notes, note)

    def _user_settings(self, written: WrittenConfiguration) -> tuple[str, ...]:
        """Return a note if the user decides himself on what the file would decide."""
        reason = self.mpi.honour_user(written.environment, os.environ).reason
        return (f"your own settings win over the file: {reason}",) if reason else ()

    def _write(self, table: DecisionTable) -> WrittenConfiguration:
        form = self.target.form
        kind = form.name.rpartition("-")[2]
        end = kind if kind in ("json", "table") else "rules"
        interposed = self.backend.interposed() if form.interposed else None
        return write_table(self.target, table, self.folder / f"{form.library}.{end}", interposed)

    def _grid(self, collective: Collective, interval: Interval) -> list[Instance]:
        return grid(collective, self.shape, interval, self.settings.campaign.msizes_bytes)

    def _whole(self, table: DecisionTable) -> list[tuple[Collective, Interval]]:
        """Return the intervals of the whole job's communicator, collective by collective."""
        whole = self.shape.nprocs
        return [
            (collective, interval)
            for (collective, comm_size), intervals in table.rules.items()
            if comm_size == whole
            for interval in intervals
        ]

    def _confirm(self, default_seen: Mapping[Instance, str], budget_s: float) -> CampaignReport:
        """Measure what the bundle proposes beside the default, within `budget_s`."""
        campaign, dataset = self.settings.campaign, self.folder / "dataset"
        asked = [
            Asked(c, self.shape, campaign.msizes_of(c))
            for c in self.bundle.collectives
            if self.shape.nprocs > 1
        ]
        found = [
            # what is not measured will be withdrawn, however certain its prediction is
            replace(contest, doubt=_DOUBTFUL)
            for contest in proposals(self.bundle, self.backend, asked)
            if not self._same(contest.candidates[0], contest.instances, default_seen)
        ]
        self._tell("verifying", _ALTERNATING)
        if not found or budget_s <= 0:
            return CampaignReport()
        plan = confirming(campaign.changed(total_s=budget_s), tuple(found))
        try:
            with process.ending_by(time.monotonic() + budget_s - process.GRACE_S):
                return run_campaign(
                    plan,
                    self.backend,
                    dataset,
                    seed=self.settings.seed,
                    resume=False,
                    progress=lambda s: self._tell("verifying", under_way(s)),
                )
        except (BudgetError, ProgramError) as error:
            self._note(f"nothing could be measured again: {error}")
            return CampaignReport()

    def _kept(
        self, judgements: Sequence[Judgement], default_seen: Mapping[Instance, str]
    ) -> DecisionTable:
        """Revise the bundle by what was measured, save it, and return what it decides then.

        What was not measured is withdrawn.
        """
        now_utc = datetime.now(UTC).isoformat(timespec="seconds")
        self.bundle = self.bundle.with_confirmations(confirmations(judgements, now_utc))
        left = self._without_same(self._table(), default_seen)
        rest = unproven(self.shape, self._whole(left), now_utc)
        self.bundle = self.bundle.with_confirmations(rest)
        self.bundle.save(self.folder / "bundle")
        return self._without_same(self._table(), default_seen)

    def _table(self) -> DecisionTable:
        return table_for(selector_for(self.bundle, self.target), self.shape, self.target)

    def _merged(self, table: DecisionTable) -> DecisionTable:
        """Return the table as it is written: neighbours with the same configuration are one."""
        return self._replaced(table, self._whole(table))

    def _replaced(
        self, table: DecisionTable, found: Sequence[tuple[Collective, Interval]]
    ) -> DecisionTable:
        """Return the table with other intervals for the whole job's communicator."""
        rules = dict(table.rules)
        for collective in {collective for collective, _ in found}:
            own = (interval for c, interval in found if c == collective)
            rules[collective, self.shape.nprocs] = merged(own)
        return replace(table, rules=rules)

    def _prepare_drawing(self) -> bool:
        """Get ready to draw, and tell whether there is time for it."""
        if self.settings.picture_s > _PICTURE_SHARE * self.settings.left_s():
            return False
        from colltune.plots import tuned

        tuned.prepare()
        return True

    def _draw(self, kept: DecisionTable) -> Path | None:
        """Draw the picture, unless the time ends first."""
        if self.settings.left_s() <= 0:
            return None
        from colltune.plots.saving import saved
        from colltune.plots.tuned import runtimes

        self._tell("drawing")
        with suppress(TimeoutError), cut_short(self.settings.left_s()):
            figure = runtimes(self.dataset, kept, self.shape)
            return saved(figure, self.folder / "runtimes.png")
        return None

    def _tracer(self) -> Path | None:
        """Return the call tracer, or None with a note why there is none."""
        try:
            return trace.build(self.installation, cache_folder())
        except ColltuneError as error:
            self._note(f"which algorithm ran could not be looked at: {error}")
            return None

    def _watch_default(self) -> tuple[Mapping[Instance, str], Path | None, float]:
        """Return what runs by default, the tracer that saw it, and how long such a look takes."""
        self._tell("watching", "which algorithms run by default")
        with process.ending_by(self.settings.moment(_WATCH_SHARE)):
            tracer = self._tracer()
            began = time.monotonic()
            seen = self._watch({}, tracer)
        return seen, tracer, 0.0 if tracer is None else time.monotonic() - began

    def _watch_tuned(
        self, written: WrittenConfiguration, tracer: Path | None, watch_s: float
    ) -> Mapping[Instance, str]:
        """Return what runs with the file; nothing where it changes nothing, or the time is up."""
        if all(interval.configuration.is_default for _, interval in self._whole(written.table)):
            return {}
        if tracer is not None and self.settings.left_s() < watch_s:
            self._note("which algorithms run with the file was not looked at: the time was up")
            return {}
        self._tell("watching", "which algorithms run with the file")
        seen = self._watch(written.environment, tracer)
        if tracer is not None and not seen:
            self._note("which algorithms run with the file could not be looked at in time")
        return seen

    def _watch(self, environment: Mapping[str, str], tracer: Path | None) -> Mapping[Instance, str]:
        """Return which function runs for each measured instance under `environment`."""
        if tracer is None:
            return {}
        instances = [
            Instance(c, self.shape, m)
            for c in self.bundle.collectives
            for m in self.settings.campaign.msizes_bytes
        ]
        return verify.watch_algorithms(self.backend, self.shape, instances, environment, tracer)

    def _without_same(
        self, table: DecisionTable, default_seen: Mapping[Instance, str]
    ) -> DecisionTable:
        """Leave to the library what it does by itself, as far as that is certain."""
        rules = dict(table.rules)
        for collective in dict.fromkeys(collective for collective, _ in self._whole(table)):
            rules[collective, self.shape.nprocs] = tuple(
                part
                for interval in rules[collective, self.shape.nprocs]
                for part in without_same(
                    Configuration.default(table.library, collective),
                    interval,
                    self._grid(collective, interval),
                    self._same(
                        interval.configuration, self._grid(collective, interval), default_seen
                    ),
                )
            )
        return replace(table, rules=rules)

    def _same(
        self,
        chosen: Configuration,
        instances: Iterable[Instance],
        default_seen: Mapping[Instance, str],
    ) -> list[Instance]:
        """Return those of `instances` for which the default certainly runs what was chosen."""
        # with parameters, the same algorithm can still run in another way
        expected = () if chosen.parameters else self.mpi.expected_symbols(self.release, chosen)
        return [instance for instance in instances if default_seen.get(instance) in expected]

    def _rows(
        self,
        kept: DecisionTable,
        judgements: Sequence[Judgement],
        default_seen: Mapping[Instance, str],
        tuned_seen: Mapping[Instance, str],
    ) -> list[Row]:
        names = _names(self.mpi, self.release, self.bundle.collectives)
        predicted = {
            (judgement.contest.collective, judgement.range_bytes[0]): judgement.contest.gain
            for judgement in judgements
        }
        rows: list[Row] = []
        for collective, interval in self._whole(kept):
            instances = self._grid(collective, interval)
            measured = self._record(collective, interval)
            if not instances and rows and _is_alike(rows[-1], collective, interval, measured):
                longer = replace(rows[-1].interval, last_bytes=interval.last_bytes)
                rows[-1] = replace(rows[-1], interval=longer)
                continue
            default_names = [names.get(default_seen.get(i, ""), "") for i in instances]
            rows.append(
                Row(
                    collective,
                    interval,
                    tuple(dict.fromkeys(name for name in default_names if name)),
                    predicted.get((collective, interval.first_bytes)),
                    measured,
                    self._in_effect(interval, instances, tuned_seen),
                )
            )
        return rows

    def _record(self, collective: Collective, interval: Interval) -> Confirmation | None:
        """Return what was measured of an interval."""
        if interval.status is Status.PREDICTED:
            return None
        found = (
            record
            for record in self.bundle.confirmations
            if (record.collective, record.shape) == (collective, self.shape)
            and record.holds(np.array(interval.first_bytes))
        )
        return next(found, None)

    def _in_effect(
        self, interval: Interval, instances: list[Instance], seen: Mapping[Instance, str]
    ) -> bool | None:
        if interval.configuration.is_default or not instances or not seen:
            return None
        expected = self.mpi.expected_symbols(self.release, interval.configuration)
        return all(seen.get(instance) in expected for instance in instances)


def _is_alike(
    row: Row, collective: Collective, interval: Interval, measured: Confirmation | None
) -> bool:
    """Tell whether sizes between those measured are left to the default, as the row before."""
    return (
        row.collective is collective
        and row.interval.configuration == interval.configuration
        and row.measured is None
        and (measured is None or not measured.launches)
    )


def _durations(ends: Mapping[str, float]) -> dict[str, float]:
    """Return how long each phase took, from when each ended."""
    starts = [0.0, *ends.values()]
    return {name: end - start for (name, end), start in zip(ends.items(), starts, strict=False)}


def _names(mpi: MpiLibrary, release: str, collectives: tuple[Collective, ...]) -> dict[str, str]:
    """Return the algorithm's name for each traced function."""
    return {
        symbol: configuration.algorithm
        for collective in collectives
        for configuration in mpi.portfolio(release, collective).configurations
        for symbol in mpi.expected_symbols(release, configuration)
    }
