"""The selector over fitted models: the fastest predicted candidate, with the default as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colltune.decisions import AS_MEASURED, Candidate, Prediction, Selection, Status
from colltune.domain import Collective, Configuration, Context, Instance, Shape
from colltune.errors import LibraryError, say
from colltune.models.bundle import Bundle
from colltune.models.collective_model import CollectiveModel, Forecast
from colltune.models.guard import Guard, allowed, trust_in
from colltune.models.learners import distinct
from colltune.mpi.running import EVERYWHERE, Promises, Refusal, RunningRange

if TYPE_CHECKING:
    from colltune.mpi.programs import Programs

Runs = Callable[[Configuration, Sequence[Shape]], Sequence[RunningRange]]
"""Tells where a configuration may run on each of several shapes; see `Release.runs_at`."""
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
_RUNNERS_UP = 3
_BORROWED = "; judged by other machines' measurements"
_NO_DOUBT = 1.005
_MOST_ASKED = 10.0
_NEVER = np.iinfo(np.int64).max
_NO_BITS = "which bits reductions give is not known of this library"


class Decisions(NamedTuple):
    """Choices for n instances of one collective.

    ``chosen`` (n) are columns of `ModelSelector.portfolio`; ``fastest`` (n) what would be chosen
    without a guard, -1 where nothing runs that is known; ``rank_s`` (n, C) the predicted times that
    were compared, infinite where a configuration must not be chosen; ``required`` (n, C) the log
    gain the guard asked for; ``doubt`` (n, C) by how much predicted log gains may be too high,
    noise included; ``beyond`` (n) where an instance is too far from what was measured; ``trust``
    how far predicted log gains are trusted, 0: the collective is left to the library as a
    whole; ``confirmation`` (n) which of the bundle's confirmations decides, -1 where none does.
    """

    chosen: Integers
    fastest: Integers
    rank_s: Numbers
    required: Numbers
    doubt: Numbers
    beyond: Flags
    trust: float
    forecast: Forecast
    confirmation: Integers

    def allowed(self, default: int | None) -> Flags:
        """Return what the guard lets be chosen instead of the column `default`, (n, C)."""
        if default is None:
            return np.isfinite(self.rank_s) & ~self.beyond[:, None]
        return _allowed(self.forecast, self.rank_s, self.required, self.beyond, default)

    def bounds(self, default: int | None) -> Numbers:
        """Return the lower bounds of n gains over the column `default`, by what is predicted.

        Of what is chosen, or would be without a guard; NaN where no gain is predicted.
        """
        if default is None:
            return np.full(len(self.chosen), np.nan)
        column = np.where(self.chosen == default, self.fastest, self.chosen)
        rows = np.arange(len(column))
        time_s = self.forecast.time_s
        with np.errstate(over="ignore"):
            told = time_s[:, default] / time_s[rows, column] / np.exp(self.doubt[rows, column])
        return np.where((column == default) | (column < 0), np.nan, told)


def _allowed(
    forecast: Forecast, rank_s: Numbers, required: Numbers, beyond: Flags, default: int
) -> Flags:
    with np.errstate(invalid="ignore"):
        gain = np.log(forecast.time_s[:, [default]]) - np.log(rank_s)
    return allowed(gain, required, beyond)


def no_models(collective: Collective) -> str:
    """Return why the default of a collective is kept that a bundle has no models of."""
    return f"default kept: the bundle has no models of {collective}; measure it and fit again"


class ModelSelector:
    """Chooses by predicted runtime; see `colltune.models.guard` for when the default is kept.

    Parameters
    ----------
    bundle
        Fitted models.
    guard
        Whether the default is kept unless the predicted gain is beyond the model's error; a `Guard`
        sets its own limits.
    runs
        Tells from which message size on a configuration may run on a shape at all; asked once for
        each shape. The default always may, and without it whatever was measured.
    cores
        Those of a node of the job. What was measured on shared cores is chosen only where there are
        more processes than cores.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        guard: bool | Guard = True,
        runs: Runs | None = None,
        cores: int = AS_MEASURED,
    ) -> None:
        self.bundle = bundle
        self._cores = cores if bundle.context.cores_shared else AS_MEASURED
        self.guard = Guard() if guard is True else guard or None
        self._runs = runs
        self._least: dict[Collective, dict[Shape, Integers]] = {}
        self._parts: dict[tuple[Collective, Shape], dict[int, RunningRange]] = {}

    def select(self, instance: Instance) -> Selection:
        """Return the selection for `instance`.

        The default is kept, with that reason, where the bundle has no models of the collective.

        Raises
        ------
        BundleError
            If a model predicts no number.
        """
        return self.select_many([instance])[0]

    def select_many(self, instances: Sequence[Instance]) -> list[Selection]:
        """Return the selections for `instances`, in order; see `select`."""
        result: dict[int, Selection] = {}
        for collective in dict.fromkeys(i.collective for i in instances):
            rows = [k for k, i in enumerate(instances) if i.collective is collective]
            asked = [instances[k] for k in rows]
            if collective not in self.bundle.collectives:
                default, why = self.default(collective), no_models(collective)
                found = [Selection(i, default, None, None, (), True, why) for i in asked]
            else:
                nodes, ppn = ([getattr(i.shape, name) for i in asked] for name in ("nodes", "ppn"))
                decisions = self.decide(collective, nodes, ppn, [i.msize_bytes for i in asked])
                described = _Descriptions(self, collective, decisions)
                found = [described.selection(at, i) for at, i in enumerate(asked)]
            result |= dict(zip(rows, found, strict=True))
        return [result[k] for k in range(len(instances))]

    def unguarded(self) -> ModelSelector:
        """Return what chooses among the same configurations without a guard."""
        other = copy(self)
        other.guard = None
        return other

    def why_kept(self, shape: Shape) -> str:
        """Return why nothing is decided on `shape`; empty if it is."""
        if shape.ppn > self._cores:
            return ""
        return (
            f"default kept: measured on shared cores ({self.bundle.context.cores_shared}), which "
            "says nothing about jobs whose processes have a core each; measure where they have, "
            "or name --cores where the job shares them"
        )

    def portfolio(self, collective: Collective) -> tuple[Configuration, ...]:
        """Return what can be chosen; the default is a member even if it was not measured."""
        model = self.bundle.model(collective)
        if model.default_column is not None:
            return model.configurations
        return (*model.configurations, self.default(collective))

    def default(self, collective: Collective) -> Configuration:
        """Return the configuration that stands for the library's own decision."""
        return Configuration.default(self.bundle.context.library, collective)

    def decide(
        self, collective: Collective, nodes: ArrayLike, ppn: ArrayLike, msize_bytes: ArrayLike
    ) -> Decisions:
        """Choose for n instances given as vectors, without describing the choices.

        `nodes`, `ppn` and `msize_bytes` have the shape (n).

        Raises
        ------
        BundleError
            If the bundle has no models of the collective, or a model predicts no number.
        """
        model = self.bundle.model(collective)
        vectors = [np.atleast_1d(np.asarray(v, np.int64)) for v in (nodes, ppn, msize_bytes)]
        forecast = model.forecast(*vectors)
        rank_s = self._ranked(model, forecast, vectors)
        limits = self.guard or Guard()
        doubt = np.maximum(limits.caution * forecast.doubt, forecast.noise[:, None])
        required, beyond = np.full(rank_s.shape, -np.inf), np.zeros(len(rank_s), np.bool_)
        trust = 1.0
        if self.guard is not None:
            trust = trust_in(self.bundle.held_out(collective))
            required = self.guard.required_log_gain(forecast.doubt, forecast.noise, trust)
            beyond = forecast.far
        default = model.default_column
        fastest = _argmin(rank_s)
        if default is None:
            chosen = np.where((fastest < 0) | beyond, len(model.configurations), fastest)
        else:
            follows = _allowed(forecast, rank_s, required, beyond, default)
            follows[:, default] = True
            chosen = _argmin(np.where(follows, rank_s, np.inf))
        confirmation = np.full(len(chosen), -1)
        for k, column, rows in self._confirmed(collective, vectors):
            confirmation[rows], chosen = k, np.where(rows, column, chosen)
        if self._cores:
            kept = np.broadcast_to(vectors[1] <= self._cores, chosen.shape)
            own = len(model.configurations) if default is None else default
            confirmation[kept], chosen = -1, np.where(kept, own, chosen)
        told = (required, doubt, beyond, trust)
        return Decisions(chosen, fastest, rank_s, *told, forecast, confirmation)

    def _confirmed(
        self, collective: Collective, instances: Sequence[Integers]
    ) -> Iterator[tuple[int, int, Flags]]:
        """Yield which of the bundle's confirmations decides for which rows, with its column."""
        nodes, ppn, msize_bytes = np.broadcast_arrays(*instances)
        portfolio = self.portfolio(collective)
        for k, one in enumerate(self.bundle.confirmations):
            if one.collective is not collective or one.configuration not in portfolio:
                continue
            rows = (nodes == one.shape.nodes) & (ppn == one.shape.ppn) & one.holds(msize_bytes)
            rows &= holds(self.runs(one.configuration, [one.shape])[0], msize_bytes)
            if rows.any():
                yield k, portfolio.index(one.configuration), rows

    def _ranked(
        self, model: CollectiveModel, forecast: Forecast, instances: Sequence[Integers]
    ) -> Numbers:
        wrong = ~np.isfinite(forecast.time_s) & forecast.candidate
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            name, time_s = model.configurations[column].id, forecast.time_s[row, column]
            raise say("no-prediction", configuration=name, time_s=time_s)
        usable = forecast.candidate
        if self._runs is not None:
            nodes, ppn, msize_bytes = np.broadcast_arrays(*instances)
            usable = usable & (msize_bytes[:, None] >= self._least_msize(model, nodes, ppn))
            self._cut(model, (nodes, ppn, msize_bytes), usable)
        return np.where(usable, forecast.time_s, np.inf)

    def _least_msize(self, model: CollectiveModel, nodes: Integers, ppn: Integers) -> Integers:
        """Return the smallest message of each configuration on n shapes, (n, C)."""
        (node_counts, n), (ppns, p) = distinct(nodes), distinct(ppn)
        codes, at = distinct(n * len(ppns) + p)
        places = (divmod(code, len(ppns)) for code in codes.tolist())
        shapes = [Shape(int(node_counts[n]), int(ppns[p])) for n, p in places]
        known = self._least.setdefault(model.collective, {})
        if new := [shape for shape in shapes if shape not in known]:
            found = [self.runs(configuration, new) for configuration in model.configurations]
            for shape, column in zip(new, zip(*found, strict=True), strict=True):
                least = [_NEVER if r.first_bytes is None else r.first_bytes for r in column]
                known[shape] = np.array(least)
                parts = {k: r for k, r in enumerate(column) if r.parts is not None}
                if parts:
                    self._parts[model.collective, shape] = parts
        return np.stack([known[shape] for shape in shapes])[at]

    def _cut(self, model: CollectiveModel, instances: Sequence[Integers], usable: Flags) -> None:
        """Clear in `usable` (n, C) the sizes between the ranges in which a configuration runs."""
        nodes, ppn, msize_bytes = instances
        for (collective, shape), parts in self._parts.items():
            if collective is not model.collective:
                continue
            rows = np.flatnonzero((nodes == shape.nodes) & (ppn == shape.ppn))
            for column, runs in parts.items():
                usable[rows, column] &= holds(runs, msize_bytes[rows])

    def runs(self, configuration: Configuration, shapes: Sequence[Shape]) -> Sequence[RunningRange]:
        """Return from which message size on `configuration` may run on each shape, or why not."""
        if configuration.is_default or self._runs is None:
            return [EVERYWHERE] * len(shapes)
        return self._runs(configuration, shapes)


def legal_selector(
    bundle: Bundle,
    programs: Programs,
    *,
    guard: bool | Guard = True,
    cores: int = AS_MEASURED,
) -> ModelSelector:
    """Return the selector among what harms none of `programs`, for whatever file.

    What is not in the catalogue of the bundle's library, if there is one, nobody can judge. `guard`
    and `cores` are as for `ModelSelector`.
    """

    def runs(configuration: Configuration, shapes: Sequence[Shape]) -> Sequence[RunningRange]:
        return legal_runs(bundle.context, configuration, shapes, programs)

    return ModelSelector(bundle, guard=guard, runs=runs, cores=cores)


def legal_runs(
    context: Context, configuration: Configuration, shapes: Sequence[Shape], programs: Programs
) -> Sequence[RunningRange]:
    """Return where what was measured in `context` harms none of `programs`, as far as is known."""
    from colltune.mpi.programs import FOR_TWO, harms_of

    everywhere = [EVERYWHERE] * len(shapes)
    known = harms_of(configuration, context.library_version)
    if why := known.sentence(programs):
        return [RunningRange(None, why, Refusal.HARMS_PROGRAMS)] * len(shapes)
    same_bits = Promises(programs).same_bits and configuration.collective.reduces
    # a catalogue takes long to read
    if known.is_known and configuration.algorithm != FOR_TWO and not same_bits:
        return everywhere
    from colltune.mpi import LIBRARIES

    unknown = RunningRange(None, _NO_BITS, Refusal.OTHER_BITS) if same_bits else EVERYWHERE
    if context.library not in LIBRARIES:
        return [unknown] * len(shapes)
    from colltune.mpi.libcolltune.library import with_libcolltune

    try:
        bound = with_libcolltune(LIBRARIES[context.library]).at(context.library_version)
    except LibraryError:
        return [unknown] * len(shapes)
    found = bound.runs_at(configuration, shapes, Promises(programs))
    if same_bits:
        return found
    return [r if r.refusal is Refusal.HARMS_PROGRAMS else EVERYWHERE for r in found]


def _argmin(rank_s: Numbers) -> Integers:
    """Return the fastest column per row, -1 where all are infinite."""
    best = rank_s.argmin(axis=1)
    nothing = ~np.isfinite(rank_s[np.arange(len(best)), best])
    return np.where(nothing, -1, best)


def holds(runs: RunningRange, msize_bytes: Integers) -> Flags:
    """Tell for which sizes a configuration runs."""
    if runs.first_bytes is None:
        return np.zeros(msize_bytes.shape, np.bool_)
    found = msize_bytes >= runs.first_bytes
    if runs.parts is None:
        return found
    within = [(msize_bytes >= first) & (msize_bytes <= last) for first, last in runs.parts]
    return np.asarray(found & np.any(within, axis=0))


class _Descriptions:
    """Puts decisions into words and domain types."""

    def __init__(
        self, selector: ModelSelector, collective: Collective, decisions: Decisions
    ) -> None:
        self._selector = selector
        self._model = selector.bundle.model(collective)
        self._portfolio = selector.portfolio(collective)
        self._decisions = decisions
        self._order = np.argsort(decisions.rank_s, axis=1, kind="stable").tolist()
        forecast = decisions.forecast
        self._times = [t.tolist() for t in (forecast.time_s, forecast.lower_s, forecast.upper_s)]
        self._rank = decisions.rank_s.tolist()
        self._bounds: list[float] = decisions.bounds(self._model.default_column).tolist()

    def selection(self, row: int, instance: Instance) -> Selection:
        chosen, default = int(self._decisions.chosen[row]), self._model.default_column
        extrapolated = bool(self._decisions.forecast.extrapolated[row])
        number = int(self._decisions.confirmation[row])
        if why := self._selector.why_kept(instance.shape):
            reason, bound, status = why, None, Status.PREDICTED
        elif number >= 0:
            confirmed = self._selector.bundle.confirmations[number]
            reason, bound, status = confirmed.reason, confirmed.lower, confirmed.status
        else:
            reason, status = self._reason(row, chosen, instance), Status.PREDICTED
            if extrapolated and self._model.coverage.own is not None:
                reason += _BORROWED
            bound = None if np.isnan(self._bounds[row]) else self._bounds[row]
        return Selection(
            instance,
            self._portfolio[chosen],
            self._prediction(row, chosen),
            None if default is None else self._prediction(row, default),
            self._runners_up(row, chosen),
            extrapolated,
            reason,
            bound,
            status,
        )

    def _prediction(self, row: int, column: int) -> Prediction | None:
        if column >= len(self._model.configurations):
            return None
        return Prediction(*(times[row][column] for times in self._times))

    def _runners_up(self, row: int, chosen: int) -> tuple[Candidate, ...]:
        found: list[Candidate] = []
        for column in self._order[row]:
            if self._rank[row][column] == np.inf or len(found) == _RUNNERS_UP:
                break
            prediction = self._prediction(row, column)
            if column != chosen and prediction is not None:
                found.append(Candidate(self._portfolio[column], prediction))
        return tuple(found)

    def _reason(self, row: int, chosen: int, instance: Instance) -> str:
        decisions, fastest = self._decisions, int(self._decisions.fastest[row])
        default, shape = self._model.default_column, instance.shape
        if decisions.beyond[row] and decisions.trust > 0:
            return f"default kept: {shape} or the message is far from what was measured"
        if default is None:
            unknown = f"default kept: no configuration is known to run on {shape}"
            return unknown if fastest < 0 else "fastest predicted; the default was not measured"
        if chosen != default:
            return f"predicted {self._gain(row, default, chosen):.2f}x faster than the default"
        return self._why_kept(row, default, fastest, instance)

    def _why_kept(self, row: int, default: int, fastest: int, instance: Instance) -> str:
        decisions = self._decisions
        if decisions.trust <= 0:
            return (
                f"default kept: held-out decisions for {instance.collective} gained nothing of "
                "what was predicted"
            )
        candidate = decisions.forecast.candidate[row]
        if candidate.sum() <= candidate[default]:
            return (
                f"default kept: no other configuration is known to run on {instance.shape} at "
                "this size"
            )
        if fastest == default:
            faster = np.array(self._times[0][row]) < self._times[0][row][default]
            if (candidate & faster & ~np.isfinite(decisions.rank_s[row])).any():
                return "default kept: no configuration that is predicted faster may be used here"
            return "the default is predicted fastest"
        gain = self._gain(row, default, fastest)
        return f"default kept: predicted {gain:.2f}x, {self._short_of(row, fastest, gain)}"

    def _short_of(self, row: int, column: int, gain: float) -> str:
        forecast, required = self._decisions.forecast, self._decisions.required[row, column]
        asked = f"{np.exp(min(required, _MOST_ASKED)):.4g}x"
        if required <= forecast.noise[row]:
            return f"and the measurements cannot tell gains below {asked} from noise"
        trust = self._decisions.trust
        if np.log(gain) > required * trust:
            of = self._model.collective
            return f"of which held-out decisions for {of} reached {trust:.0%} (asked: {asked})"
        doubt = float(np.exp(forecast.doubt[row, column]))
        if doubt < _NO_DOUBT:
            return f"and a gain below {asked} is not worth a change"
        where = "this far outside the measured range " if forecast.extrapolated[row] else ""
        return f"but predictions {where}have been wrong by up to {doubt:.2f}x (asked: {asked})"

    def _gain(self, row: int, default: int, column: int) -> float:
        time_s = self._times[0][row]
        return float(time_s[default] / time_s[column])
