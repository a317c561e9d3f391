"""Decisions and intervals beside measured times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colltune.domain import Collective, Instance
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.fitting import fit
from colltune.page.evidence import leave_node_counts_out, node_counts
from colltune.plot_data.measured import Errors, compare, gain_bins
from colltune.selector.argmin import ModelSelector
from tests.models.machines import measured

BCAST = Collective.BCAST


@pytest.fixture(scope="module")
def selector() -> ModelSelector:
    """Return a selector fitted without 16 nodes."""
    return ModelSelector(fit(measured(nodes=(2, 4, 8), noise=0.05), "knn"))


@pytest.fixture(scope="module")
def cells() -> CellMatrix:
    """Return measurements of all node counts, other noise."""
    return cell_matrices(measured(noise=0.05))[BCAST]


def test_times_are_the_measured_ones_of_what_select_selects(
    selector: ModelSelector, cells: CellMatrix
) -> None:
    """Default, selected and best are looked up in the data, instance by instance."""
    found = compare(selector, cells)
    selections = selector.select_many(cells.instances())
    for row, selection in enumerate(selections):
        times = dict(zip(cells.configurations, cells.time_s[row].tolist(), strict=True))
        assert found.selected_s[row] == times[selection.configuration]
        assert found.default_s[row] == next(t for c, t in times.items() if c.is_default)
        assert found.best_s[row] == min(times.values())
        assert found.gain[row] == pytest.approx(selection.gain)
        bound = np.nan if selection.gain_bound is None else selection.gain_bound
        assert found.bound[row] == pytest.approx(bound, nan_ok=True)
        assert found.trained[row] == (selection.instance.shape.nodes != 16)
        assert found.replaced[row] != selection.configuration.is_default


def test_summary_is_made_of_known_pairs_only(selector: ModelSelector, cells: CellMatrix) -> None:
    """Where the choice was not measured nothing is claimed; the rest is averaged as stated."""
    whole = compare(selector, cells)
    row = int(np.flatnonzero(whole.replaced)[0])
    time_s = cells.time_s.copy()
    time_s[row, cells.configurations.index(whole.portfolio[int(whole.chosen[row])])] = np.nan
    found = compare(selector, replace(cells, time_s=time_s))
    assert np.isnan(found.selected_s[row])
    summary = found.summary()
    assert (summary.instances, summary.compared) == (len(cells), len(cells) - 1)
    rest = np.arange(len(cells)) != row
    gains = (whole.default_s / whole.selected_s)[rest]
    assert summary.speedup == pytest.approx(float(np.exp(np.log(gains).mean())))
    assert summary.slower_share == pytest.approx(float((gains < 1 / 1.05).mean()))
    assert summary.oracle_speedup is not None
    assert summary.log_gain_share == pytest.approx(
        np.log(gains).mean() / np.log(summary.oracle_speedup)
    )


def test_nothing_is_compared_without_a_measured_default(selector: ModelSelector) -> None:
    """Data without the default give no figures instead of wrong ones."""
    data = measured(algorithms=("linear", "binomial"))
    summary = compare(selector, cell_matrices(data)[BCAST]).summary()
    assert summary.compared == 0
    assert summary.speedup is None
    assert summary.slower_share is None


def test_shares_inside_the_interval_are_counted(selector: ModelSelector) -> None:
    """Times moved far out of the interval are counted on their side, by node count."""
    cells = cell_matrices(measured(nodes=(2, 4, 8), noise=0.05))[BCAST]
    factor = np.where(cells.nodes == 2, 1e3, np.where(cells.nodes == 4, 1e-3, 1.0))
    moved = replace(cells, time_s=cells.time_s * factor[:, None])
    errors = Errors.of(selector.bundle.model(BCAST), moved)
    by_nodes = {row.nodes: row for row in errors.by_nodes()}
    assert (by_nodes[2].above, by_nodes[2].inside) == (1, 0)
    assert (by_nodes[4].below, by_nodes[4].inside) == (1, 0)
    assert by_nodes[8].inside is not None
    assert by_nodes[8].inside > 0.8
    assert errors.all().times == np.isfinite(moved.time_s).sum()
    typical = by_nodes[2].typical_factor
    assert typical is not None
    assert 500 < typical < 2000


def test_configurations_the_bundle_does_not_know_are_passed_over(selector: ModelSelector) -> None:
    """Cells of an algorithm without a model have no error."""
    bundle = fit(measured(algorithms=("default", "linear")), "knn")
    cells = cell_matrices(measured())[BCAST]
    assert Errors.of(bundle.model(BCAST), cells).all().times == 2 * len(cells)
    nothing = cells.rows(np.zeros(len(cells), np.bool_))
    assert Errors.of(bundle.model(BCAST), nothing).all().inside is None


def test_gains_are_binned_by_what_was_predicted(selector: ModelSelector, cells: CellMatrix) -> None:
    """Every replaced decision is in one bin, and a bin's median lies within it."""
    found = compare(selector, cells)
    bins = gain_bins(found)
    assert sum(b.decisions for b in bins) == found.replaced.sum()
    assert all(b.first <= b.median_predicted < (b.last or np.inf) for b in bins)
    bounded = gain_bins(replace(found, bound=found.measured_gain * 0.9))
    assert {b.above_bound_share for b in bounded} == {1.0}
    unknown = gain_bins(replace(found, bound=np.full(len(cells), np.nan)))
    assert {b.above_bound_share for b in unknown} == {None}


def test_held_out_node_counts_were_not_seen(selector: ModelSelector, cells: CellMatrix) -> None:
    """Every instance is decided once, by models that did not know its node count."""
    steps = []
    found = leave_node_counts_out(selector.bundle, cells, jobs=1, step=lambda: steps.append(1))
    assert found is not None
    assert len(steps) == len(node_counts(cells)) == 4
    assert not found.comparison.trained.any()
    instances = zip(*(getattr(found.comparison, n) for n in ("nodes", "ppn", "msize_bytes")))  # noqa: B905
    assert sorted(map(tuple, instances)) == sorted(
        (i.shape.nodes, i.shape.ppn, i.msize_bytes) for i in cells.instances()
    )
    assert found.errors.all().times == np.isfinite(cells.time_s).sum()


def test_portfolios_of_parts_may_differ(selector: ModelSelector) -> None:
    """A configuration measured on one node count only is unknown when that is left out."""

    def elsewhere(algorithm: str, instance: Instance) -> bool:
        return algorithm == "binomial" and instance.shape.nodes != 8

    cells = cell_matrices(measured(left_out=elsewhere))[BCAST]
    found = leave_node_counts_out(selector.bundle, cells, jobs=1)
    assert found is not None
    there = found.comparison.rows(found.comparison.nodes == 8)
    chosen = {there.portfolio[c].algorithm for c in there.chosen.tolist()}
    assert "binomial" not in chosen
    assert "binomial" in {c.algorithm for c in there.portfolio}


def test_two_node_counts_are_too_few_to_leave_one_out(selector: ModelSelector) -> None:
    """With fewer than three node counts there is nothing to tell."""
    cells = cell_matrices(measured(nodes=(2, 4)))[BCAST]
    assert leave_node_counts_out(selector.bundle, cells) is None
