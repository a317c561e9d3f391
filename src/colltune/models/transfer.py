"""Learning for a machine from measurements of other machines: a corpus of priors.

Measurements of different contexts are never joined, and they are not here either: a prior stays
apart from what was measured on the machine itself, and a bundle that rests on one says so. Its
configurations are matched by collective, algorithm and parameters; releases of one library may
differ, libraries only if asked for, since equal names there need not be equal algorithms.

What a configuration loses against the best (its log regret) carries over from machine to machine;
times do not, and neither do all regrets. So the corpus is not pooled with the machine's own cells:

1. A model of the corpus predicts the regrets of the cells measured here. *Trust* is the slope of
   the measured ones on the predicted ones, between 0 and 1: all collectives together decide first,
   then each by itself, drawn to what all say. Without cells here it is how machines of the corpus
   predict each other, drawn to 0.6: Leonardo and MareNostrum 5 (Open MPI 4.1) predict each other
   with slopes of 0.60 and 0.76, Fugaku both with 0.63 and 0.42.
2. The corpus's regrets times the trust, plus the differences measured here, interpolated by a
   Gaussian process (kriging), are what the corpus says of this machine. Distrust thus shrinks
   predicted gains, and the guard keeps the default; a corpus that contradicts what was measured
   here is worth nothing and says nothing.
3. A learner is fitted to these rows and those measured here.

Configurations seen at a single shape of the corpus are left out: what they do elsewhere is unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from colltune.dataset import PerformanceDataset, read
from colltune.dataset.method import alike, methods, worth_telling
from colltune.dataset.objective import DEFAULT_OBJECTIVE, Objective
from colltune.dataset.parquet import read_launch_provenances
from colltune.domain import Collective, Context
from colltune.errors import say
from colltune.features import feature_set
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix, cell_matrices, shapes_measured, stacked
from colltune.models.collective_model import CollectiveModel, Coverage
from colltune.models.error_model import Agreement
from colltune.models.fitting import Progress, fit, fit_cells
from colltune.models.gaussian_process import known_alike, radial
from colltune.models.learners import AUTO, PREFERRED, fitted, learner_entry

Numbers = NDArray[np.float64]
_CONTEXT_FIELDS = ("machine", "library", "library_version", "fabric")
_LEAST_SHAPES = 2
TRUST = 0.6
"""How far machines that were never compared are trusted to predict each other."""
_CLIP = 1.0
_FAR_OCTAVES = 1.0
_LEAST_SPREAD = float(np.log(2.0))
_REGRETS_IN_COMMON, _LEVEL_IN_COMMON = 0.3, 10.0
_LENGTHS = np.array((3.0, 1.5, 1.5))
"""Octaves of message size, nodes and processes per node over which a difference persists."""
NOISE = 0.3
"""Variance of what a single cell says, in units of the process's variance."""
_MOST_POINTS = 600


@dataclass(frozen=True, eq=False)
class FitInputs:
    """Own measurements, None if the machine was never measured, and those of others.

    ``methods`` tells by which methods the own ones were measured, if not by the one asked for.
    """

    own: PerformanceDataset | None
    priors: tuple[PerformanceDataset, ...]
    context: Context
    any_library: bool = False
    methods: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(  # noqa: PLR0913
        cls,
        data: Sequence[Path],
        where: Mapping[str, str],
        priors: Sequence[Path],
        prior_where: Mapping[str, str],
        for_: str | None,
        *,
        any_library: bool = False,
        method: str | None = None,
        read: Callable[[Sequence[Path], Mapping[str, str]], PerformanceDataset] = read,
    ) -> FitInputs:
        """Read the datasets that the options of `colltune fit` name, by `read`."""
        if data and for_ is not None:
            raise say("for-with-data")
        if not data and (for_ is None or not priors):
            raise say("no-data")
        others = tuple(
            alike(read([path], prior_where), read_launch_provenances([path]), method, str(path))
            for path in priors
        )
        if for_ is None:
            known = read_launch_provenances(data)
            own = alike(read(data, where), known, method, "the data")
            kept = own.frame["launch"].astype(str).unique()
            ways = worth_telling(methods(known[name] for name in kept if name in known))
            return cls(own, others, own.context, any_library, ways)
        return cls(None, others, _described(for_, [d.context for d in others]), any_library)

    @property
    def n_measurements(self) -> int:
        return 0 if self.own is None else len(self.own)

    def fit(
        self, learner: str, objective: Objective, *, jobs: int | None, progress: Progress | None
    ) -> Bundle:
        bundle = self._fit(learner, objective, jobs=jobs, progress=progress)
        return bundle.with_evidence(methods=dict(self.methods)) if self.methods else bundle

    def _fit(
        self, learner: str, objective: Objective, *, jobs: int | None, progress: Progress | None
    ) -> Bundle:
        if self.own is not None and not self.priors:
            return fit(self.own, learner, objective=objective, jobs=jobs, progress=progress)
        return fit_with_priors(
            self.own,
            self.priors,
            self.context,
            learner,
            objective=objective,
            any_library=self.any_library,
            jobs=jobs,
            progress=progress,
        )


def _described(text: str, others: Sequence[Context]) -> Context:
    """Return the context that ``machine=NAME,library_version=…`` describes.

    The library and its release are those of `others` unless named; the fabric is unknown then.
    """
    named: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in _CONTEXT_FIELDS or key in named or not value:
            known = ", ".join(f"{k}=…" for k in _CONTEXT_FIELDS)
            raise say("for-unknown-key", value=text, part=part, known=known)
        named[key] = value
    if "machine" not in named:
        raise say("machine-not-named", value=text)
    for key in ("library", "library_version"):
        values = sorted({str(getattr(context, key)) for context in others})
        if key not in named and len(values) > 1:
            raise say("priors-differ", value=text, key=key, values=", ".join(values))
        named.setdefault(key, values[0])
    return Context(**named)


@dataclass(frozen=True, eq=False)
class Prior:
    """The cells of another machine, under the names of the library they are used for.

    ``digest`` is the SHA-256 of its cells, ``n_measurements`` how many rows they come from.
    """

    context: Context
    cells: dict[Collective, CellMatrix]
    digest: str
    n_measurements: int

    @classmethod
    def of(
        cls,
        dataset: PerformanceDataset,
        context: Context,
        objective: Objective = DEFAULT_OBJECTIVE,
        *,
        any_library: bool = False,
    ) -> Prior:
        """Return the `objective` of the times of `dataset` as a prior of `context`."""
        other = dataset.context
        if other == context:
            raise say("prior-is-data", context=context)
        if other.library != context.library and not any_library:
            raise say("prior-of-another-library", other=other, wanted=context.library)
        matrices = cell_matrices(dataset, objective)
        if not matrices:
            raise say("nothing-usable", what=f"the prior ({other})")
        for collective, cells in matrices.items():
            names = tuple(replace(c, library=context.library) for c in cells.configurations)
            matrices[collective] = replace(cells, configurations=names)
        # of the context and of what `PerformanceDataset.cells` says
        text = repr(sorted(vars(other).items())) + dataset.cells().to_csv(index=False)
        return cls(other, matrices, hashlib.sha256(text.encode()).hexdigest(), len(dataset))

    def facts(self) -> dict[str, Any]:
        """Return where it comes from, JSON-able."""
        return {
            "context": dict(vars(self.context)),
            "sha256": self.digest,
            "measurements": self.n_measurements,
            "shapes": [[s.nodes, s.ppn] for s in shapes_measured(self.cells.values())],
        }


def corpus(priors: Sequence[Prior], collective: Collective) -> tuple[tuple[CellMatrix, ...], str]:
    """Return what `priors` know of `collective`, one matrix per machine, or why it is of no use.

    All matrices have the same configurations: those measured at two shapes or more, on whichever
    machines, since a single shape tells nothing of scaling. The reason is empty if there are any.
    """
    found = [prior.cells[collective] for prior in priors if collective in prior.cells]
    if not found:
        return (), "no prior has it"
    configurations = sorted({c for cells in found for c in cells.configurations})
    aligned = [cells.with_configurations(configurations) for cells in found]
    all_cells = stacked(aligned)
    known = [
        c
        for c, seen in zip(configurations, np.isfinite(all_cells.time_s).T, strict=True)
        if len(shapes_measured([all_cells.rows(seen)])) >= _LEAST_SHAPES
    ]
    if not any(c.is_default for c in known):
        if any(c.is_default for c in configurations):
            return (), "the priors measured the default on one shape only"
        return (), "no prior measured the default"
    if len(known) < 2:
        return (), "the priors measured only the default on two shapes or more"
    kept = [cells.with_configurations(known) for cells in aligned]
    return tuple(cells for cells in kept if len(cells)), ""


def _corpus_time_s(corpus: CellMatrix, *asked: CellMatrix) -> list[Numbers]:
    """Return the seconds that the corpus's machines would take for instances, each (n, C).

    NaN where the corpus knows nothing. At least one configuration of it must have a time.
    """
    known = np.asarray(np.isfinite(corpus.time_s).any(axis=0))
    seen = [c for c, its in zip(corpus.configurations, known, strict=True) if its]
    predictor = fitted(corpus.with_configurations(seen), PREFERRED).predictor
    features = feature_set(learner_entry(PREFERRED).feature_set)
    found = []
    for at in asked:
        time_s = np.full((len(at), len(known)), np.nan)
        if len(at):
            matrix = features.matrix(at.nodes, at.ppn, at.msize_bytes)
            time_s[:, known] = predictor.predict(matrix)
        found.append(time_s)
    return found


def fit_with_priors(  # noqa: PLR0913
    dataset: PerformanceDataset | None,
    priors: Sequence[PerformanceDataset],
    context: Context,
    learner: str = AUTO,
    *,
    objective: Objective = DEFAULT_OBJECTIVE,
    any_library: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Fit a bundle for `context` from its measurements, if there are any, and those of others.

    With `any_library` priors of other libraries are taken, their algorithms matched by name; the
    rest is as for `colltune.models.fitting.fit`. The bundle's ``evidence["transfer"]`` names the
    priors, how far each collective's are trusted, and why collectives were left out. Instances
    outside what was measured here count as extrapolated: all of them, if nothing was.
    """
    found = [Prior.of(prior, context, objective, any_library=any_library) for prior in priors]
    measured = {} if dataset is None else cell_matrices(dataset, objective)
    machines, left_out = _usable(found, measured)
    trust = _trust(machines, measured)
    matrices = dict(measured)
    for collective, cells in machines.items():
        matrices[collective] = _pooled(cells, measured.get(collective), trust[collective])
    ordered = {c: matrices[c] for c in sorted(matrices)}
    bundle = fit_cells(context, ordered, learner, jobs=jobs, progress=progress)
    models = [_marked(m, measured) if m.collective in machines else m for m in bundle.models]
    facts = {
        "measured_here": dataset is not None,
        "priors": [prior.facts() for prior in found],
        "trust": {c.value: round(t, 4) for c, t in trust.items()},
        "left_out": {c.value: why for c, why in left_out.items()},
    }
    return Bundle.new(
        context,
        models,
        shapes_measured(measured.values()),
        objective=bundle.objective,
        evidence={**bundle.evidence, "transfer": facts},
    )


def _usable(
    priors: Sequence[Prior], measured: Mapping[Collective, CellMatrix]
) -> tuple[dict[Collective, tuple[CellMatrix, ...]], dict[Collective, str]]:
    """Return the corpus of each collective, and why there is none of others."""
    machines, left_out = {}, {}
    for collective in sorted({c for prior in priors for c in prior.cells}):
        found, why = corpus(priors, collective)
        here = measured.get(collective)
        compared = set(found[0].configurations) & set(here.configurations) if found and here else ()
        if found and here is not None and all(c.is_default for c in compared):
            why = "the priors and the measurements share no configuration but the default"
        if why:
            left_out[collective] = why
        else:
            machines[collective] = found
    if not machines:
        reasons = "; ".join(f"{c}: {why}" for c, why in left_out.items())
        raise say("nothing-from-priors", reasons=reasons)
    return machines, left_out


def _trust(
    machines: Mapping[Collective, Sequence[CellMatrix]], measured: Mapping[Collective, CellMatrix]
) -> dict[Collective, float]:
    """Return by collective how far the corpus is trusted; see the top of this module."""
    among = {c: _agreement_among(cells) for c, cells in machines.items()}
    overall = Agreement.together(list(among.values())).trust(TRUST)
    here = {
        c: _agreement_with(stacked(cells), measured[c])
        for c, cells in machines.items()
        if c in measured
    }
    ours = Agreement.together(list(here.values())).trust(overall)
    ratio = ours / overall if overall > 0 else 1.0
    return {c: here.get(c, Agreement()).trust(among[c].trust(overall) * ratio) for c in machines}


def _agreement_among(machines: Sequence[CellMatrix]) -> Agreement:
    """Return how the machines' regrets follow from those of the others, one left out in turn."""
    if len(machines) < 2:
        return Agreement()
    others = [stacked([*machines[:k], *machines[k + 1 :]]) for k in range(len(machines))]
    return Agreement.together(list(map(_agreement_with, others, machines)))


def _agreement_with(cells: CellMatrix, measured: CellMatrix) -> Agreement:
    aligned = measured.with_configurations(cells.configurations)
    if not len(aligned):
        return Agreement()
    (predicted_s,) = _corpus_time_s(cells, aligned)
    return Agreement.of(_regret(predicted_s), _regret(aligned.time_s))


def _regret(time_s: Numbers) -> Numbers:
    """Return clipped log regrets of times (n, C); every row has a time."""
    best = np.nanmin(time_s, axis=1, keepdims=True)
    return np.asarray(np.minimum(np.log(time_s / best), _CLIP))


def _pooled(machines: Sequence[CellMatrix], here: CellMatrix | None, trust: float) -> CellMatrix:
    """Return the rows that a learner is fitted to: the corpus's, adapted, and those from here."""
    cells = stacked(machines)
    if here is None:
        return replace(cells, time_s=_shrunk(cells.time_s, trust))
    known = sorted({*cells.configurations, *here.configurations})
    cells, here = (c.with_configurations(known) for c in (cells, here))
    further = _other_sizes(here, cells)
    predicted_s, further_s = _corpus_time_s(cells, here, further)
    cells = stacked([cells, replace(further, time_s=further_s)])
    return stacked([here, _adapted(cells, here, predicted_s, trust)])


def _other_sizes(here: CellMatrix, cells: CellMatrix) -> CellMatrix:
    """Return the shapes measured here with the corpus's sizes far from those measured, untimed.

    Otherwise a single message size measured at a shape would speak for all others there.
    """
    sizes = np.unique(cells.msize_bytes)
    instances = []
    for nodes, ppn in sorted(set(zip(here.nodes.tolist(), here.ppn.tolist(), strict=True))):
        measured = here.msize_bytes[(here.nodes == nodes) & (here.ppn == ppn)]
        apart = np.abs(np.log2(np.maximum(sizes, 1))[:, None] - np.log2(np.maximum(measured, 1)))
        far = sizes[apart.min(axis=1) >= _FAR_OCTAVES]
        instances += [(nodes, ppn, size) for size in far.tolist()]
    nodes, ppn, msize_bytes = np.array(instances, np.int64).reshape(-1, 3).T
    empty = np.zeros((len(nodes), len(cells.configurations)), np.bool_)
    untimed = empty.astype(np.float64)
    return CellMatrix(
        cells.collective,
        cells.configurations,
        nodes,
        ppn,
        msize_bytes,
        untimed,
        empty,
        cells.objective,
        cells.noise,
    )


def _shrunk(time_s: Numbers, trust: float) -> Numbers:
    """Return times (n, C) with log regrets multiplied by `trust`."""
    best = np.nanmin(time_s, axis=1, keepdims=True)
    return np.asarray(best * (time_s / best) ** trust)


def _adapted(cells: CellMatrix, here: CellMatrix, predicted_s: Numbers, trust: float) -> CellMatrix:
    """Return the corpus's rows as they would be on this machine.

    Log regrets are shrunk by the trust, and both they and the level of the times, the best of each
    row, are moved by what they were found to differ by at the instances measured here.
    """
    differing = _regret(here.time_s) - trust * np.nan_to_num(_regret(predicted_s))
    level = np.log(np.nanmin(here.time_s, axis=1) / np.nanmin(predicted_s, axis=1))[:, None]
    regret = interpolated(here, differing, cells, common=_REGRETS_IN_COMMON)
    moved = interpolated(here, level, cells, common=_LEVEL_IN_COMMON)
    return replace(cells, time_s=_shrunk(cells.time_s, trust) * np.exp(regret + moved))


def interpolated(found: CellMatrix, differences: Numbers, at: CellMatrix, common: float) -> Numbers:
    """Return what `differences` at the n instances found suggest at m others, shape (m, K).

    The mean of a Gaussian process around zero with a Matérn 5/2 kernel over the logarithms of
    message size, nodes and processes per node, and a part `common` to all instances, a variance in
    units of that of the rest (Rasmussen and Williams, *Gaussian Processes for Machine Learning*,
    2006, sec. 2.2 and 4.2). Differences (n, K) are NaN where unknown; of more than 600 instances
    evenly chosen ones are used. Columns of which nothing is known are zero.
    """
    rows = np.unique(np.linspace(0, len(found) - 1, min(len(found), _MOST_POINTS)).astype(np.int64))
    places = [
        feature_set("log").matrix(c.nodes, c.ppn, c.msize_bytes) / _LENGTHS for c in (found, at)
    ]
    points, values = places[0][rows], differences[rows]
    among = radial(points, points) + common + NOISE * np.eye(len(points))
    towards = radial(places[1], points) + common
    result = np.zeros((len(at), values.shape[1]))
    for seen, columns in known_alike(np.isfinite(values)):
        factor = cho_factor(among[np.ix_(seen, seen)], lower=True)
        result[:, columns] = towards[:, seen] @ cho_solve(factor, values[np.ix_(seen, columns)])
    return result


def _marked(model: CollectiveModel, measured: Mapping[Collective, CellMatrix]) -> CollectiveModel:
    """Return `model` knowing what of its data was measured here, and no surer than that allows."""
    here = measured.get(model.collective)
    error = model.error
    return replace(
        model,
        coverage=model.coverage.borrowed(None if here is None else Coverage.of(here)),
        error=error._replace(
            lower=np.minimum(error.lower, -_LEAST_SPREAD),
            upper=np.maximum(error.upper, _LEAST_SPREAD),
        ),
    )
