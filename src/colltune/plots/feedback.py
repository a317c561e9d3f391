"""The adaptation of alltoallv's threshold during a run (Fagg et al. 2006, sec. 6.2, figure 2)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator

from colltune.errors import DataError
from colltune.mpi.libcolltune.adaptation import Adaptation, Iteration, Kind, Verdict
from colltune.plots.lettering import plain, size_text

_MS = 1e3
_MARKS = {
    Verdict.KEPT: ("^", "tab:green", "tested and kept"),
    Verdict.REJECTED: ("v", "crimson", "tested and rejected"),
    Verdict.RESTARTED: ("s", "tab:purple", "workload changed: all values tried again"),
    Verdict.NONE: (".", "tab:orange", "tested, not decided yet"),
}


def threshold_over_iterations(adaptation: Adaptation, title: str = "") -> Figure:
    """Return time per iteration above, the threshold below, over the iterations of a run.

    Grey dots are iterations with the best threshold known, timed by one process; marks are those
    that tested another one, timed by the slowest process, by what became of it. `title` stands
    above; if empty, it tells collective and processes.

    Raises
    ------
    DataError
        If it has no iterations.
    """
    if not adaptation.iterations:
        raise DataError("the adaptation has no iterations; nothing can be drawn")
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_times(above, adaptation.iterations)
    _draw_thresholds(below, adaptation.iterations)
    figure.suptitle(
        plain(title) or f"MPI_Alltoallv on {adaptation.nprocs} processes, threshold adapted"
    )
    return figure


def _draw_times(panel: Axes, iterations: Sequence[Iteration]) -> None:
    usual = [i for i in iterations if i.kind is not Kind.TEST]
    panel.plot(
        [i.number for i in usual],
        [i.time_s * _MS for i in usual],
        ".",
        color="0.55",
        markersize=3,
        label="best threshold",
    )
    for verdict, (mark, colour, label) in _MARKS.items():
        these = [i for i in iterations if i.verdict is verdict and _is_marked(i)]
        if these:
            times = [i.time_s * _MS for i in these]
            panel.plot(
                [i.number for i in these], times, mark, color=colour, ms=6, ls="none", label=label
            )
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.minorticks_off()
    panel.set_ylabel("time per iteration [ms]")
    panel.grid(color="0.92", linewidth=0.6)
    panel.legend(frameon=False, fontsize="small", loc="best")


def _is_marked(iteration: Iteration) -> bool:
    return iteration.kind is Kind.TEST or iteration.verdict is Verdict.RESTARTED


def _draw_thresholds(panel: Axes, iterations: Sequence[Iteration]) -> None:
    usual = [i for i in iterations if i.kind is not Kind.TEST]
    numbers, values = [i.number for i in usual], [i.threshold_bytes for i in usual]
    panel.step(numbers, values, where="post", color="black", linewidth=1.4, label="in force")
    tested = [i for i in iterations if i.kind is Kind.TEST]
    panel.plot(
        [i.number for i in tested],
        [i.threshold_bytes for i in tested],
        ".",
        color="tab:orange",
        markersize=5,
        label="tested",
    )
    smallest = min((i.threshold_bytes for i in iterations if i.threshold_bytes), default=1)
    panel.set_yscale("symlog", base=2, linthresh=smallest, linscale=0.5)
    panel.set_ylim(bottom=0)
    seen = sorted({i.threshold_bytes for i in iterations})
    panel.set_yticks(seen, [size_text(value) if value else "0 (pairwise)" for value in seen])
    panel.minorticks_off()
    panel.set(xlabel="iteration", ylabel="threshold")
    panel.grid(color="0.92", linewidth=0.6)
    panel.legend(frameon=False, fontsize="small", loc="best")
