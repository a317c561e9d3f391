"""`colltune report`: one HTML file that shows what a bundle decides and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.options import Jobs, Json, Quiet, Where, writable_file

if TYPE_CHECKING:
    from colltune.report.figures import Figures


def report(
    bundle: Annotated[
        Path, typer.Argument(help="Bundle folder that `colltune fit` wrote.", metavar="BUNDLE")
    ],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Measurements of the same context to compare with: folder of Parquet, .parquet,"
            " .csv or .csv.gz; repeatable."
        ),
    ] = None,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            help="Also fit again without each node count of the data, and show how decisions and"
            " intervals hold there; takes as long as so many fits.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="HTML file to write.", callback=writable_file)] = Path(
        "report.html"
    ),
    where: Where = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a report of a bundle that is read offline: decision maps, gains, guard, calibration.

    Examples: what is decided and why; and how that holds on measurements.

    colltune report bundle --out report.html

    colltune report bundle --data measurements.csv.gz --held-out
    """
    from colltune.cli.console import show, show_json
    from colltune.cli.options import parse_pairs
    from colltune.cli.progress import progress
    from colltune.errors import DataError
    from colltune.models.bundle import load

    pairs = parse_pairs(where or [], "--where")
    if held_out and not data:
        raise DataError("--held-out needs measurements to leave out: give --data")
    from colltune.report.figures import figures

    with progress("reading", quiet=quiet or json) as shown:
        loaded = load(bundle)
        measured = None
        if data:
            from colltune.dataset import read

            measured = read(data, pairs)
        shown.phase("fitting and deciding" if held_out else "deciding")
        found = figures(loaded, measured, held_out=held_out, jobs=jobs, progress=shown.count)
        shown.phase("writing")
        _write(out, found)
    if json:
        from colltune.report.figures import as_json

        show_json({**as_json(found), "out": str(out)})
    else:
        show(f"report on {len(found.collectives)} collectives of {loaded.context} -> {out}")


def _write(path: Path, found: Figures) -> None:
    from colltune.files import whole
    from colltune.report.page import page

    with whole(path) as temporary:
        temporary.write_text(page(found), encoding="utf-8")
