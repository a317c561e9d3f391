"""What an installed Open MPI says of its collective components, through ompi_info."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from colltune import process
from colltune.domain import Collective
from colltune.errors import say
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.installation import LauncherProgram
from colltune.mpi.installation_facts.facts import DEFAULT, InstallationFacts, Variable, asked

_QUESTION = ("--param", "coll", "all", "--level", "9")
_MEND = "it comes with Open MPI (Debian: openmpi-bin); name a complete one with --mpi"
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
_NUMBER = re.compile(r"\d{1,9}")
_OWN_DECISION = 0


def inspect(launcher: LauncherProgram, _known: Catalogue) -> InstallationFacts:
    """Return what ``ompi_info`` beside the launcher tells."""
    program = launcher.program("ompi_info", _MEND)
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
            if _NUMBER.fullmatch(number):
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
