"""Selecting by predicted runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import BundleError
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.error_model import ErrorModel
from colltune.models.fitting import fit
from colltune.models.guard import Guard
from colltune.mpi.running import RunningRange
from colltune.selector.argmin import ModelSelector, Runs
from tests.models.machines import FORMULAS, configuration, measured
from tests.refusals import refused

GRID = measured(nodes=(2, 4, 8, 16, 32), ppn=(1, 2, 4))
BUNDLE = fit(GRID, "gam", jobs=1)


def instance(nodes: int, ppn: int, msize: int) -> Instance:
    """Return a broadcast."""
    return Instance(Collective.BCAST, Shape(nodes, ppn), msize)


def with_margin(bundle: Bundle, gain: float) -> Bundle:
    """Return `bundle` with models whose predicted gains are off by `gain`."""
    (model,) = bundle.models
    n = len(model.configurations)
    error = ErrorModel(model.error.lower, model.error.upper, np.full(n, np.log(gain)))
    return replace(bundle, models=(replace(model, error=error),))


@pytest.mark.parametrize("nodes", [4, 8, 16])
@pytest.mark.parametrize("msize", [1, 1024, 4194304])
def test_the_fastest_is_chosen(nodes: int, msize: int) -> None:
    """On measured instances the choice is as good as the best of the machine's formulas."""
    selection = ModelSelector(BUNDLE, guard=False).select(instance(nodes, 4, msize))
    times = {name: formula(4 * nodes, msize) for name, formula in FORMULAS.items()}
    assert times[selection.configuration.algorithm] <= 1.1 * min(times.values())


def test_last_bits_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that differ by rounding errors alone tie, and the first configuration is chosen."""
    (model,) = BUNDLE.models
    times = (1.0 - np.arange(len(model.configurations)) * 2.0**-52) / 3.0
    monkeypatch.setattr(
        type(model.predictor), "predict", lambda _, asked: np.tile(times, (len(asked), 1))
    )
    selection = ModelSelector(BUNDLE, guard=False).select(instance(8, 4, 1024))
    assert selection.configuration == model.configurations[0]


def test_a_selection_tells_everything() -> None:
    """Prediction, default, runners-up in order, gain and reason belong together."""
    selection = ModelSelector(BUNDLE).select(instance(16, 4, 4194304))
    assert selection.configuration == configuration("scatter_allgather")
    assert selection.prediction is not None
    assert selection.default is not None
    assert selection.prediction.lower_s <= selection.prediction.time_s
    assert selection.prediction.time_s <= selection.prediction.upper_s
    rivals = [c.configuration.algorithm for c in selection.runners_up]
    times = [c.prediction.time_s for c in selection.runners_up]
    assert sorted(rivals) == ["binomial", "default", "linear"]
    assert times == sorted(times)
    assert not selection.extrapolated
    assert selection.reason == f"predicted {selection.gain:.2f}x faster than the default"
    assert selection.gain == selection.default.time_s / selection.prediction.time_s


def test_a_gain_within_the_error_keeps_the_default() -> None:
    """A model that is off by a factor of three must predict more than that to be followed."""
    bundle = with_margin(BUNDLE, 3.0)
    small = instance(16, 4, 1)
    kept = ModelSelector(bundle).select(small)
    unguarded = ModelSelector(bundle, guard=False).select(small)
    assert kept.configuration == configuration("default")
    assert unguarded.configuration == configuration("binomial")
    assert kept.reason == (
        f"default kept: predicted {unguarded.gain:.2f}x, but predictions have been wrong by up to"
        " 3.00x (asked: 3.075x)"
    )
    large = ModelSelector(bundle).select(instance(16, 4, 4194304))
    assert large.configuration == configuration("scatter_allgather")


def test_outside_the_data_more_is_asked() -> None:
    """A gain of 2x is enough inside, and beyond the measured node counts it is not."""
    selector = ModelSelector(with_margin(BUNDLE, 1.0), guard=Guard(caution=4.0))
    inside, outside = (selector.select(instance(n, 4, 1)) for n in (16, 64))
    assert inside.configuration == configuration("binomial")
    assert (outside.configuration, outside.extrapolated) == (configuration("default"), True)
    assert "but predictions this far outside the measured range" in outside.reason


def test_a_gain_that_the_measurements_cannot_tell_keeps_the_default() -> None:
    """At a measured shape it must be more than noise makes of one measurement."""
    (model,) = BUNDLE.models
    error = model.error._replace(shortfall=np.zeros(4), detectable=np.log(3.0))
    bundle = replace(BUNDLE, models=(replace(model, error=error),))
    kept, between = (ModelSelector(bundle).select(instance(n, 4, 1)) for n in (16, 15))
    assert kept.configuration.is_default
    assert "the measurements cannot tell gains below 3x from noise" in kept.reason
    assert not between.configuration.is_default
    assert kept.gain_bound is not None
    assert kept.gain_bound < 1.0


def test_a_gain_that_is_hardly_one_keeps_the_default() -> None:
    """A change must be worth it."""
    bundle = with_margin(BUNDLE, 1.0)
    selector = ModelSelector(bundle, guard=Guard(least_gain=10.0))
    selection = selector.select(instance(16, 4, 1))
    assert selection.configuration.is_default
    assert selection.reason.endswith("and a gain below 10x is not worth a change")


def test_gains_count_as_far_as_held_out_gains_came_true() -> None:
    """Less trust asks for more, none leaves the collective alone; without a guard all is told."""
    at = instance(16, 4, 4194304)
    kept = {}
    for trust in (1.0, 0.9, 0.01, 0.0):
        figures = {"bcast": {"gam": {"instances": 90, "trust": trust}}}
        bundle = replace(BUNDLE, evidence={"learners": figures})
        selection = ModelSelector(bundle).select(at)
        if selection.configuration.is_default:
            kept[trust] = selection.reason
        assert not ModelSelector(bundle, guard=False).select(at).configuration.is_default
    assert set(kept) == {0.01, 0.0}
    assert "of which held-out decisions for bcast reached 1%" in kept[0.01]
    assert kept[0.0].endswith("held-out decisions for bcast gained nothing of what was predicted")


def test_far_beyond_the_largest_message_the_default_is_kept() -> None:
    """Twice the largest measured message is the end, unless there is no guard."""
    sizes = (2 * 4194304, 2 * 4194304 + 1)
    near, far = (ModelSelector(BUNDLE).select(instance(16, 4, m)) for m in sizes)
    assert near.configuration == configuration("scatter_allgather")
    assert far.configuration == configuration("default")
    assert far.reason.startswith("default kept: ")
    assert far.reason.endswith("or the message is far from what was measured")
    free = ModelSelector(BUNDLE, guard=False).select(instance(16, 4, sizes[1]))
    assert free.configuration == configuration("scatter_allgather")


def but_for(first_bytes: int | None, *algorithms: str) -> Runs:
    """Return that all run everywhere, but for some algorithms, from a size on or never."""

    def runs(candidate: Configuration, shapes: Sequence[Shape]) -> list[RunningRange]:
        first = first_bytes if candidate.algorithm in algorithms else 0
        return [RunningRange(first)] * len(shapes)

    return runs


def test_what_does_not_run_on_one_shape_is_chosen_on_others() -> None:
    """What may run is asked for each shape by itself, once, and of sizes from the first on."""
    asked: list[tuple[Configuration, Shape]] = []

    def runs(candidate: Configuration, shapes: Sequence[Shape]) -> list[RunningRange]:
        asked.extend((candidate, shape) for shape in shapes)
        here = candidate.algorithm == "scatter_allgather"
        return [RunningRange(None if here and shape.nodes == 8 else 0) for shape in shapes]

    selector = ModelSelector(BUNDLE, guard=False, runs=runs)
    places = [instance(nodes, 4, 4194304) for nodes in (8, 16, 8)]
    found = [s.configuration.algorithm for s in selector.select_many(places)]
    assert found[1] == "scatter_allgather"
    assert found[0] == found[2] != "scatter_allgather"
    assert len(asked) == len(set(asked))


def test_what_is_not_allowed_is_never_chosen_nor_named() -> None:
    """Without the winner the next best is chosen; the default is allowed always."""
    runs = but_for(None, "scatter_allgather", "default")
    selection = ModelSelector(BUNDLE, guard=False, runs=runs).select(instance(16, 4, 4194304))
    assert selection.configuration == configuration("default")
    assert [c.configuration.algorithm for c in selection.runners_up] == ["binomial", "linear"]


def test_nothing_allowed_keeps_the_default() -> None:
    """If nothing else may be used the default is kept and the reason says why."""
    runs = but_for(None, *(c.algorithm for c in BUNDLE.configurations()))
    selection = ModelSelector(BUNDLE, runs=runs).select(instance(16, 4, 64))
    assert selection.configuration == configuration("default")
    assert selection.runners_up == ()
    assert selection.reason == (
        "default kept: no configuration that is predicted faster may be used here"
    )


def test_what_was_not_measured_near_is_told() -> None:
    """On one node, where nothing but the default's models reach, the reason says so."""
    selection = ModelSelector(BUNDLE).select(instance(1, 4, 64))
    assert selection.configuration == configuration("default")
    expected = "default kept: no other configuration is known to run on 1x4 at this size"
    assert selection.reason == expected


def test_a_default_that_was_not_measured_still_leaves_an_answer() -> None:
    """Without the default's times the fastest is chosen, and the reason says what is missing."""
    bundle = fit(measured(algorithms=("binomial", "linear")), "knn")
    selection = ModelSelector(bundle).select(instance(8, 4, 64))
    assert selection.configuration == configuration("binomial")
    assert selection.default is None
    assert selection.reason == "fastest predicted; the default was not measured"
    unknown = ModelSelector(bundle).select(instance(1, 4, 64))
    assert unknown.configuration == configuration("default")
    assert unknown.prediction is None
    assert unknown.reason == "default kept: no configuration is known to run on 1x4"


def test_a_prediction_that_is_no_number_is_an_error() -> None:
    """An argmin over NaN is refused, naming the configuration."""
    (model,) = BUNDLE.models
    broken = replace(model.predictor, intercepts=np.full(4, np.nan))  # type: ignore[type-var]
    bundle = replace(BUNDLE, models=(replace(model, predictor=broken),))
    with refused("no-prediction", BundleError, configuration="openmpi.bcast.binomial"):
        ModelSelector(bundle).select(instance(8, 4, 64))


def test_a_collective_without_models_keeps_its_default() -> None:
    """It is left to the library with the reason; the others are decided as without it."""
    unknown = Instance(Collective.GATHER, Shape(4, 4), 64)
    known = [instance(8, 4, 64), instance(8, 4, 8192)]
    first, left, second = ModelSelector(BUNDLE).select_many([known[0], unknown, known[1]])
    assert [first, second] == ModelSelector(BUNDLE).select_many(known)
    assert left.instance == unknown
    assert left.configuration == Configuration.default("openmpi", Collective.GATHER)
    assert (left.prediction, left.gain) == (None, 1.0)
    assert "default kept: the bundle has no models of gather; measure it" in left.reason


def test_vectors_of_a_collective_without_models_are_refused() -> None:
    """There are no columns to choose from."""
    with refused("no-models-of", BundleError, collective="gather"):
        ModelSelector(BUNDLE).decide(Collective.GATHER, [4], [4], [64])


@pytest.mark.parametrize("learner", ["knn", "gam", "xgboost"])
def test_many_are_answered_as_one_by_one_and_fast(learner: str) -> None:
    """A thousand mixed instances keep their order and answers, in well under five seconds."""
    both = (Collective.ALLREDUCE, Collective.BCAST)
    bundle = fit(measured(collectives=both), learner, jobs=1)
    rng = np.random.default_rng(1)
    asked = [
        Instance(both[k % 2], Shape(int(n), int(p)), int(m))
        for k, (n, p, m) in enumerate(
            zip(
                rng.integers(2, 20, 1000),
                rng.integers(1, 5, 1000),
                2 ** rng.uniform(0, 23, 1000),
                strict=True,
            )
        )
    ]
    selector = ModelSelector(bundle)
    found = selector.select_many(asked)
    assert [s.instance for s in found] == asked
    for k in range(0, 1000, 97):
        alone = selector.select(asked[k])
        assert (alone.configuration, alone.reason) == (found[k].configuration, found[k].reason)


BINOMIAL = configuration("binomial")


def _record(first: int, last: int | None, *, won: bool) -> Confirmation:
    return Confirmation(
        Collective.BCAST,
        Shape(16, 4),
        first,
        last,
        Status.CONFIRMED if won else Status.WITHDRAWN,
        BINOMIAL if won else Configuration.default("openmpi", Collective.BCAST),
        BINOMIAL,
        1.21 if won else 0.97,
        1.15 if won else 0.93,
        1.28 if won else 1.02,
        2,
        "2026-11-22T10:00:00+00:00",
    )


def test_what_was_measured_goes_before_what_is_predicted() -> None:
    """On its shape and range a confirmed configuration is chosen, and a withdrawn one is not."""
    records = [_record(0, 1000, won=True), _record(1001, None, won=False)]
    bundle = BUNDLE.with_confirmations(records)
    selector, before = ModelSelector(bundle), ModelSelector(BUNDLE)
    small, large, elsewhere = (
        instance(16, 4, 100),
        instance(16, 4, 4194304),
        instance(8, 4, 4194304),
    )
    assert not before.select(large).configuration.is_default
    won, lost, other = selector.select_many([small, large, elsewhere])
    assert (won.configuration, won.status) == (BINOMIAL, Status.CONFIRMED)
    assert won.reason == "measured 1.21x (1.15 to 1.28) on 2026-11-22 in 2 launches"
    assert won.gain_bound == 1.15
    assert (lost.configuration.is_default, lost.status) == (True, Status.WITHDRAWN)
    assert lost.reason.startswith("withdrawn: measured 0.97x (0.93 to 1.02)")
    assert other == before.select(elsewhere)
    assert other.status is Status.PREDICTED


def test_what_must_not_be_used_is_not_made_so_by_a_measurement() -> None:
    """A confirmed configuration that a file cannot name is left to the prediction."""
    bundle = BUNDLE.with_confirmations([_record(0, None, won=True)])
    never = ModelSelector(bundle, runs=but_for(None, "binomial"))
    assert never.select(instance(16, 4, 64)).status is Status.PREDICTED
    late = ModelSelector(bundle, runs=but_for(64, "binomial"))
    found = late.select_many([instance(16, 4, 63), instance(16, 4, 64)])
    assert [s.status for s in found] == [Status.PREDICTED, Status.CONFIRMED]
