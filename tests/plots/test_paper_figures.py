"""The figures of the paper."""

from __future__ import annotations

import numpy as np

from colltune.domain import Collective
from colltune.evaluation import evaluate_split
from colltune.evaluation.paper import PaperLarge, paper_datasets
from colltune.plots.paper_figures import runtimes
from tests.models.machines import measured


def test_all_panels_of_figure_4_show_all_of_their_lines() -> None:
    """The axes, which panels share, reach as far as the highest line of any of them."""
    data = measured(nodes=(2, 4, 8, 16, 32), ppn=(1, 8), collectives=(Collective.BCAST,))
    run = evaluate_split(data, PaperLarge(), learners=("knn",), jobs=1)
    (dataset,) = paper_datasets([(run, run)])
    figure = runtimes(dataset)
    panels = [panel for panel in figure.axes if panel.axison]
    highest = max(float(np.max(np.asarray(line.get_ydata()))) for p in panels for line in p.lines)
    assert len(panels) == 4
    assert {panel.get_ylim() for panel in panels} == {(0.93, 1.1 * highest)}
    assert sum(panel.axison for panel in runtimes(dataset, 3).axes) == 3
