"""What an installed MPI says of itself, and how it is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from colltune import process
from colltune.domain import Collective
from colltune.errors import say
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.installation import LauncherProgram
from colltune.mpi.intelmpi.library import variable

_QUESTION = ("--param", "coll", "all", "--level", "9")
_OMPI_INFO = "it comes with Open MPI (Debian: openmpi-bin); name a complete one with --mpi"
_PARSABLE = re.compile(
    r"mca:coll:\w+:param:(?P<name>\w+):(?P<field>value|source|status|enumerator:value):(?P<text>.*)"
)
_READABLE = re.compile(
    r'MCA (?:\(-\) )?coll \w+: (?P<kind>parameter|informational) "(?P<name>\w+)" \(current value: '
    r'"(?P<value>.*)", data source: (?P<source>[^,]*),'
)
# 0:"ignore", 1:"linear" until 4.1; 0|ignore, 1|linear from 5.0 on
_ITEM = re.compile(r'(\d+)(?::"([^"]*)"|\|([^,]*))')
_ALGORITHM = re.compile(r"coll_tuned_(\w+)_algorithm")
_HAN = re.compile(r"coll_han_use_(\w+)_algorithm")
_ALGORITHM_NUMBER = re.compile(r"\d{1,9}")
_OWN_DECISION = 0
_IMPI_INFO = "it comes with Intel MPI; name a complete one with --mpi"
_RANGE = re.compile(r"\brange:\s*0-(\d{1,6})\b")
_UNKNOWN = "Didn't find"
DEFAULT = "default"
"""Source of a variable that nobody has set."""
_ASK_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Variable:
    """A variable of the library: its value, who set it (`DEFAULT`), and whether it may change."""

    value: str
    source: str = DEFAULT
    writable: bool = True


def set_by_user(variable: Variable, *names: str) -> Variable:
    """Return `variable` with the value that the environment has for one of `names`, if it has."""
    values = [os.environ[name] for name in names if name in os.environ]
    return replace(variable, value=values[0], source="environment") if values else variable


@dataclass(frozen=True)
class InstallationFacts:
    """What one installation told; ``asked`` is the program that told it.

    ``algorithms`` and ``han`` (those of Open MPI's coll/han) are names by number, without the own
    decision; ``presets`` the highest number of each collective, where there are only numbers.
    """

    library: str
    release: str
    asked: str
    algorithms: Mapping[Collective, Mapping[int, str]] = field(default_factory=dict)
    presets: Mapping[Collective, int] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    han: Mapping[Collective, Mapping[int, str]] = field(default_factory=dict)


def asked(launcher: LauncherProgram, program: Path, *words: str) -> process.ProcessResult:
    """Run a program of an installation with the variables that it needs."""
    environment = dict(os.environ) | launcher.launch_environment()
    return process.run([program, *words], timeout_s=_ASK_TIMEOUT_S, env=environment)


def inspect_intelmpi(launcher: LauncherProgram, _known: Catalogue) -> InstallationFacts:
    """Return what ``impi_info`` beside the launcher tells of the variables I_MPI_ADJUST_*."""
    program = launcher.program("impi_info", _IMPI_INFO)
    presets, variables = {}, {}
    for collective in Collective:
        name = variable(collective)
        outcome = asked(launcher, program, "-v", name)
        if _UNKNOWN in outcome.stdout + outcome.stderr:
            continue
        highest = highest_preset(process.check(outcome, f"asking Intel MPI for {name}").stdout)
        if highest is not None:
            presets[collective] = highest
            variables[name] = set_by_user(Variable("", writable=False), name)
    if not presets:
        raise say("no-presets", program=program)
    told = launcher.release, str(program)
    return InstallationFacts("intelmpi", *told, presets=presets, variables=variables)


def highest_preset(text: str) -> int | None:
    """Return the highest preset in what ``impi_info -v`` printed of a variable; None if none."""
    match = _RANGE.search(text)
    return None if match is None else int(match[1])


def inspect_openmpi(launcher: LauncherProgram, _known: Catalogue) -> InstallationFacts:
    """Return what ``ompi_info`` beside the launcher tells."""
    program = launcher.program("ompi_info", _OMPI_INFO)
    for words in ((*_QUESTION, "--parsable"), _QUESTION):
        outcome = asked(launcher, program, *words)
        text = process.check(outcome, "asking Open MPI for its collective components").stdout
        told = parse(text, launcher.release, str(program))
        if told.algorithms:
            return told
    raise say("no-algorithms-listed", program=program, question=" ".join(_QUESTION))


def parse(text: str, release: str, program: str) -> InstallationFacts:
    """Return what ``ompi_info`` printed, with or without ``--parsable``."""
    fields: dict[str, dict[str, str]] = {}
    items: dict[str, dict[int, str]] = {}
    for name, key, value in _facts(text):
        if key == "item":
            number, _, item = value.partition(":")
            if _ALGORITHM_NUMBER.fullmatch(number):
                items.setdefault(name, {})[int(number)] = item
        else:
            fields.setdefault(name, {})[key] = value
    return InstallationFacts(
        library="openmpi",
        release=release,
        asked=program,
        algorithms={
            collective: {n: item for n, item in told.items() if n != _OWN_DECISION}
            for collective, told in _by_collective(items, _ALGORITHM).items()
        },
        variables={
            name: Variable(
                value=told.get("value", ""),
                source=told.get("source", DEFAULT),
                writable=told.get("status", "writeable") != "read-only",
            )
            for name, told in fields.items()
        },
        han=_by_collective(items, _HAN),
    )


def _by_collective(
    items: Mapping[str, dict[int, str]], names: re.Pattern[str]
) -> dict[Collective, dict[int, str]]:
    """Return the items of those variables whose name tells a collective."""
    matches = ((names.fullmatch(name), told) for name, told in items.items())
    return {
        Collective(match[1]): told
        for match, told in matches
        if match and match[1] in list(Collective)
    }


def _facts(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (variable, value | source | status | item, text) of every line that tells one."""
    current = ""
    for line in text.splitlines():
        if match := _PARSABLE.match(line):
            key = "item" if match["field"].startswith("enumerator") else match["field"]
            yield match["name"], key, match["text"].strip('"')
        elif match := _READABLE.search(line):
            current = match["name"]
            yield current, "value", match["value"]
            yield current, "source", match["source"]
            read_only = match["kind"] == "informational"
            yield current, "status", "read-only" if read_only else "writeable"
        elif current and line.strip().startswith("Valid values:"):
            for item in _ITEM.finditer(line):
                yield current, "item", f"{item[1]}:{item[2] or item[3]}"
