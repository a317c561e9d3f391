"""What `colltune tune` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from colltune.cli.console import Mark, columns, marked, range_text, show, show_json, warn

if TYPE_CHECKING:
    from colltune.bench.verify import Gain
    from colltune.cli.tune_pipeline import Row, TuneResult

_HEADER = (
    "collective",
    "bytes",
    "default runs",
    "chosen",
    "predicted",
    "measured",
    "faster",
    "verdict",
    "in effect",
)


def show_report(result: TuneResult) -> None:
    """Print the table, the paths and the line to add to a job."""
    for problem in result.report.problems:
        warn(problem)
    for note in result.notes:
        warn(f"note: {note}")
    show(f"{result.context}; {result.shape.nodes} node x {result.shape.ppn} processes")
    show(columns(_HEADER, [_cells(row) for row in result.rows]))
    show()
    share = result.timed_s / result.wall_s
    show(
        f"{result.wall_s:.0f} s in all, {share:.0%} of them in timed loops;"
        f" {result.report.measurements} cells in {result.report.launches} launches"
    )
    show(f"dataset        {result.dataset_path}")
    show(f"bundle         {result.bundle_path}")
    show(f"configuration  {result.written.rules_path}")
    if result.picture_path is not None:
        show(f"picture        {result.picture_path}")
    show("add this line to a job:")
    show(f"  {result.written.job_line}")


def _cells(row: Row) -> list[str]:
    interval, configuration = row.interval, row.withdrawn or row.interval.configuration
    chosen = configuration.short
    if configuration.is_default:
        chosen = "default kept"
    return [
        row.collective,
        range_text(interval.first_bytes, interval.last_bytes),
        ", ".join(row.default_algorithms) or "?",
        chosen,
        f"{row.predicted:.2f}x" if row.predicted else "",
        _measured(row.measured),
        f"{row.measured.wins} of {row.measured.pairs}" if row.measured else "",
        _verdict(row),
        _effect(row),
    ]


def _measured(gain: Gain | None) -> str:
    if gain is None:
        return ""
    if math.isnan(gain.lower):
        return f"{gain.ratio:.2f}x"
    return f"{gain.ratio:.2f}x [{gain.lower:.2f}, {gain.upper:.2f}]"


def _verdict(row: Row) -> str:
    mark = Mark.GOOD if row.verdict == "proven" else Mark.DOUBTFUL
    return marked(row.verdict, mark) if row.verdict else ""


def _effect(row: Row) -> str:
    if row.in_effect is None:
        return ""
    return marked("yes", Mark.GOOD) if row.in_effect else marked("NO", Mark.BAD)


def show_json_report(result: TuneResult) -> None:
    """Print everything as one JSON document."""
    show_json(
        {
            "context": result.context,
            "nodes": result.shape.nodes,
            "ppn": result.shape.ppn,
            "rows": [_row_json(row) for row in result.rows],
            "wall_s": result.wall_s,
            "timed_s": result.timed_s,
            "phases_s": dict(result.phases_s),
            "launches": result.report.launches,
            "problems": result.report.problems,
            "notes": list(result.notes),
            "dataset": str(result.dataset_path),
            "bundle": str(result.bundle_path),
            "configuration": str(result.written.rules_path),
            "parameters": str(result.written.parameter_path),
            "picture": None if result.picture_path is None else str(result.picture_path),
            "environment": result.written.environment,
            "job_line": result.written.job_line,
        }
    )


def _row_json(row: Row) -> dict[str, Any]:
    interval, gain = row.interval, row.measured
    known = gain is not None and not math.isnan(gain.lower)
    return {
        "collective": row.collective,
        "first_bytes": interval.first_bytes,
        "last_bytes": interval.last_bytes,
        "default_algorithms": list(row.default_algorithms),
        "configuration": interval.configuration.id,
        "predicted_gain": row.predicted,
        "measured_gain": gain.ratio if gain else None,
        "measured_gain_lower": gain.lower if gain and known else None,
        "measured_gain_upper": gain.upper if gain and known else None,
        "pairs": gain.pairs if gain else 0,
        "pairs_faster": gain.wins if gain else 0,
        "verdict": row.verdict or None,
        "in_effect": row.in_effect,
        "withdrawn": row.withdrawn.id if row.withdrawn else None,
    }
