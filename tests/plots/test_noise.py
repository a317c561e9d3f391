"""The pictures of noise, and of what statistics of repetitions choose."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.dataset.noise import NoisyCell, measured
from colltune.errors import DataError
from colltune.plots.noise import repetitions
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
