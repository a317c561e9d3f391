"""Where fitted costs come from, and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.costs import breakdown
from colltune.models.costs.breakdown import _KINDS, CostKind, FittedCost, Share, shares
from colltune.models.costs.families import configuration_amounts
from colltune.models.costs.network import (
    COEFFICIENTS,
    ONE_RAIL,
    Coefficient,
    Instances,
    Link,
    NetworkParameters,
    Numbers,
    Rails,
    RailUse,
    total_seconds,
)
from colltune.models.fitting import fit
from tests.models.machines import CONTEXT

NETWORK = NetworkParameters(
    Link(1e-6, 1e-10), Link(2e-6, 1e-9), reduction_s_per_byte=5e-10, contention=0.5
)
AT = Instances.of(4, 8, 1000)


def exchange(configuration: Configuration, instances: Instances) -> Numbers:
    """Return three rounds within nodes and two between them, eight senders each, and arithmetic."""
    m = instances.msize_bytes
    rounds = instances.messages(3, 3 * m, 2, 2 * m, 8)
    return rounds + instances.amounts({Coefficient.REDUCTION: 5 * m})


FITTED = FittedCost(Configuration.default("openmpi", Collective.BCAST), NETWORK.vector())


@pytest.fixture
def exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every configuration be an `exchange`."""
    monkeypatch.setattr(breakdown, "configuration_amounts", exchange)


def sharing(adapters: int) -> Rails:
    """Return adapters that every message is striped over."""
    return Rails(adapters, RailUse.SHARING)


@pytest.mark.usefixtures("exchanged")
def test_kinds_of_an_exchange() -> None:
    """Seconds and shares by hand; kinds that cost nothing are left out."""
    found = shares(FITTED.by_coefficient_s(AT, Rails())[0])
    expected = {
        CostKind.LATENCY_BETWEEN: 4e-6,
        CostKind.BANDWIDTH_BETWEEN: 2e-6,
        CostKind.CONTENTION: 7e-6,
        CostKind.LATENCY_WITHIN: 3e-6,
        CostKind.BANDWIDTH_WITHIN: 3e-7,
        CostKind.REDUCTION: 2.5e-6,
    }
    assert [s.kind for s in found] == list(expected)
    for share in found:
        assert share.time_s == pytest.approx(expected[share.kind], rel=1e-12)
        assert share.share == pytest.approx(share.time_s / 1.88e-5, rel=1e-12)


def test_every_parameter_is_of_a_kind() -> None:
    """No coefficient is forgotten in the table of kinds, and no cost is no table."""
    assert set(_KINDS) == set(COEFFICIENTS)
    assert shares(np.zeros(len(COEFFICIENTS))) == ()
    one = shares([1.0, *np.zeros(len(COEFFICIENTS) - 1)])
    assert one == (Share(CostKind.SETUP, 1.0, 1.0),)


def test_bytes_of_a_generic_basis() -> None:
    """Where an algorithm's rounds are not known, its bytes are not said to be copies."""
    seconds = [1.0 if c is Coefficient.COPY else 0.0 for c in COEFFICIENTS]
    assert shares(seconds) == (Share(CostKind.COPIES, 1.0, 1.0),)
    assert shares(seconds, generic=True) == (Share(CostKind.BYTES, 1.0, 1.0),)


@pytest.mark.usefixtures("exchanged")
def test_adapters_shared_by_all() -> None:
    """Four adapters instead of one: bytes between nodes and contention take a quarter."""
    before = FITTED.by_coefficient_s(AT, sharing(1))[0]
    after = FITTED.by_coefficient_s(AT, sharing(1), sharing(4))[0]
    changed = {
        c: b / a for c, a, b in zip(COEFFICIENTS, before, after, strict=True) if a > 0 and a != b
    }
    assert changed == {Coefficient.INTER_BYTES: 0.25, Coefficient.INTER_CONTENDED: 0.25}


@pytest.mark.usefixtures("exchanged")
def test_adapters_bound_to_processes() -> None:
    """Bound to four adapters, two processes share one instead of eight: contention is 1 for 7."""
    after = shares(FITTED.by_coefficient_s(AT, Rails(1), Rails(4))[0])
    seconds = {share.kind: share.time_s for share in after}
    assert seconds[CostKind.CONTENTION] == pytest.approx(1e-6, rel=1e-12)
    assert seconds[CostKind.BANDWIDTH_BETWEEN] == pytest.approx(2e-6, rel=1e-12)
    alone = shares(FITTED.by_coefficient_s(AT, Rails(1), Rails(8))[0])
    assert CostKind.CONTENTION not in {share.kind for share in alone}


@pytest.mark.usefixtures("exchanged")
def test_only_the_ratio_of_adapters_counts() -> None:
    """From two to four adapters what was fitted is halved; the same number changes nothing."""
    two_s = FITTED.by_coefficient_s(AT, sharing(2))[0]
    four_s = FITTED.by_coefficient_s(AT, sharing(2), sharing(4))[0]
    column = COEFFICIENTS.index(Coefficient.INTER_BYTES)
    assert four_s[column] == pytest.approx(two_s[column] / 2, rel=1e-12)
    same_s = FITTED.time_s(AT, sharing(2), sharing(2))
    assert same_s.tolist() == FITTED.time_s(AT, sharing(2)).tolist()


@pytest.mark.usefixtures("exchanged")
def test_what_the_measured_adapters_cannot_tell() -> None:
    """Contention found although nobody shared an adapter stays as it is with fewer adapters."""
    eight_s = FITTED.by_coefficient_s(AT, Rails(8))[0]
    one_s = FITTED.by_coefficient_s(AT, Rails(8), Rails(1))[0]
    assert one_s.tolist() == eight_s.tolist()


MACHINE = NetworkParameters(Link(1e-6, 2e-10), Link(2e-6, 1e-9))
NAMES = ("binomial", "pipeline", "scatter_allgather_ring")


@pytest.fixture(scope="module")
def dataset() -> PerformanceDataset:
    """Return measurements of a machine that follows the cost formulas."""
    measurements = []
    for name in NAMES:
        configuration = Configuration("openmpi", Collective.BCAST, name)
        for nodes in (2, 3, 8, 16, 64):
            for ppn in (2, 4):
                for m in (1, 4096, 1048576):
                    sent = configuration_amounts(configuration, Instances.of(nodes, ppn, m))
                    time_s = 1e-6 + float(total_seconds(sent, MACHINE)[0])
                    instance = Instance(Collective.BCAST, Shape(nodes, ppn), m)
                    measurements.append(
                        Measurement(instance, configuration, "one", RunStatus.OK, (time_s,))
                    )
    return PerformanceDataset.of(CONTEXT, measurements)


@pytest.fixture(scope="module")
def cells(dataset: PerformanceDataset) -> CellMatrix:
    """Return the same as a matrix."""
    return cell_matrices(dataset)[Collective.BCAST]


def test_fitted_to_measurements(cells: CellMatrix) -> None:
    """On a machine that follows the formulas, fitted costs are the measured times."""
    costs = breakdown.of_cells(cells)
    at = Instances.of(cells.nodes, cells.ppn, cells.msize_bytes)
    assert tuple(costs) == cells.configurations
    for configuration, measured_s in zip(cells.configurations, cells.time_s.T, strict=True):
        found_s = costs[configuration].time_s(at, ONE_RAIL)
        assert np.abs(np.log(found_s / measured_s)).max() < 0.05
        assert not costs[configuration].is_generic


def test_of_a_bundle(dataset: PerformanceDataset, cells: CellMatrix) -> None:
    """A bundle of a cost model gives the costs it was fitted with; another bundle gives none."""
    found = breakdown.of_model(fit(dataset, "cost_model").model(Collective.BCAST))
    assert found is not None
    expected = breakdown.of_cells(cells)
    assert list(found) == list(expected)
    for configuration, cost in found.items():
        assert cost.vector.tolist() == expected[configuration].vector.tolist()
    assert breakdown.of_model(fit(dataset, "knn").model(Collective.BCAST)) is None


def test_the_network_that_algorithms_agree_on(cells: CellMatrix) -> None:
    """The medians of fitted parameters are the machine's; bytes are those of one adapter."""
    costs = breakdown.of_cells(cells)
    one, two = Rails(1, RailUse.SHARING), Rails(2, RailUse.SHARING)
    found = breakdown.network(costs, one, two)
    assert found is not None
    assert found.inter.s_per_byte == pytest.approx(1e-9, rel=0.05)
    assert found.inter.latency_s == pytest.approx(2e-6, rel=0.1)
    assert found.rails == two
    doubled = breakdown.network(costs, two, two)
    assert doubled is not None
    assert doubled.inter.s_per_byte == pytest.approx(2 * found.inter.s_per_byte)
    bound = breakdown.network(costs, Rails(2), Rails(2))
    assert bound is not None
    assert bound.inter == found.inter
    assert breakdown.network({}, one, two) is None
