"""`colltune rules catalog`: what is known of the MPI libraries, and whether the one here agrees."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import columns, show, show_json
from colltune.cli.console.live import progress
from colltune.cli.options import Json, Mpi, Quiet
from colltune.errors import LibraryError

if TYPE_CHECKING:
    from colltune.mpi import MpiLibrary, Release
    from colltune.mpi.catalogue import Catalogue
    from colltune.mpi.installation_facts import Check
    from colltune.mpi.reference import AlgorithmFacts, CollectiveFacts


def catalog(
    library: Annotated[
        str | None,
        typer.Argument(
            metavar="LIBRARY[@RELEASE]",
            help="openmpi@5.0.8, mpich@4.3, intelmpi; without a release: the newest.",
        ),
    ] = None,
    collective: Annotated[
        str | None, typer.Argument(metavar="COLLECTIVE", help="bcast, MPI_Allreduce, …")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the MPI installed here; 1 if it differs.")
    ] = False,
    mpi: Mpi = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Print what is known of an MPI library's algorithms, or compare it with an installed one.

    With --check the exit status is 0 where catalogue and installation agree, 1 where they differ.
    The installed release's catalogue is taken unless a release is named.

    Examples: all libraries, all collectives of a release, one collective, the MPI installed here.

    colltune rules catalog

    colltune rules catalog openmpi@5.0.8

    colltune rules catalog openmpi@5.0.8 bcast

    colltune rules catalog --check --mpi /opt/openmpi
    """
    if check:
        with progress("looking at the MPI installed here", quiet=quiet or json):
            found = _checked(library, collective, mpi)
        return _show_check(found, json)
    if mpi is not None:
        raise typer.BadParameter("--mpi goes with --check")
    _show(library, collective, json)
    return 0


def _show(library: str | None, collective: str | None, as_json: bool) -> None:
    from colltune.mpi import LIBRARIES
    from colltune.mpi.reference import collective_named, facts, release_of

    if library is None:
        libraries = tuple(LIBRARIES.values())
        if as_json:
            show_json(_libraries_json(libraries))
        else:
            show(_libraries(libraries))
        return
    mpi, asked = _named(library)
    release = release_of(mpi, asked)
    shown = asked or release.catalogue.series
    every = release.catalogue.collectives
    wanted = [collective_named(collective)] if collective is not None else list(every)
    found = [facts(release, each) for each in wanted]
    if as_json:
        show_json(_release_json(release, found))
    elif collective is not None:
        show(_collective(release, shown, found[0]))
    else:
        show(_release(release, shown, found))


def _named(library: str) -> tuple[MpiLibrary, str | None]:
    """Return the library and release of ``openmpi@5.0.8``."""
    from colltune.mpi import LIBRARIES, check_no_derivative
    from colltune.mpi.reference import similar

    name, at, release = library.partition("@")
    if name not in LIBRARIES:
        check_no_derivative(name)
        raise LibraryError(
            f"no catalogue of the MPI library {name!r}{similar(name, LIBRARIES)};"
            f" known: {', '.join(LIBRARIES)}"
        )
    mpi = LIBRARIES[name]
    if at and not release:
        raise LibraryError(f"{library} names no release; one is {name}@{mpi.series[-1]}")
    return mpi, release or None


def _checked(library: str | None, collective: str | None, mpi: str | None) -> Check:
    from colltune.mpi import installation_facts

    if collective is not None:
        raise typer.BadParameter("--check compares all collectives; leave COLLECTIVE out")
    known, release = _named(library) if library else (None, None)
    return installation_facts.check(mpi, None if known is None else known.name, release)


def _show_check(found: Check, as_json: bool) -> int:
    if as_json:
        show_json(_check_json(found))
    else:
        show(_check(found))
    return 1 if found.differences else 0


_WIDTH = 100
_LABEL = 10
_RANGES = ("parameter", "default", "lowest", "highest", "set by", "of")
_TIED = "\N{NO-BREAK SPACE}"
_ONE_RULE = "one only, for all message sizes"


def _libraries(known: Sequence[MpiLibrary]) -> str:
    """Return all libraries and their series."""
    lines = [
        _labelled(each.name, f"{each.title}: {', '.join(each.series)}", _LABEL) for each in known
    ]
    example = f"{known[0].name}@{known[0].series[-1]}"
    return "\n".join(
        [
            *lines,
            f"\ncolltune catalog {example} lists the collectives of a series or release,"
            f"\ncolltune catalog {example} bcast explains one.",
        ]
    )


def _libraries_json(known: Sequence[MpiLibrary]) -> list[dict[str, Any]]:
    """Return all libraries and their series, for machines."""
    from colltune.mpi.reference import release_of

    return [
        {
            "library": mpi.name,
            "title": mpi.title,
            "series": [
                {"series": found.series, "first_release": found.first_release}
                for found in (release_of(mpi, series).catalogue for series in mpi.series)
            ],
        }
        for mpi in known
    ]


def _release(found: Release, shown: str, facts: Sequence[CollectiveFacts]) -> str:
    """Return all collectives of a release, each with the numbers and names of its algorithms."""
    from colltune.mpi.reference import formats_of

    labels = [
        str(each.collective) if each.id is None else f"{each.collective} (id {each.id})"
        for each in facts
    ]
    width = max(map(len, labels))
    lines = [f"{_heading(found, shown)}\n"]
    for label, each in zip(labels, facts, strict=True):
        lines.append(_labelled(label, _names(each), width))
    ends = [_components(found.catalogue)] if found.catalogue.priorities else []
    formats = formats_of(found)
    for label, name in zip(("files", *[""] * len(formats)), formats, strict=False):
        ends.append(_labelled(label, f"{name}: {formats[name].title}", _LABEL))
    if ends:
        lines += ["", *ends]
    if any(algorithm.wrong for each in facts for algorithm in each.algorithms):
        lines.append("\n! is never used: it gives wrong results, or leaves the choice to others")
    example = f"colltune rules catalog {found.mpi.name}@{shown} {facts[0].collective}"
    return "\n".join([*lines, f"\n{example} explains a collective."])


def _collective(found: Release, shown: str, facts: CollectiveFacts) -> str:
    """Return everything about one collective."""
    pairs = _properties(facts)
    width = max(len(label) for label, _ in pairs)
    lines = [f"{_heading(found, shown)}: {facts.collective.mpi_name}\n"]
    lines += [_labelled(label, text, width) for label, text in pairs]
    return "\n".join([*lines, *_tables(facts)])


def _properties(facts: CollectiveFacts) -> list[tuple[str, str]]:
    pairs = []
    if facts.id is not None:
        pairs.append(("id in rules files", str(facts.id)))
        pairs.append(("rules per process count", _ONE_RULE if facts.one_rule else "any number"))
    pairs += [(f"size in {name}", compared) for name, compared in facts.sizes.items()]
    pairs.append(("chosen by variable", facts.variable))
    pairs.append(("at run time", _run_time(facts)))
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


def _release_json(release: Release, facts: Sequence[CollectiveFacts]) -> dict[str, Any]:
    """Return collectives of a release for machines."""
    from colltune.mpi.reference import formats_of

    found = release.catalogue
    return {
        "library": release.mpi.name,
        "title": release.mpi.title,
        "release": release.name,
        "series": found.series,
        "first_release": found.first_release,
        "priorities": dict(found.priorities),
        "formats": {name: known.title for name, known in formats_of(release).items()},
        "collectives": [asdict(each) for each in facts],
    }


def _check(found: Check) -> str:
    """Return what differs between the catalogue and an installation."""
    from colltune.mpi import LIBRARIES

    launcher = found.launcher
    title = LIBRARIES[launcher.library].title
    here = f"{title} {launcher.release} ({launcher.mpirun}, asked through"
    heading = f"{here} {found.facts.asked})"
    if not found.differences:
        return f"{heading} agrees with the catalogue of {title} {found.release}"
    rows = [
        (each.where, _difference(each.kind), each.catalogue or "-", each.here or "-")
        for each in found.differences
    ]
    table = columns(("where", "what", "catalogue", "here"), rows)
    counted = f"{len(rows)} difference{'s' if len(rows) > 1 else ''}"
    return (
        f"{heading} differs from the catalogue of {title} {found.release}:\n\n{table}"
        f"\n\n{counted}; the installation is right: please report what nobody set here"
    )


def _difference(kind: str) -> str:
    return "not in the catalogue" if kind == "not-in-catalogue" else kind.replace("-", " ")


def _check_json(found: Check) -> dict[str, Any]:
    """Return what differs for machines."""
    return {
        "library": found.launcher.library,
        "release": found.launcher.release,
        "mpirun": str(found.launcher.mpirun),
        "asked": found.facts.asked,
        "catalogue": found.release,
        "differences": [asdict(each) for each in found.differences],
    }


def _heading(release: Release, shown: str) -> str:
    found, title = release.catalogue, release.mpi.title
    return f"{title} {shown} (series {found.series}, known from {found.first_release} on)"


def _components(found: Catalogue) -> str:
    ordered = sorted(found.priorities, key=lambda pair: (-pair[1], pair[0]))
    told = ", ".join(f"{name}{_TIED}{priority}" for name, priority in ordered)
    return _labelled("components", f"{told}; the highest that has a collective decides", _LABEL)


def _labelled(label: str, text: str, width: int) -> str:
    """Return a text beside its label, lines of a hundred characters."""
    indent = " " * (width + 2)
    wrapped = textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{label.ljust(width)}  {wrapped.lstrip()}".replace(_TIED, " ")


def _names(facts: CollectiveFacts) -> str:
    """Return all algorithms with their numbers; presets, which have only these, as a range."""
    if all(a.name == f"preset{a.number}" for a in facts.algorithms):
        never = "".join(f", {a.number}!" for a in facts.algorithms if a.wrong)
        return f"presets 1 to {len(facts.algorithms)}{never}"
    return ", ".join(_numbered(algorithm) for algorithm in facts.algorithms)


def _numbered(algorithm: AlgorithmFacts) -> str:
    return f"{algorithm.number}{_TIED}{algorithm.name}{'!' if algorithm.wrong else ''}"


def _run_time(facts: CollectiveFacts) -> str:
    if facts.runtime:
        return "a running program can be told to change (MPI_T)"
    return "fixed when the program starts"


def _tables(facts: CollectiveFacts) -> list[str]:
    """Return the tables of algorithms, parameters, limits, and the functions behind them."""
    algorithms = [
        (str(a.number), a.name, _called(a) or "-", _parameters(a) or "-") for a in facts.algorithms
    ]
    limits = [
        (a.name, condition.needs, condition.otherwise or "not known")
        for a in facts.algorithms
        for condition in a.conditions
    ]
    limits += [(a.name, "never used", a.wrong) for a in facts.algorithms if a.wrong]
    symbols = [(a.name, a.symbol) for a in facts.algorithms if a.symbol]
    texts = [columns(("nr", "algorithm", "also called", "parameters"), algorithms)]
    if ranges := _ranges(facts):
        texts.append(columns(_RANGES, ranges))
    if limits:
        texts.append(columns(("algorithm", "needs", "otherwise"), limits))
    if symbols:
        texts.append(columns(("algorithm", "function that runs it"), symbols))
    return [f"\n{text}" for text in texts]


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
        (*row, ", ".join(rows[row]) if named[row[0]] > 1 else "all that have it")
        for row in sorted(rows)
    ]
