"""The pictures of predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from colltune.models.plain_fit import MEASURED
from colltune.plots import predictions


def test_each_configuration_has_a_panel_with_lines_and_dots() -> None:
    """Lines are the learners', dots what was measured; an empty message is drawn as 1 B."""
    panels = [panel for panel in predictions.curves(curves()).axes if panel.axison]
    assert [panel.get_title() for panel in panels] == ["binomial", "chain segsize=1024", "default"]
    gam, mgcv, measured = panels[0].lines
    assert [line.get_label() for line in (gam, mgcv, measured)] == ["gam", "mgcv", "measured"]
    assert np.asarray(measured.get_xdata()).tolist() == [1, 1024]
    assert np.asarray(measured.get_ydata()).tolist() == pytest.approx([10, 20])
    assert np.asarray(mgcv.get_ydata()).tolist() == pytest.approx([10, 15, 20])


def test_boxes_are_the_quartiles_of_predicted_over_measured() -> None:
    """One box for each configuration and learner, a line at 1."""
    (panel,) = predictions.errors(compared()).axes
    assert [label.get_text() for label in panel.get_xticklabels()] == ["chain", "default"]
    inside = panel.transData.inverted()
    boxes = [patch.get_path().get_extents() for patch in panel.patches]
    assert inside is not None
    assert len(boxes) == 4
    assert [(box.y0, box.y1) for box in boxes[:2]] == [
        (pytest.approx(0.9), pytest.approx(1.1)),
        (pytest.approx(0.9), pytest.approx(1.1)),
    ]
    assert [(box.y0, box.y1) for box in boxes[2:]] == [
        (pytest.approx(1.8), pytest.approx(2.2)),
        (pytest.approx(1.8), pytest.approx(2.2)),
    ]


def test_names_are_no_formulas() -> None:
    """A dollar in a name, which any file may bring, is drawn as such."""
    table = pd.concat([curves().assign(configuration="a$b$"), curves()], ignore_index=True)
    figure = predictions.curves(table)
    figure.canvas.draw_idle()
    assert figure.axes[0].get_title() == r"a\$b\$"


def curves() -> pd.DataFrame:
    """Return runtimes over message size of three configurations and two learners."""
    rows = [
        (learner, configuration, size, 1e-5 * (1 + size / 1024))
        for configuration in ("default", "binomial", "chain segsize=1024")
        for learner, sizes in (
            (MEASURED, (0, 1024)),
            ("gam", (1, 512, 1024)),
            ("mgcv", (1, 512, 1024)),
        )
        for size in sizes
    ]
    table = pd.DataFrame(rows, columns=["learner", "configuration", "msize_bytes", "time_s"])
    table["time_s"] = table["time_s"].round(6)
    return table


def compared() -> pd.DataFrame:
    """Return predictions of two learners: one right up to 20 %, the other twice as long."""
    rows = [
        (learner, configuration, 1.0, factor * ratio)
        for configuration in ("default", "chain")
        for learner, factor in (("gam", 1.0), ("mgcv", 2.0))
        for ratio in (0.8, 0.9, 1.0, 1.1, 1.2)
    ]
    return pd.DataFrame(rows, columns=["learner", "configuration", "measured_s", "predicted_s"])
