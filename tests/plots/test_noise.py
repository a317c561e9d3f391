"""The pictures of noise, and of what statistics of repetitions choose."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from colltune.dataset.noise import NoisyCell, measured
from colltune.dataset.noise.choices import Payoff, Statistic
from colltune.errors import DataError
from colltune.plots.noise import disagreements, payoffs, repetitions
from tests.dataset.noise.simulated import Machine, simulate


def _cell(msize_bytes: int, configuration: str) -> NoisyCell:
    return NoisyCell(configuration, 4, 8, msize_bytes, 1, 1.0, 1.0, None)


def test_all_repetitions_are_drawn_in_order_in_their_allocations_colours() -> None:
    """Points are the raw times launch after launch, black lines their medians."""
    dataset, allocations = simulate(Machine(within=0.1, allocations=2, launches=2, reps=20), 1)
    table = measured(dataset, allocations)
    row = table.sort_values("launch").iloc[0]
    cell = NoisyCell(
        f"{dataset.context.library}.{row['collective']}.{row['algorithm']}",
        int(row["nodes"]),
        int(row["ppn"]),
        int(row["msize_bytes"]),
        4,
        None,
        1.0,
        None,
    )
    wanted = table[table["cell"] == row["cell"]].sort_values("launch")
    figure = repetitions(table, cell)
    along, across = figure.axes
    points = [line for line in along.lines if line.get_marker() == "."]
    drawn = np.concatenate([np.asarray(line.get_ydata()) for line in points])
    assert drawn == pytest.approx(np.concatenate(wanted["times_s"].to_list()) * 1e6)
    assert len({line.get_color() for line in points}) == wanted["allocation"].nunique() == 2
    medians = [np.asarray(c.get_paths()[0].vertices)[0, 1] for c in along.collections]
    assert medians == pytest.approx([np.median(times) * 1e6 for times in wanted["times_s"]])
    widths = [bar.get_extents().transformed(across.transData.inverted()) for bar in across.patches]
    assert sum(box.x1 - box.x0 for box in widths) == pytest.approx(len(drawn))


def test_a_cell_without_repetitions_is_an_error() -> None:
    """What was not measured cannot be drawn."""
    dataset, allocations = simulate(Machine(within=0.1), 1)
    with pytest.raises(DataError, match=r"no raw repetitions of openmpi.* on 4x8 with 7 bytes"):
        repetitions(measured(dataset, allocations), _cell(7, "openmpi.bcast.chain"))


def test_the_map_shows_each_share_once_in_either_half() -> None:
    """Shares are written as percents; a statistic agrees with itself, which is left out."""
    shares = pd.DataFrame(
        [[0.0, 0.25], [0.25, 0.0]], index=["min", "mean"], columns=["min", "mean"]
    )
    (panel,) = disagreements(shares).axes
    assert [text.get_text() for text in panel.texts] == ["", "25 %", "25 %", ""]
    assert np.asarray(panel.images[0].get_array()).tolist() == shares.to_numpy().tolist()


def test_each_statistic_has_a_panel_with_promise_and_gain() -> None:
    """Lines go over the number of launches, in ascending order."""
    found = [
        Payoff(statistic, launches, 1.2 + launches / 100, 1.1, 1.0, 1.2, 5)
        for statistic in (Statistic.MIN, Statistic.MEAN)
        for launches in (3, 1)
    ]
    panels = payoffs(found).axes
    assert [panel.get_title() for panel in panels] == ["chosen by the min", "chosen by the mean"]
    for panel in panels:
        promised, gained, _ = panel.lines
        assert np.asarray(promised.get_xdata()).tolist() == [1, 3]
        assert np.asarray(promised.get_ydata()).tolist() == [1.21, 1.23]
        assert np.asarray(gained.get_ydata()).tolist() == [1.1, 1.1]
