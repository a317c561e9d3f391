"""Gains over the default, predicted with their bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.decisions import Selection
from colltune.domain import Instance
from colltune.plots import scaffold
from colltune.selector.argmin import ModelSelector

_KEPT = "0.88"


def guard(selector: ModelSelector, instances: Sequence[Instance]) -> Figure:
    """Draw the gains predicted for `instances`, at least one, of one collective and shape.

    The line is t_default / t_fastest as predicted, the band reaches down to the bound that the
    guard compares with the noise; grey is where it keeps the default.
    """
    unguarded = selector.unguarded()
    guarded = selector.select_many(instances)
    gains = np.array([s.gain for s in unguarded.select_many(instances)])
    bounds = np.array([np.nan if s.gain_bound is None else s.gain_bound for s in guarded])
    asked = [instance.msize_bytes for instance in instances]
    sizes = np.array(scaffold.size_places(asked))
    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    panel = figure.subplots()
    panel.plot(sizes, gains, color="tab:blue", linewidth=2, label="predicted gain of the fastest")
    panel.plot(sizes, bounds, color="tab:blue", linewidth=0.9, linestyle="--", label="its bound")
    panel.fill_between(sizes, bounds, gains, color="tab:blue", alpha=0.15, linewidth=0)
    panel.axhline(1, color="0.3", linewidth=0.8)
    scaffold.size_axis(panel, asked)
    panel.set(yscale="log", xlabel="message size")
    panel.set_ylabel("gain over the default")
    panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda value, _position: f"{value:g}" if value < 5 else "")
    panel.tick_params(axis="y", which="both", labelsize="small")
    panel.set_xlim(sizes.min(), max(sizes.max(), 2 * sizes.min()))
    _shade_kept(panel, sizes, guarded)
    panel.legend(loc="best", frameon=False, fontsize="small")
    first = instances[0]
    scaffold.entitle(figure, f"{first.collective.mpi_name} on {first.shape}: the guard")
    return figure


def _shade_kept(panel: Axes, sizes: np.ndarray, guarded: Sequence[Selection]) -> None:
    """Shade the message sizes at which the default is kept, each up to the middle of the next."""
    ends = np.concatenate([[sizes[0]], np.sqrt(sizes[1:] * sizes[:-1]), [sizes[-1]]])
    label = "default kept"
    for place, selection in enumerate(guarded):
        if selection.configuration.is_default:
            panel.axvspan(
                ends[place], ends[place + 1], color=_KEPT, linewidth=0, zorder=0, label=label
            )
            label = ""
