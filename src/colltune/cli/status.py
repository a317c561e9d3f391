"""`colltune site status`: what production jobs proved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from colltune.cli.console import Mark, TextTable, Verbatim, marked, output
from colltune.cli.options import Json, writable_file
from colltune.errors import say
from colltune.on_demand import require
from colltune.text import (
    counted,
    node_hours_text,
    number_text,
    printable,
    range_text,
)

if TYPE_CHECKING:
    from colltune.production.status import JudgedDecision, Period, ProductionStatus

_SERVICE_S = 30.0
_URLS = ("http://", "https://", "unix:")


def status(
    site: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|URL",
            help="The site's folder, or the address of its service: http://HOST:PORT.",
        ),
    ],
    report: Annotated[
        Path | None,
        typer.Option(help="HTML file to write with a month's report.", callback=writable_file),
    ] = None,
    month: Annotated[
        str, typer.Option(metavar="YYYY-MM", help="Month of the report; default: the latest.")
    ] = "",
    json: Json = False,
) -> None:
    """Print what production jobs proved: node-hours saved, gains, refuted decisions, roll-outs.

    Jobs that were tuned are compared with a control group that keeps the library's default.
    Nothing is judged by this command: it prints what the service found last.

    Example: colltune site status /shared/colltune

    Example: colltune site status http://tuning:8765 --report november.html --month 2026-11
    """
    if month and report is None:
        raise say("works-only-with", option="--month", other="--report")
    require("service", "pydantic", "sqlalchemy")
    from colltune.files import whole
    from colltune.production.status import PrintedStatus

    is_url = site.startswith(_URLS)
    found, text = (_asked if is_url else _read)(site, month, with_report=report is not None)
    if report is not None:
        with whole(report) as temporary:
            temporary.write_text(text, encoding="utf-8")
    printed = PrintedStatus(**vars(found), report=report)
    output(printed, [*_lines(found), *([f"report -> {report}"] if report else [])], json=json)


def _asked(url: str, month: str, *, with_report: bool) -> tuple[ProductionStatus, str]:
    """Return what the service at `url` tells, and the report if it is wanted."""
    from pydantic import TypeAdapter

    from colltune.production.status import ProductionStatus
    from colltune.server.slurm.ask import ask

    try:
        told = ask(url, "/v1/view/production", _SERVICE_S)
        found = TypeAdapter(ProductionStatus).validate_json(told)
    except ValueError as error:
        raise say("not-understood", url=url) from error
    path = f"/v1/production/report?month={quote(month)}"
    return found, ask(url, path, _SERVICE_S).decode() if with_report else ""


def _read(site: str, month: str, *, with_report: bool) -> tuple[ProductionStatus, str]:
    """Return the same from the files of the site in the folder `site`."""
    from colltune.production.status import read
    from colltune.registry import Registry
    from colltune.site.folder import site_of

    told = site_of(Path(site).absolute())
    registry = Registry(told.registry)
    found = read(told.production, registry, told.machine)
    text = ""
    if with_report:
        from colltune.page.file import production_file

        text = production_file(found, registry.history() if found.months else (), month)
    return found, text


def _lines(found: ProductionStatus) -> Iterator[str | TextTable]:
    if not found.recording:
        yield f"{found.machine}: jobs in production are not recorded, so that nothing is known."
        yield "to switch it on, write into site.toml:"
        yield Verbatim("  [production]\n  record = true")
        yield Verbatim(f"then: {found.switch_on}")
        return
    yield from _saved(found)
    yield from _table("gain by collective", _gains(found))
    yield from _table("refuted", _decisions(found.refuted, withdrawn=True))
    yield from _table("proven", _decisions(found.proven))
    yield from _table("roll-outs", _roll_outs(found))
    for one in found.stopped:
        by, why = printable(one.by), printable(one.note)
        yield f"{one.slot}: trial of {one.bundle_id[:12]} stopped {one.at_utc[:16]} by {by}: {why}"
    yield from _table("arms", _arms(found))
    rows = [[one.reason, one.times] for one in (*found.set_aside, *found.left_out)]
    yield from _table("not judged", TextTable(("why", "times"), rows, wrap=("why",)))


def _saved(found: ProductionStatus) -> Iterator[str]:
    if found.saved is None:
        yield f"{found.machine}: no job was judged yet"
        return
    if found.months:
        latest = found.months[0]
        yield f"{found.machine}: saved in {latest.period}: {_hours(latest)}"
    yield f"{found.machine}: saved since the beginning: {_hours(found.saved)}"
    yield (
        f"{counted(found.proven_count, 'decision')} proven, {found.refuted_count} refuted,"
        f" {found.open_count} not known yet, {found.not_compared_count} not compared;"
        f" judged {found.judged_utc}"
    )
    for drift in found.drifts:
        yield f"drift of {drift.slot}: {printable(drift.text)}"


def _hours(one: Period) -> str:
    return node_hours_text(one.node_hours, one.lower, one.upper)


def _table(title: str, table: TextTable) -> Iterator[str | TextTable]:
    if table.rows:
        yield ""
        yield f"{title}:"
        yield table


def _gains(found: ProductionStatus) -> TextTable:
    header = ("collective", "gain", "95 % interval", "decisions", "node-hours saved")
    rows = [
        [
            one.mpi_name,
            f"{one.gain:.2f}x",
            f"{one.lower:.2f} .. {one.upper:.2f}",
            one.decisions,
            number_text(one.saved_node_hours),
        ]
        for one in found.collectives
    ]
    return TextTable(header, rows)


def _decisions(decisions: Iterable[JudgedDecision], *, withdrawn: bool = False) -> TextTable:
    header = ("collective", "MPI", "nodes x ppn", "bytes", "used", "gain", "jobs", "control")
    ended = ("withdrawn", "revision") if withdrawn else ()
    rows = []
    for one in decisions:
        first, last = one.nodes_first, one.nodes_last
        gain = f"{one.gain:.2f} ({one.lower:.2f}-{one.upper:.2f})"
        row: list[object] = [
            one.mpi_name,
            one.slot,
            f"{first if first == last else f'{first}-{last}'}x{one.ppn}",
            range_text(one.first_bytes, one.last_bytes),
            one.configuration,
            marked(gain, Mark.BAD if one.gain < 1 else Mark.GOOD),
            one.jobs,
            one.control_jobs,
            one.withdrawn_utc[:10] or "not yet",
            one.revision[:12],
        ]
        rows.append(row[: len(header) + len(ended)])
    order = ("control", *ended[1:], "MPI", "jobs")
    return TextTable((*header, *ended), rows, ("used", "bytes"), order)


def _roll_outs(found: ProductionStatus) -> TextTable:
    header = (
        "MPI",
        "bundle",
        "share",
        "steps",
        "jobs",
        "time over in force",
        "state",
        "since",
        "by",
    )
    rows = [
        [
            one.slot,
            one.bundle_id[:12],
            f"{one.share:.0%}",
            " ".join(f"{share:.0%}" for share in one.shares),
            f"{one.jobs} of {one.jobs_wanted}",
            "" if one.lower is None else f"{one.lower:.2f} .. {one.upper:.2f}",
            marked(one.why, Mark.BAD) if one.harmed else one.why,
            one.since_utc[:16],
            one.by,
        ]
        for one in found.roll_outs
    ]
    return TextTable(header, rows, wrap=("by", "state"), drop=("steps", "by", "since"))


def _arms(found: ProductionStatus) -> TextTable:
    header = ("MPI", "arm", "bundle", "asked", "reported", "silent", "own settings")
    rows = [
        [one.slot, one.arm, one.bundle_id[:12], one.asked, one.reported, one.silent, one.own]
        for one in found.arms
    ]
    return TextTable(header, rows, drop=("bundle", "own settings"))
