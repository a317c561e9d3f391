"""The figures 4 to 8 of Hunold et al. (CLUSTER 2020) for any dataset.

Figures 4, 6, 7 and 8 are the same picture of different datasets: the running time of the best, the
default and the predicted algorithm over that of the best, one panel per nodes x ppn of the test
set, over the message size. Figure 5 shows which algorithm each learner takes for which nodes x ppn
and message size, without parameters such as the segment size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from colltune.domain import Configuration
from colltune.evaluation import Evaluation
from colltune.evaluation.paper import PaperDataset
from colltune.plot_data.pick import spread
from colltune.plots.lettering import plain
from colltune.plots.saving import saved
from colltune.text import bytes_text

_MOST_PANELS = 30
_MOST_RATIO = 20.0
_NAMES = {
    "published_knn": "KNN",
    "published_gam": "GAM",
    "published_xgboost": "XGBoost",
    "virtual_best": "best possible",
}
Shape = tuple[int, int]
Flags = NDArray[np.bool_]


def draw_all(datasets: Sequence[PaperDataset], folder: Path) -> list[Path]:
    """Draw both pictures of each dataset into PNG files in `folder` and return their paths.

    They show the decisions after the large training.

    `datasets` are drawn one after another.

    Raises
    ------
    OutputError
        If a file cannot be written.
    """
    paths = []
    for dataset in datasets:
        context = dataset.context
        name = f"{dataset.label}_{context.machine}_{context.library}_{dataset.collective}"
        stem = re.sub(r"[^\w.-]+", "-", name)
        paths.append(saved(runtimes(dataset), folder / f"figure4_{stem}.png", dpi=110))
        paths.append(saved(decisions(dataset), folder / f"figure5_{stem}.png", dpi=110))
    return paths


def _title(dataset: PaperDataset, what: str) -> str:
    return plain(f"{what} for {dataset.collective.mpi_name}; {dataset.context}")


def _shapes(run: Evaluation, rows: Flags) -> list[Shape]:
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
    for place, panel in enumerate(panels.flat):
        if place >= len(shown):
            panel.set_axis_off()
        elif place + across >= len(shown):
            panel.set_xlabel("message size [bytes]", fontsize="small")
            panel.tick_params(labelbottom=True)
    _finish_runtimes(figure, panels, dataset, len(shapes) - len(shown))
    return figure


def _finish_runtimes(figure: Figure, panels: Any, dataset: PaperDataset, hidden: int) -> None:
    for panel in panels[:, 0]:
        panel.set_ylabel("time / best")
    # shared by all panels, so that the highest line of any decides
    highest = max(float(max(line.get_ydata())) for panel in panels.flat for line in panel.lines)
    panels[0, 0].set_ylim(0.93, 1.1 * highest)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    note = f" ({hidden} more shapes not shown)" if hidden else ""
    figure.suptitle(_title(dataset, "Algorithm selection strategies") + note)


def _is_shape(run: Evaluation, shape: Shape) -> Flags:
    return np.asarray((run.tested.nodes == shape[0]) & (run.tested.ppn == shape[1]))


def _runtime_panel(panel: Axes, run: Evaluation, rows: Flags, shape: Shape) -> None:
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
    columns = max(1, min(len(names), int(width // 1.9)))
    figure.legend(handles=patches, loc="outside lower center", ncols=columns, fontsize="small")
    figure.suptitle(_title(dataset, "Selected algorithm by nodes x ppn"))
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
    panel: Axes, run: Evaluation, rows: Flags, shapes: Sequence[Shape], colours: Sequence[Any]
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
