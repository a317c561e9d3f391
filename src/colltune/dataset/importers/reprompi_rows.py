"""Takes ReproMPI's output as measurements to be imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from colltune.dataset.importers.assembly import assemble
from colltune.dataset.importers.protocol import (
    Imported,
    Importer,
    Reading,
    Request,
    Row,
    Source,
    TimeKind,
)
from colltune.dataset.importers.reprompi import ReproMpiCell, ReproMpiOutput, parse_runs
from colltune.domain import RunStatus, Summary
from colltune.errors import DataError

SIGNS = re.compile(r"#@\w+=|#MPI calls:|#Command-[Ll]ine [Aa]rguments:.*mpibenchmark")


def parse(lines: Iterable[str], name: str) -> Reading:
    """Return what all runs in a file measured; `name` is the file's in errors.

    A cell without a valid repetition has the status timeout: it did not get one within its window
    or time.
    """
    runs = parse_runs(lines, name)
    units = {unit for run in runs if (unit := _unit(run))}
    if len(units) > 1:
        raise DataError(
            f"{name}: mixes tables whose sizes are elements (count) with ones whose sizes are bytes"
            " (msize_bytes); split it"
        )
    facts: dict[str, dict[str, None]] = {}
    for run in runs:
        for key, value in run.facts.items():
            facts.setdefault(key, {})[value] = None
    rows = [row for run in runs for row in _rows(run)]
    remarks = dict.fromkeys(remark for run in runs for remark in _remarks(run))
    return Reading(
        tuple(rows), {key: "; ".join(values) for key, values in facts.items()}, tuple(remarks)
    )


def load(source: Source, request: Request) -> Imported:
    return assemble(parse(source.lines(), source.name), source, request)


IMPORTER = Importer("ReproMPI", SIGNS, load)


def _unit(run: ReproMpiOutput) -> str:
    columns = run.facts["columns"].split()
    return next((name for name in ("count", "msize_bytes") if name in columns), "")


def _rows(run: ReproMpiOutput) -> Iterator[Row]:
    for cell in run.rows.values():
        yield _row(run, cell)
    if run.complete and not run.errors:
        for collective, msize_bytes in run.missing:
            yield _row(run, ReproMpiCell(collective, msize_bytes, 0, 0))


def _row(run: ReproMpiOutput, cell: ReproMpiCell) -> Row:
    summary = Summary.of(cell.times_s) if cell.times_s else cell.summary
    return Row(
        cell.collective,
        cell.msize_bytes,
        run.nprocs,
        _kind(run),
        cell.line,
        RunStatus.OK if summary else RunStatus.TIMEOUT,
        cell.times_s,
        summary,
        convention=run.facts.get("datatype", ""),
    )


def _kind(run: ReproMpiOutput) -> TimeKind:
    columns = run.facts["columns"].split()
    mean = "mean_sec" in columns and "median_sec" not in columns
    if run.facts.get("runtime_type") == "global":
        return TimeKind.MEAN_OF_SPANS if mean else TimeKind.MEDIAN_OF_SPANS
    return TimeKind.MEAN_OF_MAXIMA if mean else TimeKind.MEDIAN_OF_MAXIMA


def _remarks(run: ReproMpiOutput) -> Iterator[str]:
    yield from run.remarks
    yield from run.errors
    if not run.facts["columns"]:
        yield "a run ended before it measured anything"
    elif "nprocs" not in run.facts:
        yield "a table without its run's header and end; they may be in an --output-file"
    elif not run.complete:
        yield (
            "a run was aborted (no line '# Execution time'); what is there is kept,"
            f" {len(run.missing)} requested cells are missing"
        )
