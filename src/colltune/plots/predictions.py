"""What is predicted for other machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from colltune.domain import Instance, Shape
from colltune.plots.scaffold import entitle
from colltune.text import bytes_text

if TYPE_CHECKING:
    from colltune.decisions import Prediction
    from colltune.models.bundle import Bundle
    from colltune.selector.what_if import Situation, WhatIf


def what_if(asked: WhatIf, bundle: Bundle, now: Situation, then: Situation) -> Figure:
    """Return the predicted times between `now` and `then`, over nodes and, if they change, rails.

    Bands are the 90 % intervals of the chosen configuration; grey is outside the measured nodes.
    """
    n_panels = 1 if now.rails == then.rails else 2
    figure = Figure(figsize=(5.2 * n_panels, 4.2), layout="constrained")
    panels = figure.subplots(1, n_panels, sharey=True, squeeze=False)[0]
    _over_nodes(panels[0], asked, bundle, now, then)
    if n_panels == 2:
        _over_rails(panels[1], asked, now, then)
    panels[0].set_ylabel("predicted runtime [µs]")
    panels[0].legend(loc="best", frameon=False)
    instance = then.instance
    size = bytes_text(instance.msize_bytes)
    entitle(figure, f"{instance.collective.mpi_name} of {size}, {bundle.context}")
    return figure


def _over_nodes(
    panel: Axes, asked: WhatIf, bundle: Bundle, now: Situation, then: Situation
) -> None:
    coverage = bundle.model(then.instance.collective).coverage
    low, high = int(coverage.low[0]), int(coverage.high[0])
    ends = (now.instance.shape.nodes, then.instance.shape.nodes)
    counts = _doubling(min(low, *ends), max(high, *ends), ends)
    ppn = then.instance.shape.ppn
    before = [_with(now, nodes=count, ppn=ppn) for count in counts]
    _curve(panel, asked, counts, before, "tab:blue", _rails_text(now))
    if now.rails != then.rails:
        after = [_with(then, nodes=count, ppn=ppn) for count in counts]
        _curve(panel, asked, counts, after, "tab:green", _rails_text(then))
    _finish(panel, counts, then.instance.shape.nodes, f"nodes, ppn {ppn} (grey: not measured)")
    left, right = panel.get_xlim()
    for start, end in ((left, low), (high, right)):
        if start < end:
            panel.axvspan(start, end, color="0.9", linewidth=0, zorder=0)
    panel.set_xlim(left, right)


def _over_rails(panel: Axes, asked: WhatIf, now: Situation, then: Situation) -> None:
    ends = (now.rails.adapters, then.rails.adapters)
    counts = _doubling(min(ends), max(ends), ends)
    after = [
        then._replace(rails=then.rails._replace(adapters=count), instance=then.instance)
        for count in counts
    ]
    _curve(panel, asked, counts, after, "tab:green", "")
    _finish(panel, counts, then.rails.adapters, f"rails per node, {then.instance.shape}")


def _curve(
    panel: Axes,
    asked: WhatIf,
    counts: Sequence[int],
    situations: Sequence[Situation],
    colour: str,
    label: str,
) -> None:
    selections = [asked.answer(situation).selection for situation in situations]
    name = f", {label}" if label else ""
    default = [_us(s.default) for s in selections]
    panel.plot(counts, default, "--", color=colour, alpha=0.7, label=f"default{name}")
    chosen = [_us(s.prediction) for s in selections]
    panel.plot(counts, chosen, color=colour, marker="o", markersize=3, label=f"chosen{name}")
    low = [s.prediction.lower_s * 1e6 if s.prediction else float("nan") for s in selections]
    high = [s.prediction.upper_s * 1e6 if s.prediction else float("nan") for s in selections]
    panel.fill_between(counts, low, high, color=colour, alpha=0.15, linewidth=0)


def _finish(panel: Axes, counts: Sequence[int], asked_for: int, label: str) -> None:
    panel.set(xscale="log", yscale="log", xlabel=label)
    panel.axvline(asked_for, color="0.4", linewidth=0.8, linestyle=":")
    ticks = [c for k, c in enumerate(counts) if k == 0 or c >= 1.3 * counts[k - 1]]
    panel.set_xticks(ticks, [str(count) for count in ticks])
    panel.xaxis.minorticks_off()


def _with(situation: Situation, *, nodes: int, ppn: int) -> Situation:
    instance = situation.instance
    moved = Instance(instance.collective, Shape(nodes, ppn), instance.msize_bytes)
    return situation._replace(instance=moved)


def _rails_text(situation: Situation) -> str:
    count = situation.rails.adapters
    return "1 rail" if count == 1 else f"{count} rails"


def _us(prediction: Prediction | None) -> float:
    return float("nan") if prediction is None else prediction.time_s * 1e6


def _doubling(least: int, most: int, also: Sequence[int]) -> list[int]:
    """Return `least`, its doubles below `most`, `most`, and the counts of `also`, ascending."""
    counts = {least, most, *also}
    count = least
    while count < most:
        counts.add(count)
        count *= 2
    return sorted(counts)
