"""What `colltune tune` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colltune.cli.console import Mark, columns, marked, range_text, show, show_json, warn

if TYPE_CHECKING:
    from colltune.cli.tune_pipeline import Row, TuneResult
    from colltune.models.confirmations import Confirmation

_HEADER = (
    "collective",
    "bytes",
    "default runs",
    "chosen",
    "predicted",
    "measured",
    "launches",
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
    interval, measured = row.interval, row.measured
    configuration = interval.configuration
    if measured is not None and configuration.is_default:
        configuration = measured.proposed
    chosen = configuration.short
    if configuration.is_default:
        chosen = "default kept"
    return [
        row.collective,
        range_text(interval.first_bytes, interval.last_bytes),
        ", ".join(row.default_algorithms) or "?",
        chosen,
        f"{row.predicted:.2f}x" if row.predicted else "",
        _measured(measured),
        str(measured.launches) if measured else "",
        _verdict(row),
        _effect(row),
    ]


def _measured(found: Confirmation | None) -> str:
    if found is None or found.gain is None:
        return ""
    return f"{found.gain:.2f}x [{found.lower:.2f}, {found.upper:.2f}]"


def _verdict(row: Row) -> str:
    mark = Mark.GOOD if row.verdict == "confirmed" else Mark.DOUBTFUL
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
    interval, measured = row.interval, row.measured
    withdrawn = measured.proposed if measured and interval.configuration.is_default else None
    return {
        "collective": row.collective,
        "first_bytes": interval.first_bytes,
        "last_bytes": interval.last_bytes,
        "default_algorithms": list(row.default_algorithms),
        "configuration": interval.configuration.id,
        "predicted_gain": row.predicted,
        "measured_gain": measured.gain if measured else None,
        "measured_gain_lower": measured.lower if measured else None,
        "measured_gain_upper": measured.upper if measured else None,
        "launches": measured.launches if measured else 0,
        "verdict": row.verdict or None,
        "in_effect": row.in_effect,
        "withdrawn": withdrawn.id if withdrawn else None,
    }
