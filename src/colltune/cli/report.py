"""`colltune report`: one HTML file that shows what a bundle gains, what it decides, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, can_show_bars, output, warn
from colltune.cli.options import (
    BundleArgument,
    BundleAt,
    ForPrograms,
    ForResults,
    Jobs,
    Json,
    Quiet,
    Where,
    bundle_to_read,
    parse_pairs,
    programs_of,
    writable_file,
)
from colltune.cli.progress import progress
from colltune.errors import say
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.dataset import Dataset


def report(
    named: BundleArgument = None,
    bundle: BundleAt = None,
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
            help="Also fit without each node count of the data in turn, and show how good the "
            "decisions and intervals are there. Takes as long as that many fits.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="HTML file to write.", callback=writable_file)] = Path(
        "report.html"
    ),
    programs: ForPrograms = None,
    results: ForResults = None,
    where: Where = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a page on a bundle: what it gains and how sure that is, what it decides, and why.

    Examples: what is decided and why; how good it is on measurements.

    colltune report --bundle bundle --out report.html

    colltune report --bundle bundle --data measurements.csv.gz --held-out
    """
    bundle = bundle_to_read(bundle, named, quiet=json)
    pairs = parse_pairs(where, "--where")
    promised = programs_of(programs, results)
    if held_out and not data:
        raise say("works-only-with", option="--held-out", other="--data")
    from colltune.cli.import_ import read_measured
    from colltune.files import whole
    from colltune.models.bundle import load
    from colltune.page.evidence import decision_evidence
    from colltune.page.file import WrittenPage, bundle_file, bundle_page
    from colltune.page.gains import sketch
    from colltune.selector.argmin import legal_selector

    with progress("reading", quiet=quiet or json) as shown:
        loaded = load(bundle)
        measured = read_measured(data, pairs) if data else None
        if data and measured:
            _warn_of_mixtures(measured, data)
        shown.phase("fitting and deciding" if held_out else "deciding")
        evidence = decision_evidence(
            loaded, measured, programs=promised, held_out=held_out, jobs=jobs, progress=shown.count
        )
        found = bundle_page(legal_selector(loaded, promised), promised, evidence)
        shown.phase("writing")
        with whole(out) as temporary:
            temporary.write_text(bundle_file(loaded, found), encoding="utf-8")
    gains = found.gains
    what = f"{counted(len(loaded.collectives), 'collective')} of {loaded.context}"
    lines: list[str | TextTable] = [gains.sentence, *gains.cautions]
    if can_show_bars():
        lines.append(TextTable(("collective", "gain by message size", ""), sketch(gains)))
    lines.append(f"report on {what} -> {out}")
    output(WrittenPage(**vars(found), out=out), lines, json=json)


def _warn_of_mixtures(measured: Dataset, data: list[Path]) -> None:
    from colltune.dataset.method import mixed_in_words
    from colltune.dataset.parquet import read_launch_provenances

    if mixed := mixed_in_words(measured, read_launch_provenances(data)):
        warn(mixed)
