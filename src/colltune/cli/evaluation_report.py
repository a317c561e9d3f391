"""What `colltune evaluate` prints and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from colltune.cli.console import columns, printable, show, show_json
from colltune.errors import DataError
from colltune.evaluation import Evaluation
from colltune.evaluation.comparison import Comparison, Difference, compare, differences
from colltune.evaluation.evaluation import ALL, Score
from colltune.evaluation.paper import described, table_iv
from colltune.evaluation.request import Result
from colltune.evaluation.results_file import read, write

_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("am speed-up", "arithmetic_mean_speedup", "{:.3f}"),
    ("gm speed-up", "geometric_mean_speedup", "{:.3f}"),
    ("share", "log_gain_share", "{:.3f}"),
    ("95 % of share", "log_gain_share_interval", "{:.2f} .. {:.2f}"),
    ("t/t_best", "mean_regret", "{:.3f}"),
    ("p95", "p95_regret", "{:.3f}"),
    ("slower >5 %", "slower_share", "{:.1%}"),
    ("95 % of it", "slower_share_interval", "{:.1%} .. {:.1%}"),
    ("harm", "harm_share", "{:.1%}"),
    ("95 % of it", "harm_share_interval", "{:.1%} .. {:.1%}"),
    ("by", "mean_slowdown", "{:.2f}x"),
    ("worst", "worst_slowdown", "{:.2f}x"),
    ("default", "default_share", "{:.0%}"),
    ("not measured", "unmeasured", "{}"),
    ("time saved", "time_saved", "{:.1%}"),
    ("fit s", "fit_s", "{:.2f}"),
    ("confirm cost", "confirm_cost", "{:.1%}"),
)
_BASELINES = ("default", "virtual_best")
_PAPER_NAMES = {
    "published_knn": "KNN",
    "published_gam": "GAM",
    "published_xgboost": "XGBoost",
    "virtual_best": "best possible",
    "single_best": "single best",
    "loglog_interpolation": "log-log interpolation",
}
RESULTS = "results.json"


def show_result(result: Result, out: Path | None, *, json: bool) -> None:
    """Print `result`, and write it, and the paper's figures if they were asked for, to `out`.

    Raises
    ------
    OutputError
        If something cannot be written.
    """
    written = _written(result, out)
    if json:
        show_json(_as_dict(result) | ({"written": [str(p) for p in written]} if written else {}))
        return
    if result.paper:
        show(_table_iv(result))
    for run in result.runs if not result.paper else ():
        _show_run(run)
    for note in dict.fromkeys(note for run in result.runs for note in run.notes):
        show(printable(f"note: {note}"))
    for name, reason in result.left_out.items():
        show(printable(f"left out: {name}: {reason}"))
    for path in written:
        show(f"-> {path}")


def show_comparison(paths: Sequence[Path], *, json: bool) -> None:
    """Print how the learners of two results files differ.

    Raises
    ------
    DataError
        If there are not two files, or they are damaged or not comparable.
    """
    if len(paths) != 2:
        raise DataError(
            f"--compare takes two results files, and {len(paths)} were given:"
            " colltune evaluate --compare A.json B.json"
        )
    first, second = paths
    found = compare(read(first), read(second), (str(first), str(second)))
    if json:
        show_json({"first": str(first), "second": str(second), "comparisons": _dicts(found)})
        return
    show(f"A is {first}, B is {second}; B better: speed-up above 1, share above 0, harm below 0")
    for comparison in found:
        show(f"\n{comparison.split}: A {comparison.first}, B {comparison.second}")
        show(columns(_DIFFERENCE_TITLES, [_difference_row(d) for d in comparison.differences]))


def _dicts(found: Iterable[Comparison]) -> list[dict[str, Any]]:
    return [comparison.as_dict() for comparison in found]


def _written(result: Result, out: Path | None) -> list[Path]:
    if out is None:
        return []
    if not result.paper:
        return [write(result.runs, out)]
    from colltune.plots.paper_figures import draw_all

    return [write(result.runs, out / RESULTS), *draw_all(result.paper, out)]


def _as_dict(result: Result) -> dict[str, Any]:
    """Return the report of one evaluation as it is, that of a suite under ``runs``."""
    reports = [run.as_dict() | {"differences": _against_all(run)} for run in result.runs]
    if result.suite is None:
        return reports[0]
    report: dict[str, Any] = {"suite": result.suite, "runs": reports}
    if result.paper:
        return report | {"datasets": described(result.paper), "table_iv": table_iv(result.paper)}
    return report | {"left_out": dict(result.left_out)}


def _against_all(run: Evaluation) -> dict[str, dict[str, Any]]:
    return {
        mine: {other: d.as_dict() for other, d in _differences(run, mine).items()}
        for mine in run.learners
    }


def _differences(run: Evaluation, learner: str) -> dict[str, Difference]:
    """Return how `learner` differs, over all collectives, from every other selector."""
    return {
        other: differences(run.tested, decided, run.decided[learner], run.setup.seed)[-1]
        for other, decided in run.decided.items()
        if other not in (learner, *_BASELINES)
    }


def _show_run(run: Evaluation) -> None:
    folds = len(set(zip(run.tested.collective, run.tested.fold, strict=True)))
    show()
    show(printable(f"{run.setup.split} on {run.setup.data}: folds: {folds}"))
    for collective in (*run.tested.collectives, ALL):
        rows = [[name, *_cells(scores[collective])] for name, scores in run.scores.items()]
        score = run.scores["default"][collective]
        show(f"\n{collective}: instances: {score.instances}, shapes: {score.shapes}")
        used = [k for k in range(len(rows[0])) if any(row[k] for row in rows)]
        titles = ["selector", *(title for title, _, _ in _COLUMNS)]
        show(columns([titles[k] for k in used], [[row[k] for k in used] for row in rows]))
    for mine in run.learners:
        against = _differences(run, mine)
        rows = [[name, *_difference_row(d)[1:]] for name, d in against.items()]
        show(f"\n{mine} less the others, all collectives, same instances")
        show(columns(["other", *_DIFFERENCE_TITLES[1:]], rows))
    show()


_DIFFERENCE_TITLES = (
    "collective",
    "instances",
    "speed-up",
    "95 %",
    "share",
    "95 %",
    "harm",
    "95 %",
    "faster on",
    "slower on",
)


def _difference_row(d: Difference) -> list[str]:
    return [
        d.collective,
        str(d.instances),
        f"{d.speedup:.3f}",
        _ends(d.speedup_interval, "{:.3f} .. {:.3f}"),
        "" if d.share is None else f"{d.share:+.3f}",
        _ends(d.share_interval, "{:+.2f} .. {:+.2f}"),
        f"{d.harm:+.1%}",
        _ends(d.harm_interval, "{:+.1%} .. {:+.1%}"),
        f"{d.better:.0%}",
        f"{d.worse:.0%}",
    ]


def _cells(score: Score) -> list[str]:
    return [_cell(getattr(score, key), form) for _, key, form in _COLUMNS]


def _cell(value: Any, form: str) -> str:
    if value is None:
        return ""
    return form.format(*value) if isinstance(value, tuple) else form.format(value)


def _ends(value: tuple[float, float] | None, form: str) -> str:
    return "" if value is None else form.format(*value)


def _table_iv(result: Result) -> str:
    """Return the paper's Table IV, its rows first, and below them what it did not have."""
    lines = []
    for label, what in described(result.paper).items():
        nodes = ", ".join(map(str, what["test_nodes"]))
        on = f"{what['collective']} on {what['context']}, tested on nodes {nodes}"
        lines.append(printable(f"{label}: {on}"))
    lines.append("arithmetic mean of t_default / t_selected")
    for (size, rows), letter in zip(table_iv(result.paper).items(), "ab", strict=True):
        ordered = sorted((name for name in rows if name != "default"), key=_paper_order)
        cells = [
            [_PAPER_NAMES.get(name, name), *(f"{v:.2f}" for v in rows[name].values())]
            for name in ordered
        ]
        lines.append(f"\n({letter}) {size.capitalize()} training dataset")
        lines.append(columns(["method", *rows["default"]], cells))
    return "\n".join(lines)


def _paper_order(name: str) -> int:
    """Return the place of a selector: the paper's own first, the oracle last."""
    first = ["published_knn", "published_gam", "published_xgboost", "single_best"]
    if name in first:
        return first.index(name)
    return len(first) + (1 if name != "virtual_best" else 2)
