"""`colltune data export`: a dataset becomes a tidy CSV."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.console import output
from colltune.cli.options import Data, Json, Quiet, Where, parse_pairs, writable_file
from colltune.cli.progress import progress
from colltune.files import whole
from colltune.text import counted

_FOR_R = "colltune.R"


def export(
    data: Data,
    out: Annotated[
        Path, typer.Option(help="CSV file to write, plain or .gz.", callback=writable_file)
    ],
    where: Where = None,
    with_r: Annotated[
        bool,
        typer.Option(
            "--with-r",
            help="Also copy colltune.R into the same folder: functions for R that read the file,"
            " fit mgcv's models to it and plot them.",
        ),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write datasets as one tidy CSV: one row per launch, configuration and instance.

    Examples, the second one with functions for R:

    colltune data export tuned/dataset --out measurements.csv.gz

    colltune data export tuned/dataset --out measurements.csv.gz --with-r
    """
    from colltune.dataset import read, write_csv

    with progress("reading", quiet=quiet or json) as shown:
        dataset = read(data, parse_pairs(where or [], "--where"))
        shown.phase("writing")
        write_csv(dataset, out)
    facts: dict[str, object] = {"rows": len(dataset), "file": out}
    lines = [f"{counted(len(dataset), 'row')} of {dataset.context} -> {out}"]
    if with_r:
        facts["r_file"] = copy = out.with_name(_FOR_R)
        with whole(copy) as temporary:
            temporary.write_bytes((files("colltune.models") / "r" / _FOR_R).read_bytes())
        lines.append(f"functions for R -> {copy}")
    output(facts, lines, json=json)
