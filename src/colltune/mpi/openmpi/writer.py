"""Writes a decision table as a classic rules file, version 1, for Open MPI 4.1.4 to 5.0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from colltune.domain import Collective, Configuration, DecisionTable, Interval, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Catalogue, CollectiveEntry
from colltune.mpi.openmpi import dispatch, portfolio
from colltune.mpi.openmpi.reader import read
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.simulator import size_in_file
from colltune.mpi.protocol import CommunicatorRules, Decision, Rule, RulesFile

ELEMENT_BYTES = 8
"""Largest element for which a written algorithm is sure to run as itself: a double."""


@dataclass(frozen=True)
class Chosen:
    """A canonical configuration from a message size on, in our ``msize_bytes``."""

    first_bytes: int
    configuration: Configuration


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
    if table.library != LIBRARY:
        raise LibraryError(f"a decision table of {table.library} is no Open MPI configuration")
    writer = _Writer(release, catalogue_of(release), builtin_operations_only)
    chosen = writer.choose(table)
    text = _render(writer.catalogue, table.shape, release, chosen)
    written = read(text, "the file just written", release)
    steered = writer.steered(table.shape, chosen)
    return RulesFile(
        text,
        written.rules,
        tuple(writer.notes),
        dispatch.render(steered, table.shape) if steered else "",
    )


Steps = tuple[Chosen, ...]
Choice = dict[tuple[Collective, int], Steps]


class _Writer:
    """Decides what of a table may be written, and notes what may not."""

    def __init__(self, release: str, catalogue: Catalogue, builtin_operations_only: bool) -> None:
        self.release, self.catalogue = release, catalogue
        self.builtin_operations_only = builtin_operations_only
        self.notes: list[str] = []

    def choose(self, table: DecisionTable) -> Choice:
        """Return the steps that may be written, where any of them is not the default."""
        chosen: Choice = {}
        for collective, comm_size in sorted(table.rules):
            intervals = table.rules[collective, comm_size]
            _check_intervals(collective, comm_size, intervals)
            if comm_size < 2:
                self.notes.append(f"{_where(collective, comm_size)}: needs no algorithm")
                continue
            steps = self._steps(collective, comm_size, intervals)
            if any(not step.configuration.is_default for step in steps):
                chosen[collective, comm_size] = steps
        return chosen

    def steered(self, shape: Shape, chosen: Choice) -> Choice:
        """Return what coll/han would take away, unless it is told not to.

        Its inner communicators have one process per node, or those of one node; rules for these
        sizes reach them too, which is noted.
        """
        if shape.nodes < 2:
            return {}
        steered = {
            k: steps for k, steps in chosen.items() if k[0] in self.catalogue.han_collectives
        }
        for collective, comm_size in steered:
            if comm_size in (shape.nodes, shape.ppn):
                self.notes.append(
                    f"{_where(collective, comm_size)}: these rules also reach coll/han's inner"
                    f" communicators, which have {comm_size} processes on {shape}"
                )
        return steered

    def _steps(
        self, collective: Collective, comm_size: int, intervals: Sequence[Interval]
    ) -> Steps:
        where = _where(collective, comm_size)
        steps: list[Chosen] = []
        for interval in intervals:
            steps += self._allowed(where, comm_size, interval)
        merged = _merged(steps)
        if self.catalogue.collectives[collective].one_rule and len(merged) > 1:
            self.notes.append(
                f"{where}: left to the library, because only one algorithm for all message sizes is"
                f" safe for this collective and the table has {len(merged)} ranges"
            )
            return (Chosen(0, Configuration.default(LIBRARY, collective)),)
        return merged

    def _allowed(self, where: str, comm_size: int, interval: Interval) -> list[Chosen]:
        """Return the interval's choice, after a step left to the library where that is needed."""
        default = Configuration.default(LIBRARY, interval.configuration.collective)
        left = Chosen(interval.first_bytes, default)
        if interval.configuration.is_default:
            return [left]
        why, first_bytes = self._refusal(comm_size, interval)
        if why:
            self.notes.append(f"{where}, {_span(interval)}: left to the library: {why}")
            return [left]
        spelled = portfolio.canonical(self.release, interval.configuration)
        if first_bytes <= interval.first_bytes:
            return [Chosen(interval.first_bytes, spelled)]
        self.notes.append(
            f"{where}, {_span(interval)}: left to the library below {first_bytes} bytes:"
            f" {spelled.algorithm} may fall back to another algorithm there"
        )
        return [left, Chosen(first_bytes, spelled)]

    def _refusal(self, comm_size: int, interval: Interval) -> tuple[str, int]:
        """Return why the configuration may not be written, else from which size on it may."""
        configuration = interval.configuration
        try:
            portfolio.canonical(self.release, configuration)
        except LibraryError as error:
            return str(error), 0
        why = portfolio.why_unsafe(
            self.release,
            configuration,
            builtin_operations_only=self.builtin_operations_only,
            nprocs=comm_size,
        )
        runs = portfolio.running_range(self.release, configuration, comm_size, ELEMENT_BYTES)
        if why or runs.first_bytes is None:
            return why or runs.reason, 0
        if interval.last_bytes is not None and runs.first_bytes > interval.last_bytes:
            return runs.reason, 0
        return "", runs.first_bytes


def _check_intervals(collective: Collective, comm_size: int, intervals: Sequence[Interval]) -> None:
    expected: int | None = 0
    for interval in intervals:
        if interval.first_bytes != expected or interval.configuration.collective != collective:
            break
        expected = None if interval.last_bytes is None else interval.last_bytes + 1
        if expected is not None and expected <= interval.first_bytes:
            break
    else:
        if intervals and expected is None:
            return
    raise LibraryError(
        f"{_where(collective, comm_size)}: the decision table's intervals must be of this"
        " collective, start at 0 bytes, follow each other and end without bound"
    )


def _merged(steps: Sequence[Chosen]) -> Steps:
    kept: list[Chosen] = []
    for step in steps:
        if not kept or step.configuration != kept[-1].configuration:
            kept.append(step)
    return tuple(kept)


def _where(collective: Collective, comm_size: int) -> str:
    return f"{collective} on {comm_size} processes"


def _span(interval: Interval) -> str:
    end = "on" if interval.last_bytes is None else f"to {interval.last_bytes} bytes"
    return f"from {interval.first_bytes} {end}"


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
