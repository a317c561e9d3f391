"""The stages of `colltune tune`, one after the other, within one wall-time budget."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.bench import verify
from colltune.bench.backends import NativeBackend
from colltune.bench.runner import CampaignReport, run_campaign
from colltune.cli.configuration import WrittenConfiguration, write_table
from colltune.cli.standing import cells_done, under_way
from colltune.cli.tune_settings import Settings
from colltune.cli.tune_verdict import Verdict, grid, judge, without_same
from colltune.dataset import PerformanceDataset, read_parquet
from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import BudgetError, CampaignError, ColltuneError
from colltune.files import cache_folder
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.mpi import MpiLibrary, trace
from colltune.mpi.installation import Installation
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, selector_for, table_for
from colltune.selector.decision_table import merged

if TYPE_CHECKING:
    from colltune.cli.console import Progress

_LEAST_BUDGET_S = 15.0
_REPORT_S = 3.0
_ALTERNATING = "the default and what was selected, in turns"


@dataclass(frozen=True)
class Row:
    """One message-size range of the result.

    ``default_algorithms`` are what the library itself runs there (empty if it could not be seen);
    ``predicted`` is the predicted gain (geometric mean over the measured sizes of the range, None
    where the default is kept), ``measured`` that of the alternated measurement; ``in_effect`` tells
    whether exactly the chosen algorithm was seen to run (None: could not be looked at);
    ``withdrawn`` is a choice that was taken back because it did not prove faster.
    """

    collective: Collective
    interval: Interval
    default_algorithms: tuple[str, ...]
    predicted: float | None
    measured: verify.Gain | None
    in_effect: bool | None
    withdrawn: Configuration | None = None


@dataclass(frozen=True)
class TuneResult:
    """Everything `colltune tune` found and made."""

    shape: Shape
    context: str
    rows: tuple[Row, ...]
    dataset_path: Path
    bundle_path: Path
    picture_path: Path
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
    BudgetError
        If the budget is too small for fitting, writing and verifying beside measuring.
    CampaignError
        If the campaign asks for more than one shape.
    """
    if settings.campaign.total_s < _LEAST_BUDGET_S:
        raise BudgetError(
            f"a budget of {settings.campaign.total_s:g} s is too small: measuring, fitting and"
            f" verifying need at least {_LEAST_BUDGET_S:g} s; nothing was measured"
        )
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
    backend.program()
    if target.form.interposed:
        backend.interposed()
    ends = {"start": settings.spent_s()}
    report = _measure(settings, backend, folder / "dataset", progress)
    ends["measure"] = settings.spent_s()
    settings.tell(progress, "fitting")
    dataset = read_parquet(folder / "dataset")
    bundle = fit(
        dataset,
        settings.learner,
        progress=lambda _done, _total, fitted: settings.tell(progress, "fitting", fitted),
    )
    bundle.save(folder / "bundle")
    ends["fit"] = settings.spent_s()
    finish = _Finish(
        settings, installation, target, backend, progress, folder, dataset, bundle, ends
    )
    return finish.run(report)


def _measure(
    settings: Settings, backend: NativeBackend, folder: Path, progress: Progress
) -> CampaignReport:
    campaign = settings.campaign.changed(total_s=settings.measuring_s())
    return run_campaign(
        campaign,
        backend,
        folder,
        seed=settings.seed,
        resume=False,
        progress=lambda s: settings.tell(progress, "measuring", under_way(s), cells_done(s)),
    )


@dataclass
class _Finish:
    """From the bundle to the result; ``ends`` are the times at which the phases ended."""

    settings: Settings
    installation: Installation
    target: Target
    backend: NativeBackend
    progress: Progress
    folder: Path
    dataset: PerformanceDataset
    bundle: Bundle
    ends: dict[str, float]

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
        selector = selector_for(self.bundle, self.target)
        self._tell("watching", "which algorithms run by default")
        tracer, notes = self._tracer()
        default_seen = self._watch({}, tracer)
        predicted = table_for(selector, self.shape, self.target)
        table = self._without_same(predicted, default_seen)
        written = self._write(table)
        self._prepare_drawing()
        self.ends["prepare"] = self.settings.spent_s()
        alternation = self._alternate(written)
        self.ends["verify"] = self.settings.spent_s()
        verdicts = self._judge(table, alternation)
        kept = self._replaced(table, [(v.collective, v.interval) for v in verdicts])
        written = self._write(kept)
        self._tell("watching", "which algorithms run with the file")
        tuned_seen = self._watch(written.environment, tracer)
        self.ends["watch"] = self.settings.spent_s()
        rows = self._rows(selector, verdicts, alternation, default_seen, tuned_seen)
        self._tell("drawing")
        picture = self._draw(kept)
        self.ends["picture"] = self.settings.spent_s()
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
            timed_s=report.timed_s + alternation.timed_s,
            phases_s=_durations(self.ends),
            notes=(*notes, *written.written.notes, *self._user_settings(written)),
        )

    def _tell(self, what: str, now: str = "") -> None:
        self.settings.tell(self.progress, what, now)

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

    def _alternate(self, written: WrittenConfiguration) -> verify.Alternation:
        instances = [
            instance
            for collective, interval in self._whole(written.table)
            if not interval.configuration.is_default
            for instance in self._grid(collective, interval)
        ]
        self._tell("verifying", _ALTERNATING)
        budget_s = self.settings.left_s() - _REPORT_S
        return verify.alternate(
            self.backend,
            self.shape,
            instances,
            written.environment,
            budget_s,
            lambda _spent_s: self._tell("verifying", _ALTERNATING),
        )

    def _judge(self, table: DecisionTable, alternation: verify.Alternation) -> list[Verdict]:
        return [
            verdict
            for collective, interval in self._whole(table)
            for verdict in judge(
                collective, interval, self._grid(collective, interval), alternation
            )
        ]

    def _replaced(
        self, table: DecisionTable, found: Sequence[tuple[Collective, Interval]]
    ) -> DecisionTable:
        """Return the table with other intervals for the whole job's communicator."""
        rules = dict(table.rules)
        for collective in {collective for collective, _ in found}:
            own = (interval for c, interval in found if c == collective)
            rules[collective, self.shape.nprocs] = merged(own)
        return replace(table, rules=rules)

    def _prepare_drawing(self) -> None:
        from colltune.plots import tuned

        tuned.prepare()

    def _draw(self, kept: DecisionTable) -> Path:
        from colltune.plots.saving import saved
        from colltune.plots.tuned import runtimes

        figure = runtimes(self.dataset, kept, self.shape)
        return saved(figure, self.folder / "runtimes.png")

    def _tracer(self) -> tuple[Path | None, tuple[str, ...]]:
        """Return the call tracer, or None and a note why there is none."""
        try:
            return trace.build(self.installation, cache_folder()), ()
        except ColltuneError as error:
            return None, (f"which algorithm ran could not be looked at: {error}",)

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
        found: list[tuple[Collective, Interval]] = []
        for collective, interval in self._whole(table):
            chosen, instances = interval.configuration, self._grid(collective, interval)
            expected = self.mpi.expected_symbols(self.release, chosen)
            same = [i for i in instances if default_seen.get(i) in expected]
            # with parameters, the same algorithm can still run in another way
            certain = () if chosen.parameters else same
            parts = without_same(collective, interval, instances, certain)
            found += [(collective, part) for part in parts]
        return self._replaced(table, found)

    def _rows(
        self,
        selector: ModelSelector,
        verdicts: list[Verdict],
        alternation: verify.Alternation,
        default_seen: Mapping[Instance, str],
        tuned_seen: Mapping[Instance, str],
    ) -> list[Row]:
        names = _names(self.mpi, self.release, self.bundle.collectives)
        rows = []
        for verdict in verdicts:
            instances = self._grid(verdict.collective, verdict.interval)
            default_names = [names.get(default_seen.get(i, ""), "") for i in instances]
            chosen = verdict.withdrawn or verdict.interval.configuration
            rows.append(
                Row(
                    verdict.collective,
                    verdict.interval,
                    tuple(dict.fromkeys(name for name in default_names if name)),
                    None if chosen.is_default else _predicted_gain(selector, instances),
                    alternation.gain(instances),
                    self._in_effect(verdict.interval, instances, tuned_seen),
                    verdict.withdrawn,
                )
            )
        return rows

    def _in_effect(
        self, interval: Interval, instances: list[Instance], seen: Mapping[Instance, str]
    ) -> bool | None:
        if interval.configuration.is_default or not instances or not seen:
            return None
        expected = self.mpi.expected_symbols(self.release, interval.configuration)
        return all(seen.get(instance) in expected for instance in instances)


def _predicted_gain(selector: ModelSelector, instances: list[Instance]) -> float | None:
    if not instances:
        return None
    gains = [selection.gain for selection in selector.select_many(instances)]
    return math.exp(sum(map(math.log, gains)) / len(gains))


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
