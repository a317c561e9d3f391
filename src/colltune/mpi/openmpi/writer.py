"""Writes a decision table as a classic rules file, with coll/han's dispatch file beside it."""

from __future__ import annotations

from colltune.decisions import DecisionTable, Status
from colltune.domain import Shape
from colltune.mpi.catalogue import Catalogue, CollectiveEntry
from colltune.mpi.file_format import Written
from colltune.mpi.openmpi import dispatch
from colltune.mpi.openmpi.choosing import Choice, Chooser, Chosen, Steps
from colltune.mpi.openmpi.classic import writing
from colltune.mpi.openmpi.classic.parsed import NAME
from colltune.mpi.openmpi.classic.writing import Block, Line
from colltune.mpi.openmpi.releases import LIBRARY, reads_version_header

DISPATCH = ".dispatch"
"""End of the name of coll/han's file beside the rules."""


def write(table: DecisionTable, release: str, *, builtin_operations_only: bool = False) -> Written:
    """Return `table` as a rules file for `release`.

    Whatever the table does not say, and whatever cannot be written safely, is left to the library;
    the notes tell the latter. `builtin_operations_only` says that the program never reduces with an
    operation that does not commute.

    Raises
    ------
    LibraryError
        If the release is not supported or the table is not one of Open MPI's.
    """
    chooser = Chooser(
        release,
        builtin_operations_only=builtin_operations_only,
        requests=reads_version_header(release),
    )
    chosen = chooser.by_size(table)
    text = _render(chooser.catalogue, table.shape, release, chosen)
    steered, steering = _steered(chooser.catalogue, table.shape, chosen)
    texts = {"": text}
    if steered:
        texts[DISPATCH] = dispatch.render(steered, table.shape)
    notes = (*chooser.notes, *_layouts(table), *steering)
    return Written(NAME, release, texts, notes)


def _layouts(table: DecisionTable) -> tuple[str, ...]:
    """Return notes on what is said of layouts, of which this format knows nothing."""
    return tuple(
        f"{collective} on {shape} processes: left to what holds for {shape.nprocs} processes in any"
        " layout, because this format does not tell layouts apart"
        for collective, shape in sorted(table.by_layout)
    )


def _steered(catalogue: Catalogue, shape: Shape, chosen: Choice) -> tuple[Choice, tuple[str, ...]]:
    """Return what coll/han would take away, unless it is told not to, and notes on it.

    Its inner communicators have one process per node, or those of one node; rules for these sizes
    reach them too, which is noted.
    """
    if shape.nodes < 2:
        return {}, ()
    steered = {k: steps for k, steps in chosen.items() if k[0] in catalogue.han_collectives}
    notes = tuple(
        f"{collective} on {comm_size} processes: these rules also reach coll/han's inner"
        f" communicators, which have {comm_size} processes on {shape}"
        for collective, comm_size in steered
        if comm_size in (shape.nodes, shape.ppn)
    )
    return steered, notes


def _render(catalogue: Catalogue, shape: Shape, release: str, chosen: Choice) -> str:
    heading = (
        f"Open MPI coll_tuned rules for {shape} (nodes x processes per node), release {release}",
        "Written by colltune. All ranks must read the same file.",
    )
    blocks = {
        collective: _blocks(
            catalogue.collectives[collective],
            shape,
            {size: steps for (c, size), steps in chosen.items() if c is collective},
        )
        for collective in sorted({collective for collective, _ in chosen})
    }
    return writing.render(catalogue, heading, blocks)


def _blocks(entry: CollectiveEntry, shape: Shape, by_size: dict[int, Steps]) -> list[Block]:
    """Return the blocks of one collective: all sizes that are not listed are the library's."""
    found = [writing.left(0, entry.collective, LIBRARY)]
    for comm_size in sorted(by_size):
        lines = _lines(entry, shape, comm_size, by_size[comm_size])
        found.append(Block(comm_size, lines))
        if comm_size + 1 not in by_size:
            found.append(writing.left(comm_size + 1, entry.collective, LIBRARY))
    return found


def _lines(entry: CollectiveEntry, shape: Shape, comm_size: int, steps: Steps) -> tuple[Line, ...]:
    where = str(shape) if comm_size == shape.nprocs else f"{comm_size} processes"
    return tuple(
        Line(
            writing.counted(entry, comm_size, step.first_bytes),
            step.configuration,
            f"{entry.collective}, {where}: {_what(step)}",
        )
        for step in steps
    )


def _what(step: Chosen) -> str:
    what = step.configuration.algorithm
    if step.configuration.parameters:
        what += " " + step.configuration.parameter_text.replace(",", " ")
    told = "" if step.status is Status.PREDICTED else f", {step.status}"
    return f"{what} from {step.first_bytes} bytes{told}"
