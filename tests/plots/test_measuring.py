"""The picture of an adapted threshold."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.errors import DataError
from colltune.mpi.libcolltune.adaptation import (
    Adaptation,
    Iteration,
    IterationKind,
    IterationVerdict,
)
from colltune.plots import measuring

ADAPTATION = Adaptation(
    0,
    8,
    (
        Iteration(0, 0, 0.020, IterationKind.ORDINARY, IterationVerdict.NONE),
        Iteration(1, 0, 0.021, IterationKind.REFERENCE, IterationVerdict.NONE),
        Iteration(2, 64, 0.012, IterationKind.TEST, IterationVerdict.KEPT),
        Iteration(3, 64, 0.012, IterationKind.REFERENCE, IterationVerdict.NONE),
        Iteration(4, 4096, 0.030, IterationKind.TEST, IterationVerdict.REJECTED),
        Iteration(5, 64, 0.040, IterationKind.REFERENCE, IterationVerdict.RESTARTED),
    ),
)


def test_times_and_thresholds_are_drawn() -> None:
    """Above are all times, tests by what became of them; below are the thresholds in force."""
    above, below = measuring.threshold_over_iterations(ADAPTATION).axes
    drawn = {line.get_label(): line for line in above.lines}
    assert set(drawn) == {
        "best threshold",
        "tested and kept",
        "tested and rejected",
        "workload changed: all values tried again",
    }
    assert np.asarray(drawn["best threshold"].get_xdata()).tolist() == [0, 1, 3, 5]
    assert np.asarray(drawn["best threshold"].get_ydata()) == pytest.approx([20, 21, 12, 40])
    assert np.asarray(drawn["tested and kept"].get_xdata()).tolist() == [2]
    in_force = next(line for line in below.lines if line.get_label() == "in force")
    assert np.asarray(in_force.get_ydata()).tolist() == [0, 0, 64, 64]
    assert [label.get_text() for label in below.get_yticklabels()] == [
        "0 (pairwise)",
        "64 B",
        "4 KiB",
    ]


def test_nothing_is_not_drawn() -> None:
    """An adaptation without iterations is an error."""
    with pytest.raises(DataError, match="no iterations"):
        measuring.threshold_over_iterations(Adaptation(0, 8, ()))
