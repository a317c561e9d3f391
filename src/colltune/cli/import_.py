"""`colltune import`: a CSV of measurements becomes a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltune.cli.options import Json, Where


def import_(
    source: Annotated[Path, typer.Argument(help="A CSV file, plain or .gz.", metavar="CSV")],
    out: Annotated[Path, typer.Option(help="Dataset folder to add to.")],
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="Take our column from theirs."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OURS=VALUE", help="Give a column that the file lacks."),
    ] = None,
    where: Where = None,
    time_unit: Annotated[str, typer.Option(help="Unit of the times: s, ms, us, ns.")] = "s",
    json: Json = False,
) -> None:
    """Add a CSV of measurements to a dataset folder.

    Columns: machine, library, library_version, collective, algorithm, segsize_bytes, parameters,
    nodes, ppn, msize_bytes, launch, n_reps, time_s, … (times in seconds, the median in time_s).

    Example: colltune import old.csv --out data --map time_s=median_us --time-unit us
    --set machine=hydra --set library=openmpi --set library_version=4.1.4
    """
    from colltune import provenance
    from colltune.cli.console import parse_pairs, show, show_json
    from colltune.dataset import read_csv, read_parquet
    from colltune.dataset.frame import join
    from colltune.dataset.parquet import append_dataset

    dataset = read_csv(
        source,
        columns=parse_pairs(map_ or [], "--map"),
        constants=parse_pairs(set_ or [], "--set"),
        where=parse_pairs(where or [], "--where"),
        time_unit=time_unit,
    )
    if out.is_dir() and any(out.glob("*.parquet")):
        join([read_parquet(out), dataset])
    facts = provenance.collect({"imported_from": source.name})
    file = append_dataset(out, dataset, facts)
    if json:
        context = vars(dataset.context)
        show_json({"rows": len(dataset), "context": context, "file": str(file)})
    else:
        show(f"{len(dataset)} rows of {dataset.context} -> {file}")
