"""A grid of panels of times over message size, with one legend below."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure


def finish(figure: Figure, panels: Any, used: int) -> None:
    """Label the first `used` of a figure's `panels`, hide the others, and write the legend.

    Parameters
    ----------
    figure
        With constrained layout.
    panels
        Axes, shape (down, across), as of ``figure.subplots(..., squeeze=False)``.
    used
        How many of them, row by row, show something.
    """
    across = panels.shape[1]
    for place, panel in enumerate(panels.flat):
        if place >= used:
            panel.set_axis_off()
        elif place + across >= used:
            panel.set_xlabel("message size [bytes]", fontsize="small")
            panel.tick_params(labelbottom=True)
    for panel in panels[:, 0]:
        panel.set_ylabel("time [µs]")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
