"""Writes classic rules files: a decision table, or rules of another file, as lines of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from colltune.decisions import DecisionTable, Status
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, Catalogue, CollectiveEntry, SizeUnit
from colltune.mpi.choosing import Chosen, Steps
from colltune.mpi.file_format import ParsedFile, Written
from colltune.mpi.openmpi.choosing import Choice, TunedChooser, why_not_kept
from colltune.mpi.openmpi.classic.parsed import NAME
from colltune.mpi.openmpi.dispatch import DISPATCH, dispatch_rules
from colltune.mpi.openmpi.library import OPENMPI
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of, reads_version_header
from colltune.mpi.openmpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    CommunicatorRange,
    Distribution,
    RangedFile,
)
from colltune.mpi.openmpi.spans import ranged

HEADER = "rule-file-version-2"


@dataclass(frozen=True)
class Line:
    """A rule: from ``first`` on, as the library counts, ``configuration``; what to say of it."""

    first: int
    configuration: Configuration
    comment: str = ""


@dataclass(frozen=True)
class Block:
    """The rules for communicators of ``comm_size`` processes and more, up to the next block."""

    comm_size: int
    lines: tuple[Line, ...]
    comment: str = ""


Blocks = Mapping[Collective, Sequence[Block]]


def counted(entry: CollectiveEntry, comm_size: int, msize_bytes: int) -> int:
    """Return what the library compares with thresholds for a message of `msize_bytes`."""
    if entry.size is SizeUnit.MSIZE:
        return msize_bytes
    if entry.size is SizeUnit.MSIZE_TIMES_NPROCS:
        return comm_size * msize_bytes
    return 0


def left(comm_size: int, collective: Collective, library: str) -> Block:
    """Return the block that leaves communicators from `comm_size` on to the library."""
    default = Configuration.default(library, collective)
    return Block(comm_size, (Line(0, default),), "left to the library")


def render(catalogue: Catalogue, heading: Sequence[str], blocks: Blocks) -> str:
    """Return the text of a file; every collective's first block has to be for 0 processes.

    It has a version header if a rule limits requests, which no release reads without one. For 6.x
    every bound between blocks is written twice, with the rules before and after it: that release
    takes a size for the end of the entries before, other ones for a start, and so it means the same
    to all.
    """
    requests = any(
        "requests" in dict(line.configuration.parameters)
        for found in blocks.values()
        for block in found
        for line in block.lines
    )
    lines = [HEADER] if requests else []
    lines += [*(f"# {text}" for text in heading), f"{len(blocks)} # collectives"]
    for collective, found in blocks.items():
        entry = catalogue.collectives[collective]
        written = _doubled(found) if catalogue.series.startswith("6") else found
        lines += [f"{entry.id} # {collective}", f"{len(written)} # communicator sizes"]
        for block in written:
            lines += _block_lines(entry, block)
    return "\n".join(lines) + "\n"


def _doubled(blocks: Sequence[Block]) -> list[Block]:
    found = [blocks[0]]
    for before, block in pairwise(blocks):
        until = f"up to {block.comm_size - 1} processes for Open MPI 6"
        found += [Block(block.comm_size, before.lines, until), block]
    return found


def _block_lines(entry: CollectiveEntry, block: Block) -> list[str]:
    comment = f" # {block.comment}" if block.comment else ""
    return [
        f"{block.comm_size} {len(block.lines)}{comment}",
        *(_line(entry, line) for line in block.lines),
    ]


def _line(entry: CollectiveEntry, line: Line) -> str:
    comment = f" # {line.comment}" if line.comment else ""
    return " ".join(str(number) for number in _line_numbers(entry, line)) + comment


def _line_numbers(entry: CollectiveEntry, line: Line) -> tuple[int, ...]:
    algorithm = entry.named(line.configuration.algorithm)
    if line.configuration.is_default or algorithm is None:
        return (line.first, 0, 0, 0)
    given = line.configuration.numbers
    numbers = (line.first, algorithm.number, given.get("fanout", 0), given.get("segsize", 0))
    return (*numbers, given["requests"]) if "requests" in given else numbers


def write(table: DecisionTable, release: str, *, builtin_operations_only: bool = False) -> Written:
    """Return `table` as a rules file for `release`.

    Whatever the table does not say, and whatever cannot be written safely, is left to the library;
    the notes tell the latter. `builtin_operations_only` says that the program never reduces with an
    operation that does not commute.
    """
    chooser = TunedChooser(
        release,
        builtin_operations_only=builtin_operations_only,
        requests=reads_version_header(release),
    )
    chosen = chooser.by_size(table)
    text = _render(chooser.catalogue, table.shape, release, chosen)
    steered, steering = _steered(chooser.catalogue, table.shape, chosen)
    texts = {"": text}
    if steered:
        texts[DISPATCH] = dispatch_rules(steered, table.shape)
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
    return render(catalogue, heading, blocks)


def _blocks(entry: CollectiveEntry, shape: Shape, by_size: dict[int, Steps]) -> list[Block]:
    """Return the blocks of one collective: all sizes that are not listed are the library's."""
    found = [left(0, entry.collective, LIBRARY)]
    for comm_size in sorted(by_size):
        lines = _step_lines(entry, shape, comm_size, by_size[comm_size])
        found.append(Block(comm_size, lines))
        if comm_size + 1 not in by_size:
            found.append(left(comm_size + 1, entry.collective, LIBRARY))
    return found


def _step_lines(
    entry: CollectiveEntry, shape: Shape, comm_size: int, steps: Steps
) -> tuple[Line, ...]:
    where = str(shape) if comm_size == shape.nprocs else f"{comm_size} processes"
    return tuple(
        Line(
            counted(entry, comm_size, step.first_bytes),
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


@dataclass(frozen=True)
class _Step:
    """From ``first`` on, as the library counts: what a line says; None where no rule holds."""

    first: int
    configuration: Configuration | None
    line: int


@dataclass(frozen=True)
class _Range:
    """The steps of communicators of ``first`` to ``last`` processes (None: no end)."""

    first: int
    last: int | None
    steps: tuple[_Step, ...]


_Ranges = dict[Collective, list[_Range]]


def convert(parsed: ParsedFile, release: str) -> Written:
    """Return a classic file for `release` that says what `parsed` does.

    The notes tell what cannot be kept, each with its line.
    """
    converter = _Converter(release)
    found = converter.ranges(parsed)
    blocks = {
        collective: converter.blocks(collective, ranges)
        for collective, ranges in sorted(found.items())
    }
    kept = {c: b for c, b in blocks.items() if any(_chooses(block) for block in b)}
    heading = (f"Open MPI coll_tuned rules, converted from {parsed.format} for release {release}",)
    text = render(converter.catalogue, heading, kept)
    return Written(NAME, release, {"": text}, tuple(dict.fromkeys(converter.notes)))


class _Converter:
    def __init__(self, release: str) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.notes: list[str] = []

    def ranges(self, parsed: ParsedFile) -> _Ranges:
        if not isinstance(parsed, RangedFile):
            raise LibraryError(
                f"{parsed.source}: what a file of {parsed.format} says cannot be said in {NAME}"
            )
        return {
            collective: list(self._ranges(self._any_layout(entries)))
            for collective, entries in parsed.ranges.items()
            if collective in self.catalogue.collectives
        }

    def _any_layout(self, entries: Sequence[CommunicatorRange]) -> list[CommunicatorRange]:
        found = [entry for entry in entries if entry.distribution is Distribution.ANY]
        for entry in entries:
            if entry not in found:
                what = f"rules for {entry.distribution} cannot be told from others, left out"
                self._note(entry.line, what)
        return found

    def _ranges(self, entries: Sequence[CommunicatorRange]) -> Iterator[_Range]:
        sizes = [(entry.first_size, _end(entry.last_size, LARGEST_COMM_SIZE)) for entry in entries]
        for first, last, owner in ranged(sizes).pieces():
            if owner is not None and (last is None or last >= 0):
                yield _Range(max(0, first), last, tuple(self._steps(entries[owner])))

    def _steps(self, entry: CommunicatorRange) -> Iterator[_Step]:
        rules = [rule for rule in entry.rules if rule.known]
        for rule in entry.rules:
            if not rule.known:
                self._note(rule.rule.line, f"'{rule.rule.text}' names no algorithm, left out")
        sizes = [(rule.first, _end(rule.last, LARGEST_SIZE)) for rule in rules]
        for first, last, owner in ranged(sizes).pieces():
            if last is None or last >= 0:
                held = None if owner is None else rules[owner].rule
                told = (None, entry.line) if held is None else (held.configuration, held.line)
                yield _Step(max(0, first), *told)

    def blocks(self, collective: Collective, ranges: Sequence[_Range]) -> list[Block]:
        entry = self.catalogue.collectives[collective]
        found = [left(0, collective, LIBRARY)]
        for communicators in ranges:
            self._put(found, Block(communicators.first, self._lines(entry, communicators)))
            if communicators.last is not None:
                after = communicators.last + 1
                self._put(found, left(after, collective, LIBRARY))
        merged = found[:1]
        for block in found[1:]:
            if _said(block) != _said(merged[-1]):
                merged.append(block)
        return merged

    def _put(self, blocks: list[Block], block: Block) -> None:
        if blocks[-1].comm_size == block.comm_size:
            blocks.pop()
        blocks.append(block)

    def _lines(self, entry: CollectiveEntry, communicators: _Range) -> tuple[Line, ...]:
        default = Configuration.default(LIBRARY, entry.collective)
        lines = [Line(0, default)]
        for step in communicators.steps:
            chosen = self._target(entry, communicators, step) or default
            if lines[-1].first == step.first:
                lines.pop()
            if not lines or chosen != lines[-1].configuration:
                comment = "" if chosen.is_default else chosen.id.partition(".")[2]
                lines.append(Line(step.first, chosen, comment))
        if entry.one_rule and len(lines) > 1:
            self._note(
                communicators.steps[0].line,
                f"left to the library: only one rule for all sizes is safe for {entry.collective}",
            )
            return (Line(0, default),)
        return tuple(lines)

    def _target(
        self, entry: CollectiveEntry, communicators: _Range, step: _Step
    ) -> Configuration | None:
        """Return the configuration in this release; None for the library's own decision."""
        if step.configuration is None or step.configuration.is_default:
            return None
        try:
            found = OPENMPI.at(self.release).space.canonical(self._renamed(entry, step))
        except LibraryError as error:
            self._note(step.line, f"left to the library: {error}")
            return None
        algorithm = OPENMPI.at(self.release).space.algorithm_of(found)
        why = self._refusal(algorithm, communicators, found)
        if why:
            self._note(step.line, f"left to the library: {why}")
            return None
        return found

    def _renamed(self, entry: CollectiveEntry, step: _Step) -> Configuration:
        """Return the configuration; one that became the case of a radix keeps meaning radix 2."""
        assert step.configuration is not None  # only such steps get here
        given = step.configuration
        algorithm = entry.named(given.algorithm)
        if algorithm is None or not algorithm.minimums or given.parameters:
            return given
        parameters = algorithm.minimums
        self._note(
            step.line, f"{given.algorithm} is {algorithm.name} with a fan-out of {parameters[0][1]}"
        )
        return Configuration(LIBRARY, given.collective, algorithm.name, parameters)

    def _refusal(self, algorithm: Algorithm, communicators: _Range, found: Configuration) -> str:
        why = why_not_kept(algorithm, communicators.first, communicators.last)
        limited = "requests" in dict(found.parameters)
        if not why and limited and not reads_version_header(self.release):
            return f"no file of {self.release} can tell the limit of requests"
        return why

    def _note(self, line: int, what: str) -> None:
        self.notes.append(f"line {line}: {what}")


def _end(last: int, largest: int) -> int | None:
    return None if last >= largest else last


def _said(block: Block) -> tuple[tuple[int, Configuration], ...]:
    return tuple((line.first, line.configuration) for line in block.lines)


def _chooses(block: Block) -> bool:
    return any(not line.configuration.is_default for line in block.lines)
