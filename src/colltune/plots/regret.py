"""Regret: how much slower than the best measured is what is taken, over instances and sizes."""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from colltune.plot_data import regrets
from colltune.plot_data.regrets import InstanceRegrets, Regrets, SelectorRegrets
from colltune.plots import scaffold
from colltune.plots.scaffold import plain

_LEARNED = ("#0072b2", "#009e73", "#cc79a7", "#e69f00")


class _Look(NamedTuple):
    colour: str
    dashes: str
    width: float


def draw(found: Regrets) -> Figure:
    """Draw `found`: the share of instances below each regret, and the mean over message sizes."""
    looks = _looks(found)
    n_groups = len(found.groups)
    frame = scaffold.Frame(found.subject, found.notes)
    figure, blocks = scaffold.blocks([2] * n_groups, 2.3, [2.1] * n_groups, frame)
    for block, group in zip(blocks, found.groups, strict=True):
        _over_instances(block.panels[0], group, looks)
        _over_sizes(block.panels[1], group, looks)
        handles, _ = block.panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            [_label(name, of) for name, of in group.selectors.items()],
            title="geometric mean; 95 % below",
            loc="center left",
            bbox_to_anchor=block.legend_at,
            frameon=False,
            fontsize="small",
            title_fontsize="small",
            alignment="left",
            borderaxespad=0.0,
        )
    return figure


def _looks(found: Regrets) -> dict[str, _Look]:
    looks = {
        regrets.DEFAULT: _Look("#d55e00", "--", 1.8),
        regrets.SINGLE_BEST: _Look("0.5", ":", 1.8),
    }
    for at, name in enumerate(found.learned):
        looks[name] = _Look(_LEARNED[at % len(_LEARNED)], "-", 2.2)
    return looks


def _label(name: str, regrets: SelectorRegrets) -> str:
    return f"{plain(name)}\n{regrets.geometric_mean:.2f}x; {regrets.p95:.2f}x"


def _over_instances(axes: Axes, group: InstanceRegrets, looks: dict[str, _Look]) -> None:
    for name, ratios in group.ratios.items():
        look = looks[name]
        axes.ecdf(
            ratios,
            color=look.colour,
            linestyle=look.dashes,
            linewidth=look.width,
            label=plain(name),
        )
    name = "all collectives" if group.collective is None else group.collective.mpi_name
    axes.set_title(f"{name}, {group.instances} instances", fontsize="medium")
    scaffold.ratio_axis(axes, "x", 1.0, max(float(r.max()) for r in group.ratios.values()))
    axes.set_xlabel("time over best measured", fontsize="small")
    axes.set_ylabel("share of instances", fontsize="small")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    _finish(axes)


def _over_sizes(axes: Axes, group: InstanceRegrets, looks: dict[str, _Look]) -> None:
    highest = 1.0
    every = group.msize_bytes.tolist()
    for name, found in group.selectors.items():
        look, sizes = looks[name], found.by_size
        places = scaffold.place_of([*every, *sizes.msize_bytes])
        x = [places[size] for size in sizes.msize_bytes]
        axes.fill_between(x, sizes.p10, sizes.p90, color=look.colour, alpha=0.1, linewidth=0)
        axes.plot(
            x,
            sizes.geometric_mean,
            color=look.colour,
            linestyle=look.dashes,
            linewidth=look.width,
            marker="o",
            markersize=3,
            label=plain(name),
        )
        highest = max(highest, float(sizes.p90.max()))
    scaffold.size_axis(axes, every)
    scaffold.ratio_axis(axes, "y", 1.0, highest)
    axes.set_title("geometric mean; band: middle 80 %", fontsize="medium")
    axes.set_xlabel("message size", fontsize="small")
    axes.set_ylabel("time over best measured", fontsize="small")
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize="small")
