"""`colltune select`: what to use where, as a table, one decision, a file, or many at once."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from colltune.cli.console import (
    TextTable,
    Verbatim,
    configuration_cell,
    message_text,
    output,
)
from colltune.cli.options import (
    BuiltinOperationsOnly,
    BundleAt,
    Caution,
    Cores,
    ForPrograms,
    ForResults,
    Guarded,
    Json,
    Quiet,
    SiteOfBundle,
    Size,
    bundle_to_read,
    programs_of,
    writable_file,
)
from colltune.domain import Collective, Context, Instance, Shape, parse_collective
from colltune.errors import DataError, say
from colltune.text import counted, range_text, time_text

if TYPE_CHECKING:
    from colltune.decisions import Selection
    from colltune.models.guard import Guard
    from colltune.mpi.programs import Programs
    from colltune.selector.argmin import ModelSelector
    from colltune.selector.configuration import Target, WrittenConfiguration


class SelectedFiles(NamedTuple):
    """What `select --format` prints."""

    format: str
    """format of the file"""
    rules: Path
    """the file"""
    parameters: Path | None
    """file of parameters that goes with it"""
    environment: Mapping[str, str]
    """variables that put it into effect"""
    notes: Sequence[str]
    """what could not be written"""
    release: str
    """release that it is for"""
    promise: str


class SelectedInstances(NamedTuple):
    """What `select --instances` prints."""

    instances: int
    """instances that were decided"""
    changed: int
    """decisions that are not the default"""
    without_models: Mapping[Collective, int]
    """instances of collectives that the bundle lacks"""
    out: Path
    """file of the decisions"""


def select(
    bundle: BundleAt = None,
    site: SiteOfBundle = None,
    nodes: Annotated[int | None, typer.Option(help="Nodes of the job.", min=1)] = None,
    ppn: Annotated[int | None, typer.Option(help="Processes per node.", min=1)] = None,
    collective: Annotated[
        str | None, typer.Option(help="Only this collective: bcast, allreduce, …")
    ] = None,
    msize: Annotated[
        int | None,
        typer.Option(help="Only this message size: 65536, 64k, 64KiB.", click_type=Size()),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Write a configuration for a library (openmpi, mpich, intelmpi) or in one of its"
            " formats (openmpi-json, openmpi-parameters, mpich-cvars, intelmpi-adjust, …).",
        ),
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="Release to write for, 4.1.4; default: the measured release.")
    ] = None,
    instances: Annotated[
        Path | None,
        typer.Option(help="CSV of instances: collective,nodes,ppn,msize_bytes; needs --out."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write.", callback=writable_file)] = None,
    cores: Cores = None,
    programs: ForPrograms = None,
    results: ForResults = None,
    builtin_operations_only: BuiltinOperationsOnly = False,
    guard: Guarded = True,
    caution: Caution = 1.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Select algorithms for the shape of a job.

    Examples: the table, one decision, a file for MPI, many decisions at once.

    colltune select --nodes 34 --ppn 32

    colltune select --bundle bundle --nodes 34 --ppn 32 --collective bcast --msize 65536

    colltune select --bundle bundle --nodes 34 --ppn 32 --format openmpi --release 4.1.4 --out rules

    colltune select --bundle bundle --instances in.csv --out out.csv
    """
    from colltune.models.bundle import load
    from colltune.models.guard import Guard

    path: Any = _needed(out, "--out") if instances is not None or format_ is not None else out
    if instances is None:
        shape = Shape(_needed(nodes, "--nodes"), _needed(ppn, "--ppn"))
    bundle = bundle_to_read(bundle, site=site, quiet=json)
    limits = Guard(caution=caution) if guard else False
    promised = programs_of(programs, results, builtin_operations_only=builtin_operations_only)
    if instances is not None:
        _select_many(bundle, instances, path, limits, cores, promised, quiet=quiet, json=json)
        return
    wanted = (parse_collective(collective),) if collective else None
    loaded = load(bundle, wanted)
    if format_ is not None:
        from colltune.mpi.formats import format_for
        from colltune.selector import configuration as files

        of_release = release or loaded.context.library_version
        # before a release of another library's is looked up
        files.insist_measured_with(loaded, format_for(format_, of_release))
        target = files.Target.named(format_, of_release, programs=promised)
        cores = job_cores(cores, loaded.context, shape)
        selector = files.selector_for(loaded, target, guard=limits, cores=cores)
        if why := selector.why_kept(shape):
            raise say("nothing-written", shape=shape, why=why)
        found = files.render(selector, shape, target)
        _show_written(files.write_rendered(found, path, *libcolltune_for(target)), as_json=json)
        return
    from colltune.selector.argmin import legal_selector

    enough = job_cores(cores, loaded.context, shape)
    selector = legal_selector(loaded, promised, guard=limits, cores=enough)
    collectives = wanted or loaded.collectives
    if msize is not None:
        _show_some(selector, [Instance(each, shape, msize) for each in collectives], json=json)
    else:
        _show_table(selector, collectives, shape, promised, json=json)


def job_cores(named: int | None, context: Context, shape: Shape) -> int:
    """Return the cores per node of a job of `shape`: those `named`, or of this very machine."""
    from colltune.decisions import ENOUGH_CORES

    if named is not None:
        return named
    if shape.nodes > 1 or context.machine != os.uname().nodename:
        return ENOUGH_CORES
    from colltune.provenance import usable_cores

    return usable_cores()


def libcolltune_for(target: Target) -> tuple[Path | None, tuple[str, ...]]:
    """Return libcolltune where the target's format is read by it, and notes on how to get it."""
    if not target.form.interposed:
        return None, ()
    from colltune.bench.build import library_or_note

    return library_or_note(target.form.library, target.release)


def _show_written(found: WrittenConfiguration, *, as_json: bool) -> None:
    written = found.written
    effect = found.environment, written.notes, written.release, str(found.programs)
    facts = SelectedFiles(written.format, found.rules_path, found.parameter_path, *effect)
    lines = [
        f"{written.format} for {found.table.library} {written.release}, {found.table.shape}:",
        f"  {found.rules_path}",
        f"for {found.programs.phrase}",
        Verbatim(f"add to the job: {found.job_line}"),
        Verbatim(f"or start it with: {found.start_line}"),
    ]
    output(facts, lines, json=as_json, warnings=(f"note: {note}" for note in written.notes))


def _needed(value: Any, flag: str) -> Any:
    if value is None:
        raise say("missing", what=flag, give="it")
    return value


def _show_some(selector: ModelSelector, instances: Sequence[Instance], *, json: bool) -> None:
    from colltune.selector.selection_json import SelectedInstance

    selections = selector.select_many(instances)
    rows = [*map(SelectedInstance.of, selections)]
    output(rows[0] if len(rows) == 1 else rows, map(_sentence, selections), json=json)


def _sentence(selection: Selection) -> str:
    instance, prediction = selection.instance, selection.prediction
    size = message_text(instance.collective, instance.msize_bytes)
    where = f"{instance.collective} on {instance.shape}, {size}"
    text = f"{where}: {selection.configuration.id}\n  {selection.reason}"
    if prediction is not None:
        low, high = time_text(prediction.lower_s), time_text(prediction.upper_s)
        text += f"\n  predicted {time_text(prediction.time_s)} ({low} .. {high})"
    if selection.default is not None:
        text += f"; default {time_text(selection.default.time_s)}"
    for runner_up in selection.runners_up[:3]:
        predicted = time_text(runner_up.prediction.time_s)
        text += f"\n  next: {runner_up.configuration.id} {predicted}"
    return text


def _show_table(
    selector: ModelSelector,
    collectives: Sequence[Collective],
    shape: Shape,
    programs: Programs,
    *,
    json: bool,
) -> None:
    from colltune.selector.selection_json import SelectionTable

    bundle, found = selector.bundle, SelectionTable.of(selector, collectives, shape, programs)
    rows = [
        (
            interval.collective,
            range_text(interval.first_bytes, interval.last_bytes),
            configuration_cell(interval.configuration),
            interval.reason,
        )
        for interval in found.intervals
    ]
    where = f"{counted(shape.nodes, 'node')} x {counted(shape.ppn, 'process', 'es')}"
    header = ("collective", "message size", "configuration", "why")
    lines: list[str | TextTable] = [
        f"{bundle.context}; {where}; {bundle.objective} times; for {programs.phrase}",
        TextTable(header, rows, wrap=("why", "configuration")),
    ]
    output(found, lines, json=json)


def _select_many(
    path: Path,
    source: Path,
    out: Path,
    guard: bool | Guard,
    cores: int | None,
    programs: Programs,
    *,
    quiet: bool,
    json: bool,
) -> None:
    from colltune.cli.progress import progress
    from colltune.decisions import ENOUGH_CORES
    from colltune.models.bundle import load
    from colltune.selector.argmin import legal_selector, no_models
    from colltune.selector.selection_json import COLUMNS, SelectedInstance

    with progress("reading", quiet=quiet or json) as shown:
        instances = read_instances(source)
        asked = Counter(instance.collective for instance in instances)
        bundle = load(path, tuple(asked), partly=True)
        shown.phase("selecting")
        enough = cores or ENOUGH_CORES
        selector = legal_selector(bundle, programs, guard=guard, cores=enough)
        selections = selector.select_many(instances)
        shown.phase("writing")
        write_rows(out, COLUMNS, [SelectedInstance.of(each).row() for each in selections])
    lacking = {c: number for c, number in asked.items() if c not in bundle.collectives}
    changed = sum(not s.configuration.is_default for s in selections)
    warnings = (f"{counted(n, 'instance')} of {c}: {no_models(c)}" for c, n in lacking.items())
    line = (
        f"{counted(len(selections), 'instance')}, {changed} of them not left to the default -> "
        f"{out}"
    )
    facts = SelectedInstances(len(selections), changed, lacking, out)
    output(facts, [line], json=json, warnings=warnings)


_COLUMNS = ("collective", "nodes", "ppn", "msize_bytes")
_WHOLE = re.compile(r"[0-9]{1,18}")


def read_instances(path: Path) -> list[Instance]:
    """Read a CSV with the columns collective, nodes, ppn, msize_bytes; others are ignored."""
    import csv
    import io

    from colltune.files.reading import text_of

    text = text_of(path, DataError, f"name a CSV file with the columns {', '.join(_COLUMNS)}")
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    try:
        if not {*_COLUMNS} <= {*(reader.fieldnames or ())}:
            raise say("columns-differ", expected=", ".join(_COLUMNS)).of(str(path))
        return [_instance(row, f"{path}, line {reader.line_num}") for row in reader]
    except csv.Error as error:
        raise say("not-csv", path=f"{path}, line {reader.line_num}", why=error) from error


def _instance(row: Mapping[str, str | None], where: str) -> Instance:
    numbers = {}
    for column in _COLUMNS[1:]:
        text = (row[column] or "").strip()
        least = 0 if column == "msize_bytes" else 1
        if not _WHOLE.fullmatch(text) or int(text) < least:
            why = f"is not an integer of {least} or more"
            raise say("wrong-cell", place=where, column=column, value=text, why=why)
        numbers[column] = int(text)
    try:
        collective = parse_collective(row["collective"] or "")
    except DataError as error:
        raise error.of(f"{where}, column collective") from None
    return Instance(collective, Shape(numbers["nodes"], numbers["ppn"]), numbers["msize_bytes"])


def write_rows(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    import csv

    from colltune.files import whole

    with whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
