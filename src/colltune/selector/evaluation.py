"""How good decisions are on node counts that were not trained on.

Trained on the rows of the training node counts alone and tested on every instance of the test node
counts whose default was measured. A configuration without a measured time on a test instance cannot
be chosen there: the selector falls to its next best (as does the oracle).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Selection, Selector
from colltune.errors import DataError
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.fitting import fit_cells
from colltune.selector.argmin import ModelSelector
from colltune.selector.baselines import LibraryDefault, SingleBest, VirtualBest

ALL = "all"
_HARM = 1.05
Numbers = NDArray[np.float64]
Matrices = Mapping[Collective, CellMatrix]


@dataclass(frozen=True)
class Score:
    """Figures of one selector on one collective, or on all together.

    Speed-ups are t_default / t_selected, regret is t_selected / t_best;
    ``log_gain_share`` is the log of the geometric-mean speed-up over that of the oracle, None if
    there is nothing to gain; ``slower_share`` is the share of instances more than 5 %
    slower than the default, ``default_share`` that of instances left to it.
    """

    instances: int
    arithmetic_mean_speedup: float
    geometric_mean_speedup: float
    oracle_arithmetic_mean_speedup: float
    oracle_geometric_mean_speedup: float
    log_gain_share: float | None
    mean_regret: float
    p95_regret: float
    slower_share: float
    default_share: float
    fit_s: float
    predict_s: float

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the fields by name."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Evaluation:
    """Scores by selector and collective (or ``all``), with the split they belong to."""

    data: Context
    train_nodes: tuple[int, ...]
    test_nodes: tuple[int, ...]
    guard: bool
    noise: float
    scores: dict[str, dict[str, Score]]

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-able dictionary with stable keys."""
        return {
            "data": str(self.data),
            "train_nodes": list(self.train_nodes),
            "test_nodes": list(self.test_nodes),
            "guard": self.guard,
            "noise": self.noise,
            "selectors": {
                selector: {name: score.as_dict() for name, score in rows.items()}
                for selector, rows in self.scores.items()
            },
        }


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Measured seconds of one selector's choices on one collective's test instances, each (n)."""

    selector: str
    collective: Collective
    selected_s: Numbers
    default_s: Numbers
    best_s: Numbers
    kept: NDArray[np.bool_]
    fit_s: float
    predict_s: float


def evaluate(  # noqa: PLR0913
    dataset: PerformanceDataset,
    *,
    train_nodes: Iterable[int],
    test_nodes: Iterable[int],
    learners: Sequence[str] = ("knn", "gam", "xgboost"),
    guard: bool = True,
    noise: float = 0.0,
    seed: int = 0,
    max_nprocs: int | None = None,
    feature_set: str | None = None,
    jobs: int | None = None,
) -> Evaluation:
    """Compare learners with the default, the single best and the virtual best.

    Parameters
    ----------
    dataset
        The measurements.
    train_nodes, test_nodes
        Node counts; both must be in the data, and none in both.
    learners
        Names of `LEARNERS`, or ``auto``.
    guard
        Whether the default is kept unless the gain is beyond the model's error.
    noise, seed
        Standard deviation of normal noise on the log of training times, for noise-free data.
    max_nprocs
        Leave out instances with more processes, in training and test.
    feature_set
        A name of `FEATURE_SETS` for all learners; by default each learner's own.
    jobs
        As for `fit`.

    Raises
    ------
    DataError
        If node counts are not in the data or in both lists, or the split leaves nothing to do.
    """
    train, test = tuple(sorted(set(train_nodes))), tuple(sorted(set(test_nodes)))
    matrices = cell_matrices(dataset)
    _check_split(matrices, train, test)
    matrices = _within(matrices, max_nprocs)
    outcomes = _outcomes(
        dataset.context,
        *_split(matrices, train, test, noise, seed),
        learners=learners,
        guard=guard,
        feature_set=feature_set,
        jobs=jobs,
    )
    return Evaluation(dataset.context, train, test, guard, noise, _scores(outcomes))


def evaluate_leave_one_out(
    dataset: PerformanceDataset,
    *,
    learners: Sequence[str] = ("knn", "gam", "xgboost"),
    guard: bool = True,
    feature_set: str | None = None,
    jobs: int | None = None,
) -> Evaluation:
    """Leave one node count out at a time and pool the decisions on all of them.

    Collectives measured on fewer than 3 node counts take no part; see `evaluate`.

    Raises
    ------
    DataError
        If no collective was measured on 3 node counts.
    """
    matrices = {c: m for c, m in cell_matrices(dataset).items() if len(np.unique(m.nodes)) >= 3}
    counts = _node_counts(matrices)
    if not counts:
        raise DataError("leaving one node count out needs a collective measured on at least 3")
    outcomes = []
    for held_out in counts:
        rest = tuple(n for n in counts if n != held_out)
        outcomes += _outcomes(
            dataset.context,
            *_split(matrices, rest, (held_out,), 0.0, 0),
            learners=learners,
            guard=guard,
            feature_set=feature_set,
            jobs=jobs,
        )
    return Evaluation(dataset.context, counts, counts, guard, 0.0, _scores(outcomes))


def _node_counts(matrices: Matrices) -> tuple[int, ...]:
    return tuple(sorted({int(n) for m in matrices.values() for n in m.nodes}))


def _within(matrices: Matrices, max_nprocs: int | None) -> dict[Collective, CellMatrix]:
    if max_nprocs is None:
        return dict(matrices)
    cut = {c: m.rows(m.nprocs <= max_nprocs) for c, m in matrices.items()}
    return {c: m for c, m in cut.items() if len(m)}


def _check_split(matrices: Matrices, train: Sequence[int], test: Sequence[int]) -> None:
    known = _node_counts(matrices)
    for what, asked in (("training", train), ("test", test)):
        if not asked:
            raise DataError(f"no {what} node counts given; the data has {_listed(known)}")
        missing = [n for n in asked if n not in known]
        if missing:
            raise DataError(
                f"{what} node counts {_listed(missing)} are not in the data,"
                f" which has {_listed(known)}"
            )
    both = sorted(set(train) & set(test))
    if both:
        raise DataError(f"node counts {_listed(both)} are in both training and test; drop one")


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _split(
    matrices: Matrices, train: Sequence[int], test: Sequence[int], noise: float, seed: int
) -> tuple[Matrices, Matrices]:
    """Return training and test cells of the collectives that have both."""
    rng = np.random.default_rng(seed)
    training, testing = {}, {}
    for collective, cells in matrices.items():
        column = cells.default_column
        if column is None:
            continue
        known = np.isfinite(cells.time_s[:, column])
        learned = cells.rows(np.isin(cells.nodes, train))
        tested = cells.rows(np.isin(cells.nodes, test) & known)
        if len(learned) and len(tested):
            factors = np.exp(rng.normal(0.0, noise, learned.time_s.shape))
            training[collective] = replace(learned, time_s=learned.time_s * factors)
            testing[collective] = tested
    if not testing:
        raise DataError(
            "the split leaves nothing to evaluate: no collective has training cells and test"
            " instances whose default was measured"
        )
    return training, testing


def _outcomes(
    context: Context,
    training: Matrices,
    testing: Matrices,
    *,
    learners: Sequence[str],
    guard: bool,
    feature_set: str | None,
    jobs: int | None,
) -> list[_Outcome]:
    """Fit and choose, one collective at a time."""
    library = context.library
    outcomes = []
    for collective, tested in testing.items():
        cells = {collective: training[collective]}
        baselines: dict[str, Selector] = {
            "default": LibraryDefault(library),
            "single_best": SingleBest(cells, library),
            "virtual_best": VirtualBest({collective: tested}, library),
        }
        for name, selector in baselines.items():
            started = time.perf_counter()
            selections = [selector.select(i) for i in tested.instances()]
            seconds = time.perf_counter() - started
            outcomes.append(_outcome(name, tested, selections, 0.0, seconds))
        for name in learners:
            started = time.perf_counter()
            bundle = fit_cells(context, cells, name, feature_set=feature_set, jobs=jobs)
            fitted = time.perf_counter()
            chooser = ModelSelector(bundle, guard=guard, allowed=_Measured(tested))
            selections = chooser.select_many(tested.instances())
            seconds = time.perf_counter() - fitted
            outcomes.append(_outcome(name, tested, selections, fitted - started, seconds))
    return outcomes


class _Measured:
    """Tells whether a configuration has a measured time on a test instance."""

    def __init__(self, tested: CellMatrix) -> None:
        self._columns = {c: i for i, c in enumerate(tested.configurations)}
        self._rows = {instance: row for row, instance in enumerate(tested.instances())}
        self._known = np.isfinite(tested.time_s)

    def __call__(self, configuration: Configuration, instance: Instance) -> bool:
        column = self._columns.get(configuration)
        return column is not None and bool(self._known[self._rows[instance], column])


def _outcome(
    name: str, tested: CellMatrix, selections: Sequence[Selection], fit_s: float, predict_s: float
) -> _Outcome:
    assert tested.default_column is not None
    default_s = tested.time_s[:, tested.default_column]
    columns = {c: i for i, c in enumerate(tested.configurations)}
    chosen = [columns.get(s.configuration, tested.default_column) for s in selections]
    selected_s = tested.time_s[np.arange(len(tested)), chosen]
    unknown = np.isnan(selected_s)
    selected_s = np.where(unknown, default_s, selected_s)
    kept = unknown | np.array([s.configuration.is_default for s in selections])
    best_s = np.nanmin(tested.time_s, axis=1)
    return _Outcome(name, tested.collective, selected_s, default_s, best_s, kept, fit_s, predict_s)


def _scores(outcomes: Sequence[_Outcome]) -> dict[str, dict[str, Score]]:
    """Score each selector on each collective and on all."""
    scores: dict[str, dict[str, Score]] = {}
    for name in dict.fromkeys(o.selector for o in outcomes):
        mine = [o for o in outcomes if o.selector == name]
        collectives = sorted({o.collective for o in mine})
        scores[name] = {
            c.value: _score([o for o in mine if o.collective is c]) for c in collectives
        }
        scores[name][ALL] = _score(mine)
    return scores


def _score(outcomes: Sequence[_Outcome]) -> Score:
    selected, default, best = (
        np.concatenate([getattr(o, f"{which}_s") for o in outcomes])
        for which in ("selected", "default", "best")
    )
    gained, possible = np.log(default / selected).mean(), np.log(default / best).mean()
    regret = selected / best
    return Score(
        instances=len(selected),
        arithmetic_mean_speedup=float((default / selected).mean()),
        geometric_mean_speedup=float(np.exp(gained)),
        oracle_arithmetic_mean_speedup=float((default / best).mean()),
        oracle_geometric_mean_speedup=float(np.exp(possible)),
        log_gain_share=float(gained / possible) if possible > 0 else None,
        mean_regret=float(regret.mean()),
        p95_regret=float(np.quantile(regret, 0.95)),
        slower_share=float((selected > _HARM * default).mean()),
        default_share=float(np.concatenate([o.kept for o in outcomes]).mean()),
        fit_s=sum(o.fit_s for o in outcomes),
        predict_s=sum(o.predict_s for o in outcomes),
    )
