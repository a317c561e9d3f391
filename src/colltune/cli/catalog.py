"""`colltune rules catalog`: what is known of the MPI libraries, and whether the one here agrees."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, output, terminal_width
from colltune.cli.options import Json, Mpi, Quiet
from colltune.cli.progress import progress
from colltune.errors import LibraryError, UsageError, say
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.mpi import MpiLibrary
    from colltune.mpi.installation import Installation
    from colltune.mpi.installation_facts import CatalogueCheck
    from colltune.mpi.reference import (
        AlgorithmFacts,
        CollectiveFacts,
        LibraryFacts,
        ReleaseFacts,
    )
    from colltune.verify.legal_programs import Matrix


@dataclass(frozen=True)
class LegalityMeasured:
    """What `rules catalog --measure-programs` prints."""

    library: str
    """library whose algorithms were measured"""
    release: str
    """release of the MPI"""
    processes: tuple[int, ...]
    """numbers of processes"""
    calls: int
    """calls that were made"""
    out: Path
    """file of the outcomes"""
    once: tuple[str, ...]
    """configurations under which a launch failed once, and not again"""


def catalog(
    library: Annotated[
        str | None,
        typer.Argument(
            metavar="LIBRARY[@RELEASE]",
            help="openmpi@5.0.8, mpich@4.3, intelmpi; default release: the newest.",
        ),
    ] = None,
    collective: Annotated[
        str | None, typer.Argument(metavar="COLLECTIVE", help="bcast, MPI_Allreduce, …")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare with the installed MPI; the exit status is 1 if they differ."
        ),
    ] = False,
    measure_programs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measure what each algorithm of the installed MPI does to legal programs, and "
            "which bits its reductions give, and write it to this file. Takes about two hours; an "
            "interrupted run goes on where it was.",
        ),
    ] = None,
    processes: Annotated[
        list[int] | None,
        typer.Option(
            min=2,
            metavar="N",
            help="With --measure-programs: a number of processes, several times for several; "
            "default: 2, 3, 4, 5 and 8, for bits 2 to 16, all on this host.",
        ),
    ] = None,
    libcolltune: Annotated[
        bool,
        typer.Option(
            "--libcolltune",
            help="With --measure-programs: libcolltune's algorithms, over the installed MPI.",
        ),
    ] = False,
    fewer: Annotated[
        bool,
        typer.Option(
            "--fewer",
            help="With --measure-programs: fewer sizes, segment sizes and fan-outs. Takes a third "
            "of the time.",
        ),
    ] = False,
    large: Annotated[
        bool,
        typer.Option(
            "--large",
            help="With --measure-programs: also calls of more than 2^31 bytes, on the smallest "
            "number of processes. Needs 17 GB of memory.",
        ),
    ] = False,
    only_bits: Annotated[
        bool,
        typer.Option(
            "--only-bits",
            help="With --measure-programs: only which bits reductions give, added to what FILE "
            "tells.",
        ),
    ] = False,
    nodes: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="With --measure-programs: also whether bits depend on how processes lie on so "
            "many nodes. Needs a job of them, and FILE in a folder that all of them see.",
        ),
    ] = 1,
    mpi: Mpi = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Print the known algorithms of an MPI library, or compare them with an installed MPI.

    With --check the exit status is 0 if the catalogue and the installed MPI agree, and 1 if they
    differ. Unless you name a release, the installed MPI's release is used.

    Examples: all libraries, all collectives of a release, one collective, the installed MPI.

    colltune rules catalog

    colltune rules catalog openmpi@5.0.8

    colltune rules catalog openmpi@5.0.8 bcast

    colltune rules catalog --check --mpi /opt/openmpi

    colltune rules catalog --measure-programs openmpi-5.0.12.json --mpi /opt/openmpi
    """
    if measure_programs is not None:
        if check or collective is not None:
            other = "--check and COLLECTIVE"
            raise say("exclusive", UsageError, one="--measure-programs", other=other)
        matrices = _matrices(processes, libcolltune, fewer, large, nodes)
        asked = matrices[1:] if only_bits else matrices
        return _measure(_installed(library, mpi), measure_programs, asked, quiet, json)
    if processes or libcolltune or fewer or large or only_bits or nodes > 1:
        option = "each of --processes, --libcolltune, --fewer, --large, --only-bits and --nodes"
        raise say("works-only-with", UsageError, option=option, other="--measure-programs")
    if check:
        with progress("inspecting the installed MPI", quiet=quiet or json):
            found = _checked(library, collective, mpi)
        output(found, _check_lines(found), json=json)
        return 1 if found.differences else 0
    if mpi is not None:
        other = "--check and --measure-programs"
        raise say("works-only-with", UsageError, option="--mpi", other=other)
    output(*_told(library, collective), json=json)
    return 0


def _installed(library: str | None, mpi: str | None) -> Installation:
    from colltune.mpi import installation

    known, _ = _named(library) if library else (None, None)
    return installation.find(mpi, None if known is None else known.name)


def _matrices(
    processes: list[int] | None, own: bool, fewer: bool, large: bool, nodes: int
) -> tuple[Matrix, Matrix]:
    """Return what is measured of legal programs, and then of the bits of results."""
    from colltune.verify import legal_programs

    numbers = tuple(dict.fromkeys(processes or legal_programs.PROCESSES))
    matrix = legal_programs.Matrix(numbers, own=own, large=large)
    of_bits = numbers if processes or fewer else legal_programs.BITS_PROCESSES
    bits = legal_programs.bits_matrix(of_bits, own=own, nodes=nodes)
    return legal_programs.reduced(matrix) if fewer else matrix, bits


def _measure(
    found: Installation, out: Path, matrices: Sequence[Matrix], quiet: bool, json: bool
) -> int:
    from colltune.mpi.programs import MODES
    from colltune.verify.legal_programs import LegalityMeasurement, journal_of

    title = f"measuring {found.mpi.title} {found.release}"
    again = "give the command again to go on"
    # the first part is whole where the last one has begun
    begun = out.exists() and journal_of(out, matrices[-1]).exists()
    asked = matrices[-1:] if begun else matrices
    odd: list[str] = []
    with progress(title, quiet=quiet or json, interrupted=again) as shown:
        for matrix in asked:
            shown.phase(f"{title}: {'bits' if matrix.bits else 'programs'}", "configurations")
            measurement = LegalityMeasurement(found, out, matrix)
            measured = measurement.run(shown.count)
            odd += measurement.odd
    rows = [
        (f"{collective} {kind}", str(outcome), MODES[mode].program)
        for collective, kinds in measured.outcomes.items()
        for kind, seen in kinds.items()
        for mode, outcome in seen.items()
        if outcome != "not measured"
    ]
    calls = measured.calls + sum(one.calls for one in measured.bits.values())
    facts = LegalityMeasured(
        measured.library, measured.release, measured.processes, calls, out, tuple(odd)
    )
    lines: list[str | TextTable] = [f"{counted(calls, 'call')}; wrote {out}"]
    if rows:
        lines += [
            "",
            TextTable(("algorithm", "outcome", "programs that"), rows, wrap=("programs that",)),
        ]
    lines += [f"\nfailed once, not again: {call}" for call in odd]
    output(facts, lines, json=json)
    return 0


def _told(library: str | None, collective: str | None) -> tuple[object, Iterable[str | TextTable]]:
    """Return what is known of all libraries, a release or one of its collectives, in both ways."""
    from colltune.mpi import LIBRARIES
    from colltune.mpi.reference import collective_named, library_facts, release_facts, release_of

    if library is None:
        libraries = [library_facts(mpi) for mpi in LIBRARIES.values()]
        return libraries, _library_lines(libraries)
    mpi, asked = _named(library)
    wanted = collective_named(collective) if collective is not None else None
    found = release_facts(release_of(mpi, asked), wanted)
    return found, _release_lines(found) if wanted is None else _collective_lines(found)


def _named(library: str) -> tuple[MpiLibrary, str | None]:
    """Return the library and release of ``openmpi@5.0.8``."""
    from colltune.mpi import LIBRARIES, check_no_derivative
    from colltune.mpi.reference import similar

    name, at, release = library.partition("@")
    if name not in LIBRARIES:
        check_no_derivative(name)
        known, meant = ", ".join(LIBRARIES), similar(name, LIBRARIES)
        raise say("no-catalogue", name=name, meant=meant, known=known)
    mpi = LIBRARIES[name]
    if at and not release:
        give = f"{name}@{mpi.series[-1]}"
        raise say("missing", LibraryError, what=f"the release of {library}", give=give)
    return mpi, release or None


def _checked(library: str | None, collective: str | None, mpi: str | None) -> CatalogueCheck:
    from colltune.mpi import installation_facts

    if collective is not None:
        raise say("exclusive", UsageError, one="--check", other="COLLECTIVE")
    known, release = _named(library) if library else (None, None)
    return installation_facts.check(mpi, None if known is None else known.name, release)


_WIDTH = 100
_LABEL = 10
_TIED = "\N{NO-BREAK SPACE}"


def _library_lines(known: Sequence[LibraryFacts]) -> Iterator[str]:
    for each in known:
        yield _labelled(each.library, f"{each.title}: {', '.join(each.series)}", _LABEL)
    example = f"{known[0].library}@{list(known[0].series)[-1]}"
    yield f"\ncolltune rules catalog {example} lists the collectives of a release,"
    yield f"colltune rules catalog {example} bcast shows the algorithms of one."


def _release_lines(found: ReleaseFacts) -> Iterator[str]:
    """Yield all collectives of a release, each with the numbers and names of its algorithms."""
    facts = found.collectives
    labels = [
        str(each.collective) if each.id is None else f"{each.collective} (id {each.id})"
        for each in facts
    ]
    width = max(map(len, labels))
    yield f"{_heading(found)}\n"
    for label, each in zip(labels, facts, strict=True):
        yield _labelled(label, _names(each), width)
    if found.priorities or found.formats:
        yield ""
    if found.priorities:
        told = ", ".join(f"{name}{_TIED}{value}" for name, value in found.priorities.items())
        highest = "the component with the highest priority decides"
        yield _labelled("components", f"{told}; {highest}", _LABEL)
    for number, (name, title) in enumerate(found.formats.items()):
        yield _labelled("" if number else "files", f"{name}: {title}", _LABEL)
    if any(algorithm.wrong for each in facts for algorithm in each.algorithms):
        yield "\n! is never used: it gives wrong results, or it leaves the choice to other code"
    example = f"colltune rules catalog {found.library}@{found.release} {facts[0].collective}"
    yield f"\n{example} shows the algorithms of a collective."


def _collective_lines(found: ReleaseFacts) -> Iterator[str | TextTable]:
    """Yield everything about one collective."""
    (facts,) = found.collectives
    pairs = _properties(facts)
    width = max(len(label) for label, _ in pairs)
    yield f"{_heading(found)}: {facts.collective.mpi_name}\n"
    yield from (_labelled(label, text, width) for label, text in pairs)
    for header, rows in _tables(facts):
        if rows:
            yield ""
            yield TextTable(header, rows, wrap=header)


def _properties(facts: CollectiveFacts) -> list[tuple[str, str]]:
    pairs = []
    if facts.id is not None:
        rules = "one rule only, for all message sizes" if facts.one_rule else "any number"
        pairs += [("id in rules files", str(facts.id)), ("rules per process count", rules)]
    pairs += [(f"size in {name}", compared) for name, compared in facts.sizes.items()]
    told = "can be changed while a program runs (MPI_T)"
    run_time = told if facts.runtime else "fixed when the program starts"
    pairs += [("chosen by variable", facts.variable), ("change at run time", run_time)]
    if facts.one_node == facts.across_nodes:
        pairs.append(("decides", facts.one_node))
    else:
        pairs.append(("decides on one node", facts.one_node))
        pairs.append(("decides across nodes", facts.across_nodes))
    if facts.han:
        han = ", ".join(f"{number}{_TIED}{name}" for number, name in enumerate(facts.han))
        pairs.append(("algorithms of han", han))
    forced = " ".join(f"{name}={value}" for name, value in facts.forced.items())
    pairs.append(("forced for a launch", f"{facts.example} by {forced}"))
    if facts.note:
        pairs.append(("note", facts.note))
    return pairs


def _check_lines(found: CatalogueCheck) -> Iterator[str | TextTable]:
    """Yield what differs between the catalogue and an installation."""
    from colltune.mpi import LIBRARIES

    title = LIBRARIES[found.library].title
    asked = f"({found.mpirun}, inspected with {found.asked})"
    agrees = "differs from" if found.differences else "agrees with"
    told = f"{title} {found.release} {asked} {agrees} the catalogue of {title} {found.catalogue}"
    if not found.differences:
        yield told
        return
    yield f"{told}:\n"
    rows = [
        (
            each.where,
            each.kind.replace("not-in", "not in the").replace("-", " "),
            each.catalogue or "-",
            each.here or "-",
        )
        for each in found.differences
    ]
    head = ("where", "what", "catalogue", "here")
    yield TextTable(head, rows, wrap=head)
    n = counted(len(rows), "difference")
    yield (
        f"\n{n}. The installed MPI is right. If nobody changed these settings here, please report "
        "the difference."
    )


def _heading(found: ReleaseFacts) -> str:
    series = f"series {found.series}, first known release {found.first_release}"
    return f"{found.title} {found.release} ({series})"


def _labelled(label: str, text: str, width: int) -> str:
    """Return a text beside its label, in lines of a hundred characters or less."""
    wrapped = textwrap.fill(
        text,
        min(_WIDTH, terminal_width() or _WIDTH),
        initial_indent=f"{label.ljust(width)}  ",
        subsequent_indent=" " * (width + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped.replace(_TIED, " ")


def _names(facts: CollectiveFacts) -> str:
    """Return all algorithms with their numbers; presets, which have only these, as a range."""
    if all(a.name == f"preset{a.number}" for a in facts.algorithms):
        never = "".join(f", {a.number}!" for a in facts.algorithms if a.wrong)
        return f"presets 1 to {len(facts.algorithms)}{never}"
    return ", ".join(f"{a.number}{_TIED}{a.name}{'!' if a.wrong else ''}" for a in facts.algorithms)


def _tables(facts: CollectiveFacts) -> Iterator[tuple[Sequence[str], Sequence[Sequence[object]]]]:
    """Yield the tables of algorithms, parameters, limits, and the functions behind them."""
    algorithms = [
        (a.number, a.name, _called(a) or "-", _parameters(a) or "-") for a in facts.algorithms
    ]
    yield ("nr", "algorithm", "also called", "parameters"), algorithms
    yield ("parameter", "default", "lowest", "highest", "set by", "of"), _ranges(facts)
    limits = [
        (a.name, condition.needs, condition.otherwise or "not known")
        for a in facts.algorithms
        for condition in a.conditions
    ]
    limits += [(a.name, "never used", a.wrong) for a in facts.algorithms if a.wrong]
    yield ("algorithm", "needs", "otherwise"), limits
    symbols = [(a.name, a.symbol) for a in facts.algorithms if a.symbol]
    yield ("algorithm", "function"), symbols


def _called(algorithm: AlgorithmFacts) -> str:
    """Return its aliases, without the one that is its number."""
    return ", ".join(alias for alias in algorithm.aliases if not alias.isdecimal())


def _parameters(algorithm: AlgorithmFacts) -> str:
    said = [f"{parameter.name}={parameter.default}" for parameter in algorithm.parameters]
    return ", ".join(said + [f"{name}={value}" for name, value in algorithm.settings.items()])


def _ranges(facts: CollectiveFacts) -> list[tuple[str, ...]]:
    """Return one row for each parameter, or several where algorithms differ in it."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for algorithm in facts.algorithms:
        for each in algorithm.parameters:
            numbers = (str(number) for number in (each.default, each.low, each.high))
            rows.setdefault((each.name, *numbers, each.variable or "-"), []).append(algorithm.name)
    named = Counter(row[0] for row in rows)
    return [
        (*row, ", ".join(rows[row]) if named[row[0]] > 1 else "all collectives that have it")
        for row in sorted(rows)
    ]
