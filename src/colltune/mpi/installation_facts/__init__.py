"""What an installed MPI says of itself, and how that differs from the catalogue.

A library without a line in `INSPECTORS` cannot be asked; all else works without. To add one: a
function that asks an installation of it, and the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from colltune.domain import Collective
from colltune.errors import say
from colltune.mpi import LIBRARIES
from colltune.mpi.catalogue import Catalogue, CollectiveEntry
from colltune.mpi.installation import LauncherProgram, find_launcher
from colltune.mpi.installation_facts import mpich
from colltune.mpi.installation_facts.facts import (
    DEFAULT,
    InstallationFacts,
    Variable,
    inspect_intelmpi,
    inspect_openmpi,
)
from colltune.mpi.reference import CollectiveFacts, facts, release_of
from colltune.mpi.release import Release

INSPECTORS: dict[str, Callable[[LauncherProgram, Catalogue], InstallationFacts]] = {
    "openmpi": inspect_openmpi,
    "mpich": mpich.inspect,
    "intelmpi": inspect_intelmpi,
}
_CHOOSABLE = "has a choice of algorithms"
_RUN_TIME = {True: "can change at run time", False: "cannot change at run time"}
# Open MPI's parameter that names the components to be used, or left out
_SELECTION = "coll"
_NUMBER = re.compile(r"-?\d{1,9}")
_PRIORITY = re.compile(r"coll_(\w+)_priority")
# one of these two stands for each collective: the first until 4.1, both from 5.0 on
_OF_HAN = re.compile(r"coll_han_use_(?:simple_)?([a-z_]+?)(?:_algorithm)?")


class DifferenceKind(StrEnum):
    """What differs."""

    NOT_IN_CATALOGUE = "not-in-catalogue"
    NOT_HERE = "not-here"
    OTHER_NUMBER = "other-number"
    OTHER_NAME = "other-name"
    OTHER_RANGE = "other-range"
    OTHER_DEFAULT = "other-default"
    NO_SUCH_VARIABLE = "no-such-variable"
    OTHER_PRIORITY = "other-priority"
    OTHER_COMPONENT = "other-component"
    RUN_TIME = "run-time"
    SET_HERE = "set-here"


@dataclass(frozen=True)
class CatalogueDifference:
    """One difference."""

    kind: DifferenceKind
    """kind of the difference"""
    where: str
    """collective or component"""
    catalogue: str
    """what the catalogue says; empty: nothing"""
    here: str
    """what the installation says; empty: nothing"""


@dataclass(frozen=True)
class CatalogueCheck:
    """How an installation differs from the catalogue."""

    library: str
    """library that is installed"""
    release: str
    """its release"""
    mpirun: Path
    """its launcher"""
    asked: str
    """through what it was asked"""
    catalogue: str
    """release of the catalogue"""
    differences: tuple[CatalogueDifference, ...]
    """where they differ"""


def check(named: str | None, library: str | None, release: str | None = None) -> CatalogueCheck:
    """Compare an installation with the catalogue of its release, or of `release`.

    `named` is an mpirun or the folder of an installation; without it, that of `library`, or the
    first one on PATH.
    """
    launcher = find_launcher(named, library)
    if launcher.library not in INSPECTORS:
        title, known = LIBRARIES[launcher.library].title, ", ".join(INSPECTORS)
        raise say("not-inspected", mpirun=launcher.mpirun, title=title, known=known)
    compared = release_of(LIBRARIES[launcher.library], release or launcher.release)
    found = INSPECTORS[launcher.library](launcher, compared.catalogue)
    return CatalogueCheck(
        launcher.library,
        launcher.release,
        launcher.mpirun,
        found.asked,
        compared.name,
        compare(compared, found),
    )


def compare(release: Release, told: InstallationFacts) -> tuple[CatalogueDifference, ...]:
    """Return all differences to the catalogue of `release`, in the order of its collectives."""
    known = release.catalogue
    found: list[CatalogueDifference] = []
    for collective, entry in known.collectives.items():
        if collective in told.presets:
            found += _presets(entry, told.presets[collective])
            found += _choosing(facts(release, collective), told)
        elif collective in told.algorithms:
            found += _algorithms(entry, told.algorithms[collective])
            found += _han(entry, told)
            found += _choosing(facts(release, collective), told)
            found += _parameters(facts(release, collective), told)
        else:
            found.append(CatalogueDifference(DifferenceKind.NOT_HERE, collective, _CHOOSABLE, ""))
    for collective in (*told.algorithms, *told.presets):
        if collective not in known.collectives:
            found.append(
                CatalogueDifference(DifferenceKind.NOT_IN_CATALOGUE, collective, "", _CHOOSABLE)
            )
    return (*found, *_components(known, told))


def _presets(entry: CollectiveEntry, highest: int) -> Iterator[CatalogueDifference]:
    known = max((algorithm.number for algorithm in entry.algorithms), default=0)
    if known != highest:
        said = [f"presets 1 to {each}" for each in (known, highest)]
        yield CatalogueDifference(DifferenceKind.OTHER_RANGE, entry.collective, *said)


def _algorithms(entry: CollectiveEntry, here: Mapping[int, str]) -> Iterator[CatalogueDifference]:
    numbers = {a.value or a.name: a.number for a in entry.algorithms}
    names = {number: name for name, number in numbers.items()}
    for number, name in sorted(here.items()):
        kind, told = DifferenceKind.NOT_IN_CATALOGUE, ""
        if name in numbers:
            kind, told = DifferenceKind.OTHER_NUMBER, f"{name} ({numbers[name]})"
        elif number in names and names[number] not in here.values():
            kind, told = DifferenceKind.OTHER_NAME, f"{names[number]} ({number})"
        if numbers.get(name) != number:
            yield CatalogueDifference(kind, entry.collective, told, f"{name} ({number})")
    for name, number in numbers.items():
        if number not in here and name not in here.values():
            yield CatalogueDifference(
                DifferenceKind.NOT_HERE, entry.collective, f"{name} ({number})", ""
            )


def _han(entry: CollectiveEntry, told: InstallationFacts) -> Iterator[CatalogueDifference]:
    """Yield where coll/han has other algorithms, where both of them tell any."""
    here = told.han.get(entry.collective, {})
    if here and entry.han and dict(enumerate(entry.han)) != here:
        said = [
            ", ".join(f"{name} ({number})" for number, name in sorted(each))
            for each in (enumerate(entry.han), here.items())
        ]
        yield CatalogueDifference(DifferenceKind.OTHER_NAME, f"coll/han {entry.collective}", *said)


def _choosing(known: CollectiveFacts, told: InstallationFacts) -> Iterator[CatalogueDifference]:
    """Yield what differs in the variable by which an algorithm is chosen."""
    chosen = told.variables.get(known.variable)
    if chosen is None:
        yield CatalogueDifference(
            DifferenceKind.NO_SUCH_VARIABLE, known.collective, known.variable, ""
        )
        return
    if chosen.source != DEFAULT:
        yield CatalogueDifference(
            DifferenceKind.SET_HERE, known.collective, "", _set(known.variable, chosen)
        )
    if chosen.writable != known.runtime:
        said = [_RUN_TIME[runtime] for runtime in (known.runtime, chosen.writable)]
        yield CatalogueDifference(DifferenceKind.RUN_TIME, known.collective, *said)


def _parameters(known: CollectiveFacts, told: InstallationFacts) -> Iterator[CatalogueDifference]:
    """Yield what differs in the variables by which parameters are set."""
    defaults = {
        parameter.variable: str(parameter.default)
        for algorithm in known.algorithms
        for parameter in algorithm.parameters
    }
    settings = {name: "" for algorithm in known.algorithms for name in algorithm.settings}
    for name, default in (settings | defaults).items():
        here = told.variables.get(name)
        if here is None:
            yield CatalogueDifference(DifferenceKind.NO_SUCH_VARIABLE, known.collective, name, "")
        elif default not in ("", here.value):
            yield CatalogueDifference(
                DifferenceKind.OTHER_DEFAULT,
                known.collective,
                f"{name}={default}",
                _set(name, here),
            )


def _components(known: Catalogue, told: InstallationFacts) -> Iterator[CatalogueDifference]:
    """Yield components of another priority, and those here that outrank the known ones."""
    if not known.priorities:
        return
    selection = told.variables.get(_SELECTION)
    if selection is not None and selection.source != DEFAULT:
        yield CatalogueDifference(
            DifferenceKind.SET_HERE, "components", "", _set(_SELECTION, selection)
        )
    priorities = dict(known.priorities)
    here = {
        match[1]: variable
        for name, variable in told.variables.items()
        if (match := _PRIORITY.fullmatch(name)) and _NUMBER.fullmatch(variable.value)
    }
    for name, variable in sorted(here.items()):
        if name in priorities and priorities[name] != int(variable.value):
            said = f"priority {priorities[name]}"
            yield CatalogueDifference(
                DifferenceKind.OTHER_PRIORITY, f"coll/{name}", said, _priority(variable)
            )
        elif name not in priorities and int(variable.value) > priorities.get("tuned", 0):
            yield CatalogueDifference(
                DifferenceKind.OTHER_COMPONENT, f"coll/{name}", "", _priority(variable)
            )
    if known.han_priority is not None:
        if "han" not in here:
            said = f"priority {known.han_priority}"
            yield CatalogueDifference(DifferenceKind.OTHER_COMPONENT, "coll/han", said, "")
        yield from _of_han(known, told)


def _of_han(known: Catalogue, told: InstallationFacts) -> Iterator[CatalogueDifference]:
    here = {match[1] for name in told.variables if (match := _OF_HAN.fullmatch(name))}
    for collective in sorted(known.han_collectives - here):
        yield CatalogueDifference(DifferenceKind.NOT_HERE, "coll/han", collective, "")
    for name in sorted(here & set(Collective) - known.han_collectives):
        yield CatalogueDifference(DifferenceKind.NOT_IN_CATALOGUE, "coll/han", "", name)


def _priority(variable: Variable) -> str:
    return _set("priority", variable).replace("=", " ", 1)


def _set(name: str, variable: Variable) -> str:
    set_by = "" if variable.source == DEFAULT else f" (set: {variable.source})"
    return f"{name}={variable.value}{set_by}"


__all__ = [
    "INSPECTORS",
    "CatalogueCheck",
    "CatalogueDifference",
    "DifferenceKind",
    "InstallationFacts",
    "Variable",
    "check",
    "compare",
]
