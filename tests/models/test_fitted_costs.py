"""Where fitted costs come from."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Instance, Measurement, RunStatus, Shape
from colltune.models import fitted_costs
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.cost_model import (
    ONE_RAIL,
    Instances,
    Link,
    NetworkParameters,
    Rails,
    RailUse,
    total_seconds,
)
from colltune.models.costs.catalogue import cost_terms
from colltune.models.fitting import fit
from tests.models.machines import CONTEXT

NETWORK = NetworkParameters(Link(1e-6, 2e-10), Link(2e-6, 1e-9))
NAMES = ("binomial", "pipeline", "scatter_allgather_ring")


@pytest.fixture(scope="module")
def dataset() -> PerformanceDataset:
    """Return measurements of a machine that follows the cost formulas."""
    cells = []
    for name in NAMES:
        configuration = Configuration("openmpi", Collective.BCAST, name)
        for nodes in (2, 3, 8, 16, 64):
            for ppn in (2, 4):
                for m in (1, 4096, 1048576):
                    instances, terms = cost_terms(configuration, nodes, ppn, m)
                    time_s = 1e-6 + float(total_seconds(instances, terms, NETWORK)[0])
                    instance = Instance(Collective.BCAST, Shape(nodes, ppn), m)
                    cells.append(
                        Measurement(instance, configuration, "one", RunStatus.OK, (time_s,))
                    )
    return PerformanceDataset.of(CONTEXT, cells)


@pytest.fixture(scope="module")
def cells(dataset: PerformanceDataset) -> CellMatrix:
    """Return the same as a matrix."""
    return cell_matrices(dataset)[Collective.BCAST]


def test_fitted_to_measurements(cells: CellMatrix) -> None:
    """On a machine that follows the formulas, fitted costs are the measured times."""
    costs = fitted_costs.of_cells(cells)
    at = Instances.of(cells.nodes, cells.ppn, cells.msize_bytes)
    assert tuple(costs) == cells.configurations
    for configuration, measured_s in zip(cells.configurations, cells.time_s.T, strict=True):
        found_s = costs[configuration].time_s(at, ONE_RAIL)
        assert np.abs(np.log(found_s / measured_s)).max() < 0.05
        assert not costs[configuration].is_generic


def test_of_a_bundle(dataset: PerformanceDataset, cells: CellMatrix) -> None:
    """A bundle of a cost model gives the costs it was fitted with; another bundle gives none."""
    found = fitted_costs.of_model(fit(dataset, "cost_model").model(Collective.BCAST))
    assert found is not None
    expected = fitted_costs.of_cells(cells)
    assert list(found) == list(expected)
    for configuration, cost in found.items():
        assert cost.vector.tolist() == expected[configuration].vector.tolist()
    assert fitted_costs.of_model(fit(dataset, "knn").model(Collective.BCAST)) is None


def test_the_network_that_algorithms_agree_on(cells: CellMatrix) -> None:
    """The medians of fitted parameters are the machine's; bytes are those of one adapter."""
    costs = fitted_costs.of_cells(cells)
    one, two = Rails(1, RailUse.SHARING), Rails(2, RailUse.SHARING)
    found = fitted_costs.network(costs, one, two)
    assert found is not None
    assert found.inter.s_per_byte == pytest.approx(1e-9, rel=0.05)
    assert found.inter.latency_s == pytest.approx(2e-6, rel=0.1)
    assert found.rails == two
    doubled = fitted_costs.network(costs, two, two)
    assert doubled is not None
    assert doubled.inter.s_per_byte == pytest.approx(2 * found.inter.s_per_byte)
    bound = fitted_costs.network(costs, Rails(2), Rails(2))
    assert bound is not None
    assert bound.inter == found.inter
    assert fitted_costs.network({}, one, two) is None
