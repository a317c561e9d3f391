"""`colltune data noise`: how noisy a dataset is, and what that means for decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, output
from colltune.cli.options import Data, Json, Quiet, Where, parse_pairs, picture_file
from colltune.cli.progress import progress
from colltune.text import bytes_text, counted

if TYPE_CHECKING:
    from colltune.dataset.noise import Component, NoiseReport, NoisyCell, Separability
    from colltune.dataset.noise.report import Within

_UNTOLD = "-"


def noise(
    data: Data,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="File to draw the report into: .png, .svg or .pdf.",
            metavar="FILE",
            callback=picture_file,
        ),
    ] = None,
    allocation: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="Regular expression for launch names; its first group is the allocation, "
            "'([^/]*)/'. Default: from the provenance, else each launch is an allocation.",
        ),
    ] = None,
    where: Where = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Report how noisy measurements are: within a launch, between launches, between allocations.

    A standard deviation of 3 % between launches means: the medians of the same cell in two launches
    typically differ by 3 %, more than the repetitions' scatter explains. Two configurations that
    differ by less than "detectable" cannot be told apart.

    Example: colltune data noise dataset --picture noise.png
    """
    from dataclasses import replace

    from colltune.cli.import_ import read_measured
    from colltune.dataset.method import methods, worth_telling
    from colltune.dataset.noise import allocations_of, measured, noise_report
    from colltune.dataset.parquet import read_launch_provenances

    with progress("reading", quiet=quiet or json) as shown:
        dataset = read_measured(data, parse_pairs(where or [], "--where"))
        launches = dataset.frame["launch"]
        known = read_launch_provenances(data)
        allocations = allocations_of(launches, known, allocation)
        ways = worth_telling(methods(known[n] for n in launches.astype(str).unique() if n in known))
        shown.phase("comparing repetitions, launches and allocations")
        table = measured(dataset, allocations)
        report = replace(noise_report(table, dataset.context, allocations), methods=ways)
        if picture:
            shown.phase("drawing")
            from colltune.plots.noise import levels
            from colltune.plots.saving import saved

            saved(levels(table, report), picture)
    output(report, _lines(report, picture), json=json)


def _lines(report: NoiseReport, picture: Path | None) -> Iterator[str | TextTable]:
    yield _table(report)
    paragraphs: list[Iterable[str | TextTable]]
    paragraphs = [_meaning(report), _notes(report), _noisy_cells(report)]
    for paragraph in paragraphs:
        lines = list(paragraph)
        yield from ["", *lines] if lines else []
    if picture:
        yield f"\n-> {picture}"


_HEADER = (
    *("", "cells", "launches", "p90/median", "first 10"),
    *("between launches", "between allocations", "detectable"),
)
_WRAP = ("between launches", "between allocations")
_DROP = ("p90/median", "first 10", "launches", "cells")


def _table(report: NoiseReport) -> TextTable:
    groups = (report.overall, *report.collectives, *report.size_classes)
    rows = [
        [
            group.name,
            group.cells,
            group.launches,
            _number(group.within.p90_over_median),
            _number(group.within.warm_up),
            _component(group.between_launches),
            _component(group.between_allocations) + ("*" if group.includes_launches else ""),
            group.detectable_text() or _UNTOLD,
        ]
        for group in groups
    ]
    return TextTable(_HEADER, rows, _WRAP, _DROP)


def _number(value: float | None) -> str:
    return _UNTOLD if value is None else f"{value:.2f}"


def _percent(sd: float) -> str:
    """Return a standard deviation of log-times for people: ``3.1 %``."""
    from math import expm1

    value = 100 * expm1(sd)
    return f"{value:.1f} %" if value < 10 else f"{value:.0f} %"


def _component(component: Component | None) -> str:
    if component is None:
        return _UNTOLD
    if component.sd is None:
        return f"< {_percent(component.high)}"
    return f"{_percent(component.sd)} ({_percent(component.low)} .. {_percent(component.high)})"


def _meaning(report: NoiseReport) -> Iterator[str]:
    decisions = report.overall.decisions
    if decisions is None:
        yield "Each instance has one configuration only, so there is nothing to decide."
        return
    if decisions.smallest_detectable is None:
        yield "No cell was measured twice, so the detectable difference is unknown."
        return
    difference = f"{100 * decisions.smallest_detectable:.1f} %"
    launches = counted(decisions.launches_per_cell, "launch", "es")
    allocations = counted(decisions.allocations_per_cell, "allocation")
    yield f"Two configurations that differ by less than {difference} cannot be told apart"
    yield (
        "in this dataset (95 %, typical of the two fastest on "
        f"{counted(decisions.instances, 'instance')}, with {launches}"
    )
    yield f"in {allocations}). Most of it comes from {decisions.main_source}."
    if decisions.is_lower_bound:
        yield (
            "Larger differences may be noise, too: some sources of noise are unknown (see the "
            "notes)."
        )
    yield from _needed(decisions)
    if decisions.default_beaten_share is not None:
        yield (
            "The fastest configuration beats the library's default by more than the noise on"
            f" {100 * decisions.default_beaten_share:.0f} % of the instances."
        )


def _needed(decisions: Separability) -> Iterator[str]:
    if decisions.launches_here is not None:
        more = max(0, decisions.launches_here - round(decisions.launches_per_cell))
        launches = counted(more, "more launch", "es")
        yield f"To detect 5 %, each cell needs {launches} in as many allocations as now."
    if decisions.allocations is not None:
        more = max(0, decisions.allocations - round(decisions.allocations_per_cell))
        allocations = counted(more, "more allocation")
        yield f"To detect 5 %, each cell needs {allocations} with one launch in each."
    if decisions.launches_here is None and decisions.allocations is None:
        yield "The number of launches that would detect 5 % is unknown or unrealistic."


def _notes(report: NoiseReport) -> Iterator[str]:
    """Say what the data cannot tell, and what was assumed."""
    from colltune.dataset.method import in_words
    from colltune.dataset.noise import AllocationSource

    group = report.overall
    if report.methods:
        yield (
            "note: measured by different methods, or by another one than was asked for: "
            f"{in_words(report.methods)}; what they differ by counts as noise between launches"
        )
    assumed = report.allocation_sources.get(AllocationSource.ASSUMED, 0)
    if assumed:
        yield (
            f"note: the allocations of {counted(assumed, 'launch', 'es')} are not recorded; "
            "each launch counts as an allocation (see --allocation)"
        )
    if group.between_launches is None:
        yield (
            "note: between launches: too few cells have two launches in one allocation; measure"
            " again in the same job"
        )
    if group.includes_launches:
        yield "note: * includes the noise between launches, which cannot be separated here"
    if any(g.borrows and g.decisions for g in (*report.collectives, *report.size_classes)):
        yield "note: + values that the group lacks are taken from all cells"
    if group.between_allocations is None:
        yield (
            "note: between allocations: too few cells were measured in two allocations "
            f"({group.allocations} in all); measure again in another job"
        )
    yield from _repetition_notes(group.within)


def _repetition_notes(within: Within) -> Iterator[str]:
    if within.p90_over_median is None:
        yield (
            "note: within a launch: the data have neither repetitions nor p90 columns; the "
            "scatter of repetitions counts as noise between launches"
        )
    elif within.raw_share < 1:
        yield (
            f"note: within a launch: {100 * within.raw_share:.0f} % of the measurements have "
            "raw repetitions, which warm-up, drift and modes are computed from; for the "
            "others the scatter comes from p90/median"
        )
    if within.drifting_share:
        yield (
            f"note: within a launch: {100 * within.drifting_share:.0f} % of the measurements"
            " drift by more than 5 % from the first quarter of their repetitions to the last"
        )


def _noisy_cells(report: NoiseReport) -> Iterator[str | TextTable]:
    if not report.noisiest:
        return
    yield _cells_table("noisiest cells", report.noisiest)
    if report.bimodal_cells:
        cells = f"{report.bimodal_cells} of {report.overall.cells} cells"
        yield f"\n{cells} have two modes more than 1.3x apart. The most extreme:"
        yield _cells_table("bimodal cells", report.bimodal)


def _cells_table(title: str, cells: Sequence[NoisyCell]) -> TextTable:
    header = (title, "shape", "message size", "launches", "p90/median", "slowest/fastest", "")
    return TextTable(header, [_noisy_row(cell) for cell in cells], (title, ""), header[3:5])


def _noisy_row(cell: NoisyCell) -> list[object]:
    return [
        cell.configuration,
        f"{cell.nodes}x{cell.ppn}",
        bytes_text(cell.msize_bytes),
        cell.launches,
        _number(cell.p90_over_median),
        _number(cell.launch_ratio),
        f"two modes, {cell.modes_ratio:.1f}x apart" if cell.modes_ratio else "",
    ]
