"""What would be selected on other shapes and with other adapters."""

from __future__ import annotations

import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import BundleError, DataError
from colltune.models.bundle import Bundle
from colltune.models.costs.breakdown import CostKind, Costs, FittedCost
from colltune.models.costs.families import configuration_amounts
from colltune.models.costs.network import (
    Instances,
    Link,
    NetworkParameters,
    Rails,
    RailUse,
    total_seconds,
)
from colltune.models.fitting import fit
from colltune.selector.what_if import Situation, WhatIf
from tests.models.machines import CONTEXT
from tests.refusals import refused

NETWORK = NetworkParameters(Link(1e-6, 2e-10), Link(2e-6, 1e-9))
ONE = Rails(1, RailUse.SHARING)
LARGE = 4194304
NAMES = ("binomial", "scatter_allgather_ring", "default", "secret")


def configuration(name: str) -> Configuration:
    """Return an algorithm of bcast."""
    return Configuration("openmpi", Collective.BCAST, name)


def time_s(name: str, shape: Shape, msize_bytes: int) -> float:
    """Return the cost model's time; the default is binomial and 40 % slower, secret slower yet."""
    factor = {"default": 1.4, "secret": 1.2}.get(name, 1.0)
    known = "binomial" if factor > 1 else name
    instances = Instances.of(shape.nodes, shape.ppn, msize_bytes)
    amounts = configuration_amounts(configuration(known), instances)
    return factor * float(total_seconds(amounts, NETWORK)[0])


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of a machine that follows the cost model."""
    cells = [
        Measurement(
            Instance(Collective.BCAST, shape, m),
            configuration(name),
            "one",
            RunStatus.OK,
            (time_s(name, shape, m),),
        )
        for shape in [Shape(n, p) for n in (1, 2, 4, 8, 16) for p in (2, 4)]
        for m in (1, 1024, 65536, LARGE)
        for name in NAMES
    ]
    return fit(PerformanceDataset.of(CONTEXT, cells), "knn")


@pytest.fixture(scope="module")
def costs() -> Costs:
    """Return the machine's own costs, those of the default and of secret not known."""
    return {c: FittedCost(c, NETWORK.vector()) for c in (configuration(name) for name in NAMES)}


def at(nodes: int, ppn: int, msize_bytes: int = LARGE, rails: Rails = ONE) -> Situation:
    """Return a bcast."""
    return Situation(Instance(Collective.BCAST, Shape(nodes, ppn), msize_bytes), rails)


def test_as_measured(bundle: Bundle, costs: Costs) -> None:
    """With the measured adapters the answer is the bundle's own selection, with cost terms."""
    answer = WhatIf(bundle, ONE, costs).answer(at(8, 4))
    assert answer.selection.configuration == configuration("scatter_allgather_ring")
    assert answer.outside == ()
    assert not answer.selection.extrapolated
    terms = {share.kind: share for share in answer.chosen_terms}
    assert sum(share.share for share in answer.chosen_terms) == pytest.approx(1.0)
    assert {CostKind.LATENCY_BETWEEN, CostKind.BANDWIDTH_BETWEEN, CostKind.BANDWIDTH_WITHIN} <= set(
        terms
    )


def test_four_rails(bundle: Bundle, costs: Costs) -> None:
    """A prediction is scaled by the cost model; its interval reaches to no effect at all.

    That is an extrapolation, and what the default's time would be made of is not known.
    """
    asked = WhatIf(bundle, ONE, costs)
    before, after = (asked.answer(at(8, 4, rails=r)) for r in (ONE, Rails(4, RailUse.SHARING)))
    assert before.selection.configuration == after.selection.configuration
    plain, scaled = before.selection.prediction, after.selection.prediction
    assert plain is not None
    assert scaled is not None
    before_s, after_s = (sum(t.time_s for t in a.chosen_terms) for a in (before, after))
    assert before_s == pytest.approx(time_s("scatter_allgather_ring", Shape(8, 4), LARGE))
    assert (before.selection.extrapolated, after.selection.extrapolated) == (False, True)
    assert before.default_terms
    assert not after.default_terms
    ratio = after_s / before_s
    assert 0.25 < ratio < 0.5
    assert scaled.time_s == pytest.approx(plain.time_s * ratio)
    assert scaled.lower_s == pytest.approx(plain.lower_s * ratio)
    assert scaled.upper_s == pytest.approx(plain.upper_s)


def test_the_default_is_supposed_to_gain_most(bundle: Bundle, costs: Costs) -> None:
    """The default's rounds are not known: it gets the largest gain, and so the benefit of doubt."""
    asked = WhatIf(bundle, ONE, costs, guard=False)
    before, after = (
        asked.answer(at(16, 4, rails=rails)).selection for rails in (ONE, Rails(4, RailUse.SHARING))
    )
    assert before.default is not None
    assert after.default is not None
    there = Instances.of(16, 4, LARGE)
    known = [costs[configuration(name)] for name in ("binomial", "scatter_allgather_ring")]
    four = Rails(4, RailUse.SHARING)
    gains = [(c.time_s(there, ONE, four) / c.time_s(there, ONE))[0] for c in known]
    assert gains[0] != pytest.approx(gains[1])
    assert after.default.time_s / before.default.time_s == pytest.approx(min(gains))


def test_what_is_not_known_is_no_candidate(bundle: Bundle, costs: Costs) -> None:
    """An algorithm without a cost formula is not chosen with other rails, and is named."""
    asked = WhatIf(bundle, ONE, costs, guard=False)
    assert asked.unknown(Collective.BCAST) == (configuration("secret"),)
    with_four = asked.answer(at(8, 4, 1024, Rails(4, RailUse.SHARING))).selection
    found = {with_four.configuration, *(c.configuration for c in with_four.runners_up)}
    assert configuration("secret") not in found
    as_measured = asked.answer(at(8, 4, 1024)).selection
    runners_up = {c.configuration for c in as_measured.runners_up}
    assert configuration("secret") in {as_measured.configuration, *runners_up}


def test_outside_what_was_measured(bundle: Bundle) -> None:
    """Counts beyond the data are named, and the selection says that it is extrapolated."""
    answer = WhatIf(bundle, ONE).answer(at(32, 8, 2**23))
    assert answer.outside == (
        "32 nodes, measured 1 to 16",
        "256 processes, measured 2 to 64",
        "8388608 bytes, measured 1 to 4194304",
        "8 processes per node, measured 2 to 4",
    )
    assert answer.selection.extrapolated
    assert WhatIf(bundle, ONE).answer(at(8, 4, 0)).outside == ()
    far = WhatIf(bundle, ONE).answer(at(4096, 128, 2**40))
    assert far.selection.configuration.is_default
    assert "far from what was measured" in far.selection.reason


def test_nearest_measured_shape(bundle: Bundle) -> None:
    """Nearest counts octaves: 3 nodes of equally near ones take the smaller."""
    asked = WhatIf(bundle, ONE)
    assert asked.nearest_measured(Shape(64, 32)) == Shape(16, 4)
    assert asked.nearest_measured(Shape(8, 1)) == Shape(8, 2)
    assert asked.nearest_measured(Shape(7, 3)) == Shape(8, 4)


def test_one_node_has_no_use_for_adapters(bundle: Bundle, costs: Costs) -> None:
    """On a single node rails change nothing, and need no cost model."""
    for known in (costs, None):
        before, after = (
            WhatIf(bundle, ONE, known).answer(at(1, 4, rails=rails)).selection
            for rails in (ONE, Rails(8, RailUse.SHARING))
        )
        assert before == after


def test_other_rails_are_outside_what_was_measured(costs: Costs) -> None:
    """A gain of 12 % is taken with the measured rails, and is too small with others."""
    cells = [
        Measurement(
            Instance(Collective.BCAST, shape, m),
            configuration(name),
            "one",
            RunStatus.OK,
            (factor * time_s("binomial", shape, m),),
        )
        for shape in [Shape(n, p) for n in (2, 4, 8) for p in (2, 4)]
        for m in (1, 1024, 65536)
        for name, factor in (("default", 1.12), ("binomial", 1.0))
    ]
    asked = WhatIf(fit(PerformanceDataset.of(CONTEXT, cells), "knn"), ONE, costs)
    measured, others = (
        asked.answer(at(8, 4, 1024, rails)).selection for rails in (ONE, Rails(4, RailUse.SHARING))
    )
    assert measured.configuration == configuration("binomial")
    assert others.configuration.is_default
    assert "have been wrong by up to 1.20x" in others.reason


def test_rails_need_a_cost_model(bundle: Bundle, costs: Costs) -> None:
    """Without fitted costs, or with generic ones only, other rails are refused with the mend."""
    generic = {c: f for c, f in costs.items() if f.is_generic}
    assert generic
    for known in (None, generic):
        with refused("rails-need-costs", DataError, rails=2):
            WhatIf(bundle, ONE, known).answer(at(8, 4, rails=Rails(2, RailUse.SHARING)))


def test_wrong_numbers(bundle: Bundle, costs: Costs, subtests: pytest.Subtests) -> None:
    """Jobs, messages and adapters that cannot be are refused."""
    for situation, code in (
        (at(2**31, 1), "too-many-processes"),
        (at(2**20, 2**20), "too-many-processes"),
        (at(4, 4, rails=Rails(0, RailUse.SHARING)), "impossible-rails rails=0"),
    ):
        with subtests.test(situation=situation, code=code), refused(code, DataError):
            WhatIf(bundle, ONE, costs).answer(situation)


def test_another_collective(bundle: Bundle) -> None:
    """A collective without models is an error of the bundle."""
    wrong = Situation(Instance(Collective.SCAN, Shape(2, 2), 8), ONE)
    with refused("no-models-of", BundleError, collective="scan"):
        WhatIf(bundle, ONE).answer(wrong)
