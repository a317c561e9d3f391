"""Writes a decision table as a classic rules file, version 1, for Open MPI 4.1.4 to 5.0."""

from __future__ import annotations

from colltune.domain import Collective, Configuration, DecisionTable, Shape
from colltune.mpi.catalogue import Catalogue, CollectiveEntry
from colltune.mpi.openmpi import dispatch
from colltune.mpi.openmpi.choosing import Choice, Chooser, Steps
from colltune.mpi.openmpi.reader import read
from colltune.mpi.openmpi.simulator import size_in_file
from colltune.mpi.protocol import CommunicatorRules, Decision, Rule, RulesFile


def write(
    table: DecisionTable, release: str, *, builtin_operations_only: bool = False
) -> RulesFile:
    """Return `table` as a rules file for `release`.

    Whatever the table does not say, and whatever cannot be written safely, is left to the library;
    the notes tell the latter. `builtin_operations_only` says that the program never reduces with an
    operation that does not commute.

    Raises
    ------
    LibraryError
        If the release is not supported or the table is not one of Open MPI's.
    """
    chooser = Chooser(release, builtin_operations_only=builtin_operations_only)
    chosen = chooser.by_size(table)
    text = _render(chooser.catalogue, table.shape, release, chosen)
    written = read(text, "the file just written", release)
    steered, steering = _steered(chooser.catalogue, table.shape, chosen)
    return RulesFile(
        text,
        written.rules,
        (*chooser.notes, *steering),
        dispatch.render(steered, table.shape) if steered else "",
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
    collectives = sorted({collective for collective, _ in chosen})
    lines = [
        f"# Open MPI coll_tuned rules for {shape} (nodes x processes per node), release {release}",
        "# Written by colltune. All ranks must read the same file.",
        f"{len(collectives)} # collectives",
    ]
    for collective in collectives:
        entry = catalogue.collectives[collective]
        by_size = {size: steps for (c, size), steps in chosen.items() if c is collective}
        entries = _communicators(entry, by_size)
        lines.append(f"{entry.id} # {collective}")
        lines.append(f"{len(entries)} # communicator sizes")
        for communicator in entries:
            steps = by_size.get(communicator.comm_size, ())
            lines += _entry_lines(collective, shape, communicator, steps)
    return "\n".join(lines) + "\n"


def _communicators(entry: CollectiveEntry, by_size: dict[int, Steps]) -> list[CommunicatorRules]:
    """Return the entries of one collective: all sizes that are not listed are the library's."""
    nothing = (Rule(0, Decision(0)),)
    found = [CommunicatorRules(0, nothing)]
    for comm_size in sorted(by_size):
        rules = tuple(
            Rule(
                size_in_file(entry, comm_size, step.first_bytes),
                _decision(entry, step.configuration),
            )
            for step in by_size[comm_size]
        )
        found.append(CommunicatorRules(comm_size, rules))
        if comm_size + 1 not in by_size:
            found.append(CommunicatorRules(comm_size + 1, nothing))
    return found


def _decision(entry: CollectiveEntry, configuration: Configuration) -> Decision:
    algorithm = entry.named(configuration.algorithm)
    if configuration.is_default or algorithm is None:
        return Decision(0)
    parameters = dict(configuration.parameters)
    return Decision(algorithm.number, parameters.get("fanout", 0), parameters.get("segsize", 0))


def _entry_lines(
    collective: Collective, shape: Shape, communicator: CommunicatorRules, steps: Steps
) -> list[str]:
    if not steps:
        return [f"{communicator.comm_size} 1 # left to the library", "0 0 0 0"]
    size = communicator.comm_size
    where = str(shape) if size == shape.nprocs else f"{size} processes"
    lines = [f"{size} {len(communicator.rules)}"]
    for rule, step in zip(communicator.rules, steps, strict=True):
        fields = (rule.first_bytes, *rule.decision)
        what = step.configuration.algorithm
        if step.configuration.parameters:
            what += " " + step.configuration.parameter_text.replace(",", " ")
        lines.append(
            f"{' '.join(str(field) for field in fields)}"
            f" # {collective}, {where}: {what} from {step.first_bytes} bytes"
        )
    return lines
