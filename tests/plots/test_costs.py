"""The pictures of cost models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from matplotlib.axes import Axes

from colltune.dataset import PerformanceDataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError
from colltune.evaluation import ALL, NodeCounts, evaluate_split
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.costs import breakdown
from colltune.models.costs.families import configuration_amounts
from colltune.models.costs.han import Setup
from colltune.models.costs.hierarchical import Broadcast, BroadcastCost
from colltune.models.costs.multi_hca import MultiAdapterAllgather
from colltune.models.costs.network import Instances, Link, NetworkParameters, total_seconds
from colltune.models.plain_fit import PlainFit
from colltune.plots import costs

BCAST = Collective.BCAST
NETWORK = NetworkParameters(Link(5e-7, 1e-10), Link(2e-6, 4e-10))
ALGORITHMS = ("binomial", "pipeline", "basic_linear")


def _configuration(algorithm: str) -> Configuration:
    return Configuration("openmpi", BCAST, algorithm)


def _dataset() -> PerformanceDataset:
    """Return times that cost formulas make, for 2 to 12 nodes."""
    measurements = [
        Measurement(
            Instance(BCAST, Shape(nodes, 2), size),
            configuration,
            "a",
            RunStatus.OK,
            (_time_s(configuration, nodes, size),),
        )
        for configuration in (
            *map(_configuration, ALGORITHMS),
            Configuration.default("openmpi", BCAST),
        )
        for nodes in (2, 4, 6, 12)
        for size in (8, 4096, 1 << 20)
    ]
    return PerformanceDataset.of(Context("hydra", "openmpi", "4.1.6"), measurements)


def _time_s(configuration: Configuration, nodes: int, size: int) -> float:
    known = _configuration("pipeline") if configuration.is_default else configuration
    there = Instances.of(nodes, 2, size)
    return float(total_seconds(configuration_amounts(known, there), NETWORK)[0])


def _cells() -> CellMatrix:
    return cell_matrices(_dataset())[BCAST]


def _line(panel: Axes, name: str) -> tuple[list[float], list[float]]:
    """Return x and y of the line whose label begins with `name`."""
    (line,) = (line for line in panel.lines if str(line.get_label()).startswith(name))
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_groups_shows_every_divisor_and_marks_the_best() -> None:
    """F(G) of 12 processes has 6 numbers of groups; the star is where it is least."""
    cost = BroadcastCost(Broadcast.FLAT, 12, 1024, NETWORK.inter)
    (panel,) = costs.groups({"flat": cost}).axes
    x, y = _line(panel, "F(G)")
    assert x == [1, 2, 3, 4, 6, 12]
    assert y == pytest.approx([cost.time_s(g) * 1e6 for g in (1, 2, 3, 4, 6, 12)])
    assert _line(panel, "best: 3 groups")[1] == pytest.approx([min(y)])


def test_offload_has_its_star_at_equation_1() -> None:
    """The star is the least of the whole line, at the d of eq. 1."""
    memory, copy = Link(1e-6, 1e-10), Link(0.0, 1e-10)
    gather = MultiAdapterAllgather(1, 8, 1 << 20, NETWORK.inter, 4, memory, copy)
    (panel,) = costs.offload({"4 adapters": gather}).axes
    (x,), (y,) = _line(panel, "4 adapters")
    assert x == pytest.approx(gather.optimal_offload().continuous)
    whole_line = np.asarray(panel.lines[0].get_ydata())
    assert y <= whole_line.min()
    low, high = panel.get_ylim()
    assert low <= y <= high


def test_overlap_draws_both_bounds_and_what_was_measured() -> None:
    """Dashed is no overlap, solid perfect; measured times go across."""
    setups = [Setup("binomial", size) for size in (4096, 1024)]
    without: Mapping[Setup, float] = dict(zip(setups, (4e-3, 6e-3), strict=True))
    perfect: Mapping[Setup, float] = dict(zip(setups, (3e-3, 5e-3), strict=True))
    (panel,) = costs.overlap(without, perfect, {"default": 2e-3}).axes
    x, y = _line(panel, "binomial")
    assert x == [1024, 4096]
    assert y == pytest.approx([5000, 3000])
    assert _line(panel, "default")[1] == pytest.approx([2000, 2000])
    dashed = next(line for line in panel.lines if line.get_linestyle() == "--")
    assert np.asarray(dashed.get_ydata()).tolist() == pytest.approx([6000, 4000])


def test_fitted_shows_each_configuration_with_its_error() -> None:
    """Times that a formula made are fitted without an error, and the dots are what was measured."""
    cells = _cells()
    panels = costs.fitted(cells, breakdown.of_cells(cells), [Shape(12, 2)]).axes
    titled = {panel.get_title(): panel for panel in panels if panel.get_title()}
    assert {"binomial: 0 %", "pipeline: 0 %", "basic_linear: 0 %"} <= titled.keys()
    dots, line = titled["binomial: 0 %"].lines
    column = cells.configurations.index(_configuration("binomial"))
    expected = cells.time_s[cells.nodes == 12, column] * 1e6
    assert np.asarray(dots.get_ydata()).tolist() == pytest.approx(expected.tolist())
    assert np.asarray(line.get_ydata())[[0, -1]] == pytest.approx(expected[[0, -1]], rel=0.01)


def test_extrapolated_goes_to_all_measured_nodes() -> None:
    """A cost model fitted to 2 to 6 nodes meets what was measured on 12."""
    cells = _cells()
    fits = [PlainFit.of(cells.rows(cells.nodes <= 6), "cost_model")]
    figure = costs.extrapolated(cells, fits, [_configuration("pipeline")], (2, 4096), 6)
    (panel,) = figure.axes
    x, predicted = _line(panel, "cost model")
    assert x == list(range(2, 13))
    measured = _line(panel, "measured")
    assert measured[0] == [2, 4, 6, 12]
    assert predicted[-1] == pytest.approx(measured[1][-1], rel=0.01)


def test_extrapolated_needs_something_measured() -> None:
    """A message size that nobody measured is an error."""
    with pytest.raises(DataError, match="with 2 processes per node and 7 bytes"):
        costs.extrapolated(_cells(), [], [_configuration("pipeline")], (2, 7), 6)


def test_reach_shows_gain_and_harm_of_each_training() -> None:
    """A bar per learner and training, as high as the figures of the evaluation."""
    found = [
        evaluate_split(
            _dataset(),
            NodeCounts(nodes, (12,)),
            learners=("knn",),
            guard=False,
            with_references=False,
            jobs=1,
        )
        for nodes in ((2, 4), (2, 4, 6))
    ]
    gain, harm = costs.reach(found, ["knn"]).axes
    assert [label.get_text() for label in gain.get_xticklabels()] == ["2, 4", "2, 4, 6"]
    for panel, shares in (
        (gain, [one.scores["knn"][ALL].log_gain_share for one in found]),
        (harm, [one.scores["knn"][ALL].slower_share for one in found]),
    ):
        inside = panel.transData.inverted()
        boxes = [bar.get_window_extent().transformed(inside) for bar in panel.patches]
        ends = [box.y1 if box.y1 > 0 else box.y0 for box in boxes]
        assert ends == pytest.approx([100 * (share or 0) for share in shares], abs=1e-6)
