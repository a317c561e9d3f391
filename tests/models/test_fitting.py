"""Datasets become bundles, and what is held out on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Instance, Measurement, RunStatus, Shape
from colltune.errors import DataError
from colltune.evidence.launches import Noise
from colltune.models import workers
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.error_model import LaunchNoise
from colltune.models.fitting import HeldOut, fit, folds
from colltune.models.guard import Guard
from colltune.models.learners import LEARNERS
from tests.models.machines import CONTEXT, configuration, measured
from tests.refusals import refused

NOISY = measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2, 4), noise=0.05)


@pytest.mark.parametrize("learner", ["knn", "gam", "xgboost"])
def test_interval_holds_about_nine_tenths(learner: str) -> None:
    """Of times at node counts not trained on, 75 to 100 % lie in the predicted 90 % interval."""
    test = measured(nodes=(5, 7, 10), ppn=(1, 2, 4), noise=0.05)
    model = fit(NOISY, learner, jobs=1).model(Collective.BCAST)
    frame = test.frame[test.frame["algorithm"] == "binomial"]
    found = model.forecast(*(frame[c].to_numpy() for c in ("nodes", "ppn", "msize_bytes")))
    column = model.configurations.index(configuration("binomial"))
    lower, upper = found.lower_s[:, column], found.upper_s[:, column]
    inside = (lower <= frame["time_s"]) & (frame["time_s"] <= upper)
    assert 0.75 <= inside.mean() <= 1.0


def test_every_collective_and_configuration_is_fitted() -> None:
    """The bundle has all collectives, each with all its configurations, sorted, and the shapes."""
    both = (Collective.ALLREDUCE, Collective.BCAST)
    bundle = fit(measured(collectives=both, nodes=(2, 4), ppn=(1,)), "knn")
    algorithms = sorted(["default", "linear", "binomial", "scatter_allgather"])
    expected = tuple(configuration(a, c) for c in both for a in algorithms)
    assert bundle.configurations() == expected
    assert bundle.training_shapes == (Shape(2, 1), Shape(4, 1))
    assert bundle.context == CONTEXT


def test_auto_takes_the_learner_that_decides_best() -> None:
    """Auto equals the bundle of the one learner that it names, and names it per collective."""
    auto = fit(NOISY, jobs=1)
    (model,) = auto.models
    assert auto.id == fit(NOISY, model.learner, jobs=1).id


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitting in two processes gives the same bundle as in one, to the last bit."""
    data = measured()
    alone = fit(data, "gam", jobs=1)
    monkeypatch.setattr(workers, "_CELLS_WORTH_PROCESSES", 0)
    assert fit(data, "gam", jobs=2).id == alone.id


def test_progress_counts_to_the_end() -> None:
    """The callback is told the configurations fitted of all there are, and what is next."""
    seen: list[tuple[int, int, str]] = []
    bundle = fit(measured(), "knn", progress=lambda *told: seen.append(told))
    each = len(bundle.configurations())
    assert seen == [
        *((k * each, 5 * each, "bcast: knn") for k in range(5)),
        (5 * each, 5 * each, ""),
    ]


def test_feature_set_can_be_named() -> None:
    """A named feature set is used and kept instead of the learner's own."""
    (model,) = fit(measured(), "xgboost", feature_set="rich").models
    assert (model.learner, model.feature_set) == ("xgboost", "rich")


def test_one_instance_is_enough() -> None:
    """A single cell per configuration is fitted, with the wide interval of the unknown."""
    bundle = fit(measured(nodes=(2,), ppn=(1,), msizes=(64,)))
    model = bundle.model(Collective.BCAST)
    found = model.forecast([2, 2], [1, 2], [64, 64])
    column = model.configurations.index(configuration("linear"))
    assert found.candidate[:, column].tolist() == [True, False]
    bounds = [(end / found.time_s)[0, column] for end in (found.lower_s, found.upper_s)]
    np.testing.assert_allclose(bounds, [0.5, 2.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learner": "forest"}, "unknown what=learner name=forest"),
        ({"learner": "knn", "feature_set": "poor"}, "unknown name=poor"),
    ],
)
def test_unknown_names_are_explained(arguments: dict[str, str], message: str) -> None:
    """A learner or feature set that does not exist is named with those that do."""
    with refused(message, DataError):
        fit(measured(), **arguments)  # type: ignore[arg-type]


def test_nothing_usable_is_an_error() -> None:
    """Measurements of which none ended well cannot be learned from."""
    instance = Instance(Collective.BCAST, Shape(2, 2), 64)
    failed = Measurement(instance, configuration("linear"), "one", RunStatus.TIMEOUT)
    with refused("nothing-usable", DataError, what="the data"):
        fit(PerformanceDataset.of(CONTEXT, [failed]))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_configuration_that_cannot_be_fitted_is_left_out(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One regression that fails is told in the bundle and leaves the others as they were."""
    monkeypatch.setattr(workers, "_CELLS_WORTH_PROCESSES", 0)
    data = broken("linear", measured())
    bundle, sound = fit(data, "gam", jobs=jobs), fit(measured(), "gam", jobs=1)
    assert list(bundle.evidence["left_out"]) == [configuration("linear").id]
    assert set(sound.configurations()) - set(bundle.configurations()) == {configuration("linear")}
    asked = [8, 8], [1, 4], [64, 65536]
    ours, theirs = (b.model(Collective.BCAST) for b in (bundle, sound))
    columns = [theirs.configurations.index(c) for c in ours.configurations]
    np.testing.assert_allclose(
        ours.forecast(*asked).time_s, theirs.forecast(*asked).time_s[:, columns]
    )
    judged = [b.held_out(Collective.BCAST)["instances"] for b in (bundle, sound)]
    assert judged[0] == judged[1]


def test_without_its_default_a_collective_is_left_to_the_library() -> None:
    """What cannot be compared with the default is not decided; other collectives are."""
    both = (Collective.ALLREDUCE, Collective.BCAST)
    data = broken("default", measured(collectives=both), Collective.BCAST)
    bundle = fit(data, "gam", jobs=1)
    assert bundle.collectives == (Collective.ALLREDUCE,)
    assert list(bundle.evidence["left_out"]) == ["bcast"]


def test_a_bundle_of_nothing_is_refused() -> None:
    """If no configuration can be fitted, the error names one and says why."""
    data = broken("default", measured())
    with refused("nothing-fitted", DataError):
        fit(data, "gam", jobs=1)


@pytest.mark.parametrize(
    "learner", [name for name, entry in LEARNERS.items() if entry.program is None]
)
def test_a_broken_column_spoils_no_bundle(learner: str) -> None:
    """With times that no regression can follow, the bundle is made, and predicts positive times."""
    bundle = fit(broken("linear", measured()), learner, jobs=1)
    model = bundle.model(Collective.BCAST)
    assert {configuration("default"), configuration("binomial")} <= set(model.configurations)
    assert (model.forecast([3, 8], [1, 4], [64, 65536]).time_s > 0).all()


def broken(
    algorithm: str, data: PerformanceDataset, collective: Collective = Collective.BCAST
) -> PerformanceDataset:
    """Return `data` in which every second time of an algorithm is 1e200 of the others."""
    frame = data.frame.copy()
    rows = (frame["algorithm"] == algorithm) & (frame["collective"] == collective)
    swing = np.where(np.arange(int(rows.sum())) % 2, 1e-100, 1e100)
    frame.loc[rows, "time_s"] *= swing
    frame["times_s"] = [(t,) for t in frame["time_s"]]
    for name in ("time_mean_s", "time_min_s", "time_p90_s", "time_max_s"):
        frame[name] = frame["time_s"]
    return replace(data, frame=frame)


def test_slow_cells_are_told_from_unknown_ones() -> None:
    """What ran into the time limit or was skipped is slow; what is just missing is unknown."""
    known = measured(nodes=(2, 4), ppn=(1,), msizes=(8, 64), algorithms=("default",))
    shape = Shape(2, 1)
    others = [
        Measurement(Instance(Collective.BCAST, shape, 8), configuration("linear"), "a", status)
        for status in (RunStatus.TIMEOUT,)
    ]
    timed = Measurement(
        Instance(Collective.BCAST, shape, 64), configuration("linear"), "a", times_s=(1e-3,)
    )
    data = PerformanceDataset.of(CONTEXT, [*known.measurements(), *others, timed])
    (cells,) = cell_matrices(data).values()
    slow = [(cells.instances()[r], cells.configurations[c]) for r, c in np.argwhere(cells.slow)]
    assert slow == [(Instance(Collective.BCAST, shape, 8), configuration("linear"))]


def test_two_repetitions_prove_nothing() -> None:
    """Cells of too few repetitions are learned from, but no promise is held against them."""
    frame = NOISY.frame
    few = (frame["algorithm"] == "default") & (frame["msize_bytes"] == frame["msize_bytes"].min())
    doubted = replace(NOISY, frame=frame.assign(status=frame["status"].where(~few, "too_few")))
    (cells,) = cell_matrices(doubted).values()
    assert np.isfinite(cells.time_s).sum() - np.isfinite(cells.proved_s).sum() == few.sum()
    judged = [
        fit(data, "knn", jobs=1).evidence["learners"]["bcast"]["knn"]["instances"]
        for data in (NOISY, doubted)
    ]
    assert judged[0] - judged[1] == few.sum() > 0


@pytest.mark.parametrize(
    ("nodes", "ppn", "attribute"),
    [((2, 4, 8, 16), (1, 4), "nodes"), ((2, 4), (1, 4), "nprocs"), ((2,), (4,), "msize_bytes")],
)
def test_whole_groups_are_held_out(
    nodes: Iterable[int], ppn: Iterable[int], attribute: str
) -> None:
    """Node counts are held out whole if there are three, else shapes, else message sizes."""
    (cells,) = cell_matrices(measured(nodes=nodes, ppn=ppn)).values()
    fold_of = folds(cells)
    groups = getattr(cells, attribute)
    assert len(set(fold_of.tolist())) == min(5, len(set(groups.tolist())))
    for value in set(groups.tolist()):
        assert len(set(fold_of[groups == value].tolist())) == 1


def test_a_single_instance_cannot_be_held_out() -> None:
    """One shape and one message size make one fold, which means none."""
    (cells,) = cell_matrices(measured(nodes=(2,), ppn=(1,), msizes=(64,))).values()
    assert folds(cells).tolist() == [0]


def test_figures_of_held_out_decisions() -> None:
    """The best choices have all of the gain and no harm, some wrong ones harm as many times."""
    (cells,) = cell_matrices(measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2))).values()
    perfect = held_out(cells, cells.time_s)
    assert perfect.figures(cells, Guard()) == {
        "instances": len(cells),
        "regret": 0.0,
        "share": 1.0,
        "harm": 0.0,
        "trust": 1.0,
    }
    wrong = np.arange(len(cells)) % 5 == 0
    some = held_out(cells, _wrong_at(cells, wrong)).figures(cells, Guard())
    lost = np.log(cells.time_s.max(axis=1) / cells.time_s.min(axis=1))
    assert some["regret"] == pytest.approx((lost * wrong).mean())
    assert some["harm"] == pytest.approx(wrong.mean(), abs=0.02)
    nothing = held_out(cells, np.full_like(cells.time_s, np.nan))
    assert nothing.figures(cells, Guard())["instances"] == 0


def test_harm_within_noise_and_choices_that_did_not_run_are_none() -> None:
    """They count as the default's time, or as no harm."""
    (cells,) = cell_matrices(measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2))).values()
    worst = held_out(cells, _wrong_at(cells, np.arange(len(cells)) % 5 == 0))
    assert worst.figures(cells, Guard())["harm"]
    noisy = replace(cells, noise=LaunchNoise(ratio=Noise(10.0, 1.0)))
    assert worst.figures(noisy, Guard())["harm"] == 0.0
    column = cells.default_column
    only_default = np.where(np.arange(cells.time_s.shape[1]) == column, cells.time_s, np.nan)
    absent = worst.figures(replace(cells, time_s=only_default), Guard())
    assert (absent["regret"], absent["harm"]) == (0.0, 0.0)


def test_trust_is_what_came_true_of_predicted_gains() -> None:
    """Opposite gains earn none, some of them a part; no decision all, and full gains, too."""
    (cells,) = cell_matrices(measured()).values()
    column = cells.default_column
    assert column is not None
    gain = np.log(cells.time_s[:, [column]] / cells.time_s)
    found = []
    some = np.where(np.arange(len(cells)) % 4 == 0, -1.0, 1.0)[:, None]
    for factor in (1.0, some, -1.0, 0.0, 2.0):
        predicted_s = cells.time_s[:, [column]] / np.exp(factor * gain)
        trust = held_out(cells, predicted_s).figures(cells, Guard())["trust"]
        assert trust is not None
        found.append(trust)
    assert found[0] == found[3] == found[4] == 1.0
    assert found[2] < 0.3 < found[1] < 1.0


def test_figures_are_those_of_what_is_decided() -> None:
    """Predictions that lose everywhere earn no trust, so that nothing is chosen and lost."""
    (cells,) = cell_matrices(measured(nodes=(2, 3, 4, 6, 8, 12, 16), ppn=(1, 2))).values()
    found = held_out(cells, 1.0 / cells.time_s).figures(cells, Guard())
    assert found["trust"] == 0.0
    assert (found["share"], found["harm"]) == (0.0, 0.0)


def _wrong_at(cells: CellMatrix, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return predictions that are right but at `rows`, where the slowest is the fastest."""
    squared = cells.time_s.min(axis=1) * cells.time_s.max(axis=1)
    return np.where(rows[:, None], squared[:, None] / cells.time_s, cells.time_s)


def held_out(cells: CellMatrix, predicted_s: NDArray[np.float64]) -> HeldOut:
    """Return forecasts without doubt."""
    n, shape = len(cells), cells.time_s.shape
    return HeldOut(
        predicted_s, np.ones(shape, np.bool_), np.zeros(shape), np.zeros(n), np.zeros(n, np.bool_)
    )
