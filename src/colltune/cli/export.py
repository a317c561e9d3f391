"""`colltune data export`: a dataset becomes a tidy CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.console import output
from colltune.cli.options import Data, Json, Quiet, Where, parse_pairs, writable_file
from colltune.cli.progress import progress


def export(
    data: Data,
    out: Annotated[
        Path, typer.Option(help="CSV file to write, plain or .gz.", callback=writable_file)
    ],
    where: Where = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write datasets as one tidy CSV: one row per launch, configuration and instance.

    Example: colltune data export tuned/dataset --out measurements.csv.gz
    """
    from colltune.dataset import read, write_csv

    with progress("reading", quiet=quiet or json) as shown:
        dataset = read(data, parse_pairs(where or [], "--where"))
        shown.phase("writing")
        write_csv(dataset, out)
    line = f"{len(dataset)} rows of {dataset.context} -> {out}"
    output({"rows": len(dataset), "file": out}, [line], json=json)
