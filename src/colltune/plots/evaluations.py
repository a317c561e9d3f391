"""The figures 2 and 4 to 8 of Hunold et al. (CLUSTER 2020) for any dataset, and gain over harm.

Figure 2 is what an algorithm's parameters are worth: there the speed-up of the chain algorithm of
MPI_Bcast over the linear one on 32 x 32 processes, a line per segment size and number of chains.

Figures 4, 6, 7 and 8 are the same picture of different datasets: the running time of the best, the
default and the predicted algorithm over that of the best, one panel per nodes x ppn of the test
set, over the message size. Figure 5 shows which algorithm each learner takes for which nodes x ppn
and message size, without parameters such as the segment size.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError, say, unknown
from colltune.evaluation import Evaluation
from colltune.evaluation.request import PaperDataset
from colltune.evaluation.run import GuardEffect
from colltune.evaluation.scores import ALL, Score
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.plot_data.decisions import spread
from colltune.plots import scaffold
from colltune.plots.saving import saved
from colltune.plots.scaffold import COLOURS, entitle, finish, legend_columns, plain
from colltune.text import bytes_text

_MARKERS = "x+1*2d3"
_NOTHING = "there is nothing to gain:\nthe default is the fastest everywhere"
_MOST_PANELS = 30
_MOST_RATIO = 20.0
_NAMES = {
    "published_knn": "KNN",
    "published_gam": "GAM",
    "published_xgboost": "XGBoost",
    "virtual_best": "best possible",
}
_LINEAR = ("basic_linear", "linear", "flattree", "flat_tree")
_DASHES = ("-", "--", ":", "-.")
_COLOURS = 10
_ENOUGH = 0.75

Pair = tuple[int, int]
Flags = NDArray[np.bool_]


def draw_all(
    datasets: Sequence[PaperDataset], measured: Sequence[PerformanceDataset], folder: Path
) -> list[Path]:
    """Draw the pictures of each dataset into PNG files in `folder` and return their paths.

    Figures 4 and 5 show the decisions after the large training, figure 2 what was `measured`, where
    that is more than one configuration. `datasets` are drawn one after another.
    """
    paths = []
    of_context = {data.context: data for data in measured}
    for dataset in datasets:
        context = dataset.context
        name = f"{dataset.label}_{context.machine}_{context.library}_{dataset.collective}"
        stem = re.sub(r"[^\w.-]+", "-", name)
        with suppress(DataError):
            figure = algorithm_speedups(speedups(of_context[context], dataset.collective))
            paths.append(saved(figure, folder / f"figure2_{stem}.png", dpi=110))
        paths.append(saved(runtimes(dataset), folder / f"figure4_{stem}.png", dpi=110))
        paths.append(saved(decisions(dataset), folder / f"figure5_{stem}.png", dpi=110))
    return paths


def _title(dataset: PaperDataset, what: str) -> str:
    return f"{what} for {dataset.collective.mpi_name}; {dataset.context}"


def _shapes(run: Evaluation, rows: Flags) -> list[Pair]:
    tested = run.tested
    pairs = zip(tested.nodes[rows].tolist(), tested.ppn[rows].tolist(), strict=True)
    return sorted(set(pairs))


def runtimes(dataset: PaperDataset, most_panels: int = _MOST_PANELS) -> Figure:
    """Return the figure 4 (6, 7, 8) of a dataset, with `most_panels` shapes at most."""
    run = dataset.large
    rows = run.tested.of(dataset.collective.value)
    shapes = _shapes(run, rows)
    shown = [shapes[k] for k in spread(len(shapes), most_panels)]
    across = min(5, len(shown))
    down = math.ceil(len(shown) / across)
    size = (max(6.5, 2.7 * across + 0.6), 2.1 * down + 1.6)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for panel, shape in zip(panels.flat, shown, strict=False):
        _runtime_panel(panel, run, rows & _is_shape(run, shape), shape)
    finish(figure, panels, len(shown), "time / best")
    # shared by all panels, so that the highest line of any decides
    highest = max(float(max(line.get_ydata())) for panel in panels.flat for line in panel.lines)
    panels[0, 0].set_ylim(0.93, 1.1 * highest)
    hidden = len(shapes) - len(shown)
    note = f" ({hidden} more shapes not shown)" if hidden else ""
    entitle(figure, _title(dataset, "Algorithm selection strategies") + note)
    return figure


def _is_shape(run: Evaluation, shape: Pair) -> Flags:
    return np.asarray((run.tested.nodes == shape[0]) & (run.tested.ppn == shape[1]))


def _runtime_panel(panel: Axes, run: Evaluation, rows: Flags, shape: Pair) -> None:
    tested = run.tested
    order = np.argsort(tested.msize_bytes[rows], kind="stable")
    sizes, best = tested.msize_bytes[rows][order], tested.best_s[rows][order]
    x = np.maximum(sizes, 1)
    lines = {"exhaustive search (best)": best, "default": tested.default_s[rows][order]}
    styles = {"exhaustive search (best)": ("0.25", "-", ""), "default": ("tab:red", "--", "s")}
    for name, (colour, marker) in _predicted(run).items():
        label = f"prediction ({_NAMES.get(name, name)})"
        lines[label] = run.decided[name].selected_s[rows][order]
        styles[label] = (colour, "-", marker)
    for label, times_s in lines.items():
        colour, line, marker = styles[label]
        ratio = np.minimum(times_s / best, _MOST_RATIO)
        panel.plot(x, ratio, line, color=colour, marker=marker, markersize=4, label=label)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda value, _position: f"{value:g}" if 1 < value <= 6 else "")
    panel.tick_params(axis="both", which="both", labelsize="x-small")
    panel.grid(color="0.9")
    panel.set_title(f"{shape[0]} x {shape[1]}", fontsize="small")


def _predicted(run: Evaluation) -> dict[str, tuple[str, str]]:
    """Return the selectors that figure 4 shows: the paper's GAM, and what was asked for."""
    found = {"published_gam": ("tab:green", "^")} if "published_gam" in run.decided else {}
    colours = ("tab:blue", "tab:purple", "tab:orange", "tab:brown")
    for name, colour in zip(run.learners, colours, strict=False):
        found[name] = (colour, "o")
    return found


def decisions(dataset: PaperDataset) -> Figure:
    """Return the figure 5 of a dataset: one panel per selector."""
    run = dataset.large
    rows = run.tested.of(dataset.collective.value)
    chosen = _algorithms(run, rows)
    names = sorted({a for algorithms in chosen.values() for a in algorithms})
    palette = colormaps["tab20"]
    colour = {name: palette(k % 20) for k, name in enumerate(names)}
    shapes = _shapes(run, rows)
    across = min(2, len(chosen))
    down = math.ceil(len(chosen) / across)
    width = across * max(3.6, 0.2 * len(shapes) + 1.2)
    figure = Figure(figsize=(width, 3.0 * down + 1.4), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)
    for panel, (name, algorithms) in zip(panels.flat, chosen.items(), strict=False):
        _decision_panel(panel, run, rows, shapes, [colour[a] for a in algorithms])
        panel.set_title(_NAMES.get(name, name), fontsize="small")
    for panel in panels.flat[len(chosen) :]:
        panel.set_axis_off()
    patches = [Patch(color=colour[name], label=plain(name)) for name in names]
    columns = legend_columns(figure, names)
    figure.legend(handles=patches, loc="outside lower center", ncols=columns, fontsize="small")
    entitle(figure, _title(dataset, "Selected algorithm by nodes x ppn"))
    return figure


def _algorithms(run: Evaluation, rows: Flags) -> dict[str, list[str]]:
    """Return the algorithms that each selector took on the instances of `rows`."""
    wanted = [name for name in _NAMES if name in run.decided and name != "virtual_best"]
    ids: Mapping[str, Sequence[str]] = {
        name: run.decided[name].configuration for name in (*wanted, *run.learners)
    } | {"virtual_best": run.tested.best}
    return {
        name: [Configuration.parse(found[k]).algorithm for k in np.flatnonzero(rows).tolist()]
        for name, found in ids.items()
    }


def _decision_panel(
    panel: Axes, run: Evaluation, rows: Flags, shapes: Sequence[Pair], colours: Sequence[Any]
) -> None:
    tested = run.tested
    sizes = sorted({int(m) for m in tested.msize_bytes[rows]})
    image = np.ones((len(sizes), len(shapes), 4))
    for k, colour in zip(np.flatnonzero(rows), colours, strict=True):
        x = shapes.index((int(tested.nodes[k]), int(tested.ppn[k])))
        image[sizes.index(int(tested.msize_bytes[k])), x] = colour
    panel.imshow(image, aspect="auto", origin="lower", interpolation="nearest")
    panel.set_xticks(range(len(shapes)), [f"{n}x{p}" for n, p in shapes], rotation=90)
    shown = spread(len(sizes), 12)
    panel.set_yticks(shown, [bytes_text(sizes[k]) for k in shown])
    panel.tick_params(labelsize="x-small")


class Speedups(NamedTuple):
    """Times of some configurations of a collective on one shape, over those of a reference.

    ``speedup`` (n, C) is t_reference / t_configuration for the ``msize_bytes`` (n) of the
    ``configurations`` (C), NaN where one of the two was not measured. ``family`` is the algorithm
    whose parameters differ; None: the algorithms do.
    """

    collective: Collective
    shape: Shape
    reference: Configuration
    family: str | None
    configurations: tuple[Configuration, ...]
    msize_bytes: NDArray[np.int64]
    speedup: NDArray[np.float64]


def speedups(dataset: PerformanceDataset, collective: Collective | None = None) -> Speedups:
    """Return the speed-ups of the algorithm with the most parameter values over the linear one.

    Where no algorithm was measured with several parameter values, all algorithms are compared.
    The reference is the linear algorithm, or else the library's default, or else the first
    configuration; the shape is the largest on which three quarters of the most were measured.
    """
    matrices = cell_matrices(dataset)
    if collective is not None and collective not in matrices:
        raise unknown("collective of the data", collective, matrices, DataError)
    if not matrices:
        raise say("nothing-usable", what="the data")
    cells = _richest(matrices.values()) if collective is None else matrices[collective]
    reference = _reference(cells)
    family = _family(cells)[0] if _family(cells)[1] > 1 else None
    columns = [
        column
        for column, c in enumerate(cells.configurations)
        if column != reference and family in (None, c.algorithm)
    ]
    if not columns:
        raise say("one-configuration", collective=cells.collective)
    return _of_shape(cells, reference, columns, family)


def _richest(matrices: Iterable[CellMatrix]) -> CellMatrix:
    """Return the collective with the most parameter values of one algorithm.

    Of several the first that has a linear algorithm, that of the paper before others.
    """

    def rank(cells: CellMatrix) -> tuple[int, bool, bool, str]:
        other = cells.collective is not Collective.BCAST
        return -_family(cells)[1], _linear(cells) is None, other, cells.collective

    return min(matrices, key=rank)


def _family(cells: CellMatrix) -> tuple[str, int]:
    """Return the algorithm with the most configurations, and how many these are."""
    counts = Counter(c.algorithm for c in cells.configurations)
    return min(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _linear(cells: CellMatrix) -> int | None:
    names = [c.algorithm for c in cells.configurations]
    return next((names.index(name) for name in _LINEAR if name in names), None)


def _reference(cells: CellMatrix) -> int:
    linear = _linear(cells)
    return linear if linear is not None else cells.default_column or 0


def _of_shape(
    cells: CellMatrix, reference: int, columns: list[int], family: str | None
) -> Speedups:
    speedup = cells.time_s[:, [reference]] / cells.time_s[:, columns]
    known = Counter[tuple[int, int]]()
    for nodes, ppn, row in zip(cells.nodes, cells.ppn, speedup, strict=True):
        known[int(nodes), int(ppn)] += int(np.isfinite(row).sum())
    enough = _ENOUGH * max(known.values())
    nodes, ppn = max(
        (shape for shape, count in known.items() if count >= enough),
        key=lambda shape: (shape[0] * shape[1], shape),
    )
    rows = (cells.nodes == nodes) & (cells.ppn == ppn)
    return Speedups(
        cells.collective,
        Shape(nodes, ppn),
        cells.configurations[reference],
        family,
        tuple(cells.configurations[c] for c in columns),
        cells.msize_bytes[rows],
        speedup[rows],
    )


def algorithm_speedups(found: Speedups) -> Figure:
    """Draw speed-ups over message size, a line per configuration."""
    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    panel = figure.subplots()
    sizes = found.msize_bytes.tolist()
    for number, configuration in enumerate(found.configurations):
        ratio = found.speedup[:, number]
        rows = np.isfinite(ratio)
        text = configuration.parameter_text if found.family else configuration.algorithm
        panel.plot(
            np.array(scaffold.size_places(sizes))[rows],
            ratio[rows],
            linestyle=_DASHES[number // _COLOURS % len(_DASHES)],
            color=colormaps["tab10"](number % _COLOURS),
            marker="o",
            markersize=3.5,
            label=plain(text or configuration.algorithm),
        )
    panel.axhline(1, color="0.3", linewidth=0.8)
    scaffold.size_axis(panel, sizes)
    panel.set_xlabel("message size")
    known = found.speedup[np.isfinite(found.speedup)]
    scaffold.ratio_axis(panel, "y", *(float(f(known)) for f in (np.min, np.max)))
    panel.set_ylabel(plain(f"speed-up over {found.reference.short}"))
    panel.grid(color="0.9")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    what = f"configurations of {found.family}" if found.family else "algorithms"
    title = f"Speed-ups of {what} of {found.collective.mpi_name} on {found.shape} processes"
    panel.set_title(plain(title), loc="left", fontsize="medium")
    return figure


def gain_and_harm(
    effects: Sequence[GuardEffect],
    references: Mapping[str, Mapping[str, Score]] | None = None,
    title: str = "",
) -> Figure:
    """Draw share of the possible gain over share of harm; upper left is best.

    A line leads from each learner without guard, open, to the same with it, filled; `references`
    are scores of others by name, in grey; `title` says what was tested.
    """
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    panel = figure.subplots()
    for number, effect in enumerate(effects):
        colour = COLOURS[number % len(COLOURS)]
        pair = [effect.unguarded[ALL], effect.guarded[ALL]]
        way = [[_harm(score) for score in pair], [_share(score) for score in pair]]
        panel.plot(*way, color=colour, linewidth=1)
        panel.plot(way[0][0], way[1][0], "o", color=colour, markerfacecolor="white")
        panel.plot(way[0][1], way[1][1], "o", color=colour, label=plain(effect.learner))
    for number, (name, scores) in enumerate((references or {}).items()):
        marker = _MARKERS[number % len(_MARKERS)]
        x, y = _harm(scores[ALL]), _share(scores[ALL])
        panel.plot(x, y, marker, color="0.3", markersize=8, label=plain(name))
    panel.axhline(0, color="0.6", linewidth=0.8)
    panel.set_xlabel("decisions more than 5 % slower than the default [%]")
    panel.set_ylabel("share of the possible log gain [%]")
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.margins(0.12, 0.1)
    panel.set_xlim(left=min(0.0, panel.get_xlim()[0]))
    scored = [effect.guarded[ALL] for effect in effects]
    if any(score.log_gain_share is None for score in scored):
        panel.text(0.5, 0.5, _NOTHING, transform=panel.transAxes, ha="center", color="0.4")
    panel.set_title("filled: with guard, open: the same models without", fontsize="small")
    figure.legend(loc="outside right center", frameon=False, fontsize="small")
    if title:
        entitle(figure, title)
    return figure


def _harm(score: Score) -> float:
    return 100 * score.slower_share


def _share(score: Score) -> float:
    return float("nan") if score.log_gain_share is None else 100 * score.log_gain_share
