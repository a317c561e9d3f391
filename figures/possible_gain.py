"""How much there is to gain, and how much of it decisions reach on node counts that were left out.

``python -m figures.possible_gain PICTURE DATA…`` evaluates datasets, leaving out each node count,
prints a table and draws the gains.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from colltune.dataset import read
from colltune.evaluation import ALL, Evaluation, LeaveNodesOut, evaluate_split
from colltune.models.guard import HARM
from colltune.plots.saving import saved
from colltune.plots.scaffold import ratio_axis

_LEARNER = "auto"
_SIZES = {
    "up to 64 B": 64,
    "up to 4 KiB": 4096,
    "up to 256 KiB": 262144,
    "larger": np.inf,
}
_MOST_ACROSS = 4
_POSSIBLE, _REACHED = "#e69f00", "#0072b2"
_COLUMNS = (
    "machine, library",
    "collectives",
    "calls",
    "possible gain",
    "reached, held out",
    "slower by more than 5 % (beyond noise)",
    "worst",
)


def main() -> None:
    """Print the table and draw the picture."""
    picture, *files = map(Path, sys.argv[1:])
    runs = [evaluate_split(read([file]), LeaveNodesOut()) for file in files]
    print(f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}")
    for run in runs:
        print(f"| {' | '.join(_row(run))} |")
    print("\n| message size | calls | possible gain | reached, held out |\n|---|---|---|---|")
    for (_, low), (name, high) in pairwise([("", -1), *_SIZES.items()]):
        print(f"| {name} | {_of_sizes(runs, low, high)} |")
    gains = np.concatenate([run.tested.default_s / run.tested.best_s for run in runs])
    parts = [f"{(gains > least).mean():.0%} of the calls more than {least}x" for least in (1.2, 2)]
    print(f"\npossible: {', '.join(parts)}")
    saved(drawn(runs), picture, dpi=110)


def _of_sizes(runs: list[Evaluation], low: float, high: float) -> str:
    """Return the geometric means over all calls of more than `low` and up to `high` bytes."""
    gains = []
    for run in runs:
        tested = run.tested
        rows = (tested.msize_bytes > low) & (tested.msize_bytes <= high)
        times_s = (tested.best_s, run.decided[_LEARNER].selected_s)
        gains.append(np.log(np.column_stack([tested.default_s / t for t in times_s]))[rows])
    pooled = np.concatenate(gains)
    possible, reached = np.exp(pooled.mean(axis=0))
    return f"{len(pooled)} | {possible:.2f}x | {reached:.2f}x"


def _row(run: Evaluation) -> list[str]:
    score, context = run.scores[_LEARNER][ALL], run.setup.context
    ends = score.geometric_mean_speedup_interval
    interval = "" if ends is None else f" [{ends[0]:.2f}, {ends[1]:.2f}]"
    worst = score.worst_slowdown
    return [
        f"{context.machine}, {context.library} {context.library_version}",
        str(len(run.tested.collectives)),
        str(score.instances),
        f"{score.oracle_geometric_mean_speedup:.2f}x",
        f"{score.geometric_mean_speedup:.2f}x{interval}",
        f"{score.slower_share:.1%} ({score.harm_share:.1%})",
        "none" if worst is None else f"{worst:.2f}x as long",
    ]


def drawn(runs: list[Evaluation]) -> Figure:
    """Return a panel for each run: gains of the calls, sorted, possible and reached."""
    across = min(len(runs), _MOST_ACROSS)
    down = -(-len(runs) // across)
    figure = Figure(figsize=(0.6 + 2.2 * across, 0.6 + 2.1 * down), layout="constrained")
    panels = list(figure.subplots(down, across, sharey=True, squeeze=False).flat)
    for panel, run in zip(panels, runs, strict=False):
        tested = run.tested
        for name, seconds, colour in (
            ("possible", tested.best_s, _POSSIBLE),
            ("reached, held out", run.decided[_LEARNER].selected_s, _REACHED),
        ):
            gains = np.sort(tested.default_s / seconds)[::-1]
            panel.step(
                np.linspace(0, 100, len(gains)), gains, color=colour, linewidth=2, label=name
            )
        panel.axhline(1, color="0.3", linewidth=0.8)
        panel.axhspan(0.01, 1 / HARM, color="#b00020", alpha=0.08, linewidth=0)
        ratio_axis(panel, "y", 0.2, 10.0)
        panel.set_title(f"{run.setup.context.machine} ({len(tested)} calls)", fontsize="small")
        panel.set_xlabel("calls [%]", fontsize="small")
        panel.tick_params(labelsize="small")
        panel.grid(color="0.92")
    for panel in panels[len(runs) :]:
        panel.set_axis_off()
    first = figure.axes[0]
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.supylabel("gain over the default", fontsize="small")
    return figure


if __name__ == "__main__":
    main()
