"""`colltune data import`: measurements of other programs become a dataset."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import output, warn
from colltune.cli.options import (
    Data,
    Json,
    Quiet,
    Where,
    parse_pairs,
    writable_file,
    writable_folder,
)
from colltune.cli.progress import progress
from colltune.errors import UsageError, say
from colltune.files import whole
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.dataset import PerformanceDataset
    from colltune.dataset.importers.importing import ImportedFiles
    from colltune.domain import Configuration, Context


_FOR_R = "colltune.R"


@dataclass(frozen=True)
class ExportedData:
    """What `data export` prints."""

    rows: int
    """rows"""
    file: Path
    """file that was written"""
    r_file: Path | None
    """file of functions for R, with --with-r"""


@dataclass(frozen=True)
class ImportedData:
    """What `data import` prints."""

    rows: int
    """rows that were added"""
    context: Context
    file: Path
    """file that was written"""
    format: str
    """format that was read"""
    time: str
    """what the times are"""
    configurations: tuple[Configuration, ...]
    """ids"""
    statuses: Mapping[str, int]
    """rows by status"""
    remarks: tuple[str, ...]
    """what was left out"""


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
    copy = out.with_name(_FOR_R) if with_r else None
    lines = [f"{counted(len(dataset), 'row')} of {dataset.context} -> {out}"]
    if copy is not None:
        with whole(copy) as temporary:
            temporary.write_bytes((files("colltune.models") / "r" / _FOR_R).read_bytes())
        lines.append(f"functions for R -> {copy}")
    output(ExportedData(len(dataset), out, copy), lines, json=json)


def _positive(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:
        what = "a round trip in seconds"
        raise say("malformed", UsageError, value=seconds, what=what, like="2.4e-6")
    return seconds


def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Files of one format, plain or packed (.gz, .bz2, .xz, .zst).", metavar="FILE…"
        ),
    ],
    out: Annotated[Path, typer.Option(help="Dataset folder to add to.", callback=writable_folder)],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="reprompi, osu (OMB-Py too), imb, mpibench, detail (detail.out of "
            "ompi-collectives-tuning) or csv; default: detected from the content.",
        ),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OURS=THEIRS",
            help="Read our column OURS from their column THEIRS (CSV).",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="OURS=VALUE",
            help="Value that the file does not contain: machine, library, library_version, nodes, "
            "ppn, configuration, collective, memory, datatype, …; for a CSV any column.",
        ),
    ] = None,
    where: Where = None,
    time_unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of a CSV's times: s, ms, us, ns. Default: that of its column's name, or s."
        ),
    ] = None,
    launch: Annotated[
        str | None,
        typer.Option(help="Name of the launch or allocation; default: the file's name."),
    ] = None,
    round_trip: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Shortest round trip between two nodes, such as 2.4e-6: times over several nodes "
            "below half of it get the status too_fast. Default: that of the file, if it has one.",
            callback=_positive,
        ),
    ] = None,
    from_commands: Annotated[
        bool,
        typer.Option(
            "--from-commands",
            help="Take shapes and algorithms from the launchers' commands in the files.",
        ),
    ] = False,
    path: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Take settings from the files' paths: '{nodes}n/{algorithm}/*.out'. Names are "
            "those of --set, nprocs, algorithm and launch.",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Add measurements of ReproMPI, OSU, IMB, mpiBench, detail.out or a CSV to a dataset folder.

    A benchmark's output does not name the algorithm that ran. Name it with --set configuration=ID;
    otherwise it counts as the library's own decision. Sizes and times are converted to bytes and
    seconds. Measurements that are not comparable are refused, in a file and beside those of the
    dataset. --where keeps rows by collective, nprocs, msize_bytes, algorithm, memory, datatype,
    operation, cache, root, barrier or sync; for a CSV by any column.

    Columns of a CSV: machine, library, library_version, collective, algorithm, segsize_bytes,
    parameters, nodes, ppn, msize_bytes, launch, n_reps, time_s, … (times in seconds, the median in
    time_s).

    Example: colltune data import bcast.out --out data --set machine=hydra --set library=openmpi
    --set library_version=4.1.6 --set nodes=4 --set ppn=16

    Example: colltune data import old.csv --out data --map time_s=median_us --time-unit us --set
    machine=hydra --set library=openmpi --set library_version=4.1.4
    """
    from colltune.dataset.importers import ImportRequest
    from colltune.dataset.importers.importing import add_to, import_files
    from colltune.mpi.known_algorithms import KnownAlgorithms

    settings = parse_pairs(set_ or [], "--set")
    release = re.sub(r"^[vV](?=\d)", "", settings.get("library_version", ""))
    algorithms = KnownAlgorithms(release)
    if release:
        settings["library_version"] = release
    if "library" in settings:
        settings["library"] = algorithms.library(settings["library"])
    request = ImportRequest(
        settings=settings,
        algorithms=algorithms,
        columns=parse_pairs(map_ or [], "--map"),
        where=parse_pairs(where or [], "--where"),
        time_unit=time_unit or "",
        launch=launch or "",
        round_trip_s=round_trip,
        from_commands=from_commands,
        path=path or "",
    )
    with progress("reading", quiet=quiet or json, interrupted="nothing was added") as shown:
        shown.phase("reading", "MiB")
        imported = import_files(sources, request, format_, shown.count)
        shown.phase("writing")
        file = add_to(out, imported)
    for remark in imported.remarks:
        warn(remark)
    _show(imported, file, json=json)


def _show(imported: ImportedFiles, file: Path, *, json: bool) -> None:
    dataset = imported.dataset
    facts = ImportedData(
        rows=len(dataset),
        context=dataset.context,
        file=file,
        format=imported.format,
        time=imported.facts["imported_time"],
        configurations=tuple(c for n in dataset.collectives for c in dataset.configurations(n)),
        statuses={str(s): n for s, n in dataset.frame["status"].value_counts().items()},
        remarks=imported.remarks,
    )
    lines = [f"{counted(len(dataset), 'row')} of {dataset.context} -> {file}"]
    if imported.format != "csv":
        lines.append(f"time: {facts.time}")
        if all(c.is_default for c in facts.configurations):
            own = "the library's own decision (change it with --set configuration=ID)"
            lines.append(f"algorithm: {own}")
        else:
            lines.append(f"algorithm: {', '.join(c.id for c in facts.configurations)}")
        if set(facts.statuses) != {"ok"}:
            lines.append(
                f"status: {', '.join(f'{n} {status}' for status, n in facts.statuses.items())}"
            )
    output(facts, lines, json=json)


def read_measured(
    paths: Sequence[Path], where: Mapping[str, str] | None = None, *, any_name: bool = True
) -> PerformanceDataset:
    """Read datasets, and CSVs with an import's checks, those of algorithms unless `any_name`."""
    from colltune.dataset.importers.importing import read_as_imported
    from colltune.mpi.known_algorithms import KnownAlgorithms

    known = KnownAlgorithms("", as_written=True, any_name=any_name)
    return read_as_imported(paths, where or {}, known, warn)
