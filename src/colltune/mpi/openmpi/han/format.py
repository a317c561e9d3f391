"""The format ``openmpi-han``: rules by which coll/han hands calls on, or runs its algorithms.

It is read as a release does (``coll_han_dynamic_file.c``): whatever the library does not like makes
it forget the whole file, so that reading stops there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.file_format import Format, Written, absolute_path, refuse_dropped
from colltune.mpi.openmpi import han_setups, mca
from colltune.mpi.openmpi.decide.components import HAN, han_serves
from colltune.mpi.openmpi.decide.han_calls import HanLevel
from colltune.mpi.openmpi.han import writing
from colltune.mpi.openmpi.han.rules import (
    DEFAULT,
    NAME,
    HanFile,
    LevelRules,
    algorithms,
    choices,
    configuration_of,
    known_components,
    lint,
    names_algorithms,
    parameters,
)
from colltune.mpi.openmpi.mca import as_int
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.scanner import Scanner
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import LARGEST_COMM_SIZE, Entry, Fault, Finding, Rule, Rules

_FIRST_BYTES = 65536
_COMPONENT = re.compile(
    r"^\s*[0-9]+\s+(?:self|basic|libnbc|tuned|sm|adapt|han|xhc)\b", re.MULTILINE
)
_COMMENT = re.compile("#[^\n]*")
_DECIMAL = re.compile(r"[+-]?[0-9]+")
_NAMES = (
    *("allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier"),
    *("bcast", "exscan", "gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block"),
    *("scan", "scatter", "scatterv", "neighbor_allgather", "neighbor_allgatherv"),
    *("neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"),
)
"""All collectives by their numbers."""
_WITH_RULES = ("allgatherv",)
"""Collectives that coll/han looks up rules for, without having algorithms of its own."""


class OpenMpiHan(Format):
    name = NAME
    library = LIBRARY
    title = "Open MPI's dynamic rules for coll/han"

    def limit(self, release: str, configuration: Configuration) -> str:
        catalogue, collective = catalogue_of(release), configuration.collective
        if configuration.is_default:
            return ""
        if han_setups.is_setup(configuration) and configuration.parameters:
            known = names_algorithms(catalogue)
            return "" if known else f"coll/han of {release} has no such setups"
        if configuration in choices(catalogue, collective):
            return ""
        if han_serves(catalogue, collective):
            return f"{configuration.id} is not a component that a file for coll/han can name"
        return f"coll/han of {release} does not serve {collective}"

    def recognises(self, text: str) -> bool:
        plain = _COMMENT.sub("", text[:_FIRST_BYTES]).lstrip()
        return plain[:1].isdecimal() and bool(_COMPONENT.search(plain))

    def parse(self, text: str, source: str, release: str) -> HanFile:
        found = read(text, catalogue_of(release))
        parsed = HanFile(release, source, () if found.dropped else tuple(found.levels))
        parsed.dropped, parsed.ends_program = found.dropped, found.ends_program
        parsed.rules, parsed.form_findings = tuple(found.rules), tuple(found.findings)
        return parsed

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, HanFile)
        found = list(parsed.form_findings)
        if not parsed.dropped and not parsed.ends_program:
            found += lint(parsed.levels, catalogue_of(parsed.release))
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Write components, which all keep the order of operands."""
        text, notes = writing.write(table, release)
        return Written(NAME, release, {"": text}, notes)

    def convert(self, parsed: Rules, release: str) -> Written:
        catalogue_of(release)
        refuse_dropped(parsed, parsed.ends_program if isinstance(parsed, HanFile) else "")
        if not isinstance(parsed, HanFile):
            raise say("han-cannot-express", file=parsed.source, name=NAME, format=parsed.format)
        text, notes = writing.convert(parsed.levels, parsed.release, release)
        return Written(NAME, release, {"": text}, notes)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; 4.1 needs coll/han's priority raised."""
        path = absolute_path(paths[""], "a rules file")
        return mca.environment(parameters(release, path))


@dataclass
class Reading:
    """What was read; ``dropped`` and ``ends_program`` tell where and why that was the end."""

    levels: list[LevelRules] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    dropped: str = ""
    ends_program: str = ""


class _StopError(Exception):
    def __init__(self, line: int, why: str, mend: str, fault: Fault = Fault.FILE_DROPPED) -> None:
        super().__init__(why)
        self.line, self.why, self.mend, self.fault = line, why, mend, fault


def read(text: str, catalogue: Catalogue) -> Reading:
    reader = _Reader(text, catalogue)
    found = reader.reading
    try:
        reader.file()
    except _StopError as stop:
        what = "the library ignores the whole file"
        if stop.fault is Fault.ENDS_PROGRAM:
            found.ends_program = f"line {stop.line}: {stop.why}"
            what = "the program crashes at its start"
        else:
            found.dropped = f"line {stop.line}: {stop.why}: {what}"
        message = f"{stop.why}: {what}"
        found.findings.append(Finding(stop.line, stop.fault, message, stop.mend))
    return found


class _Reader:
    def __init__(self, text: str, catalogue: Catalogue) -> None:
        self.scanner, self.catalogue = Scanner(text), catalogue
        self.components = known_components(catalogue)
        self.reading = Reading()

    def file(self) -> None:
        count = self.count("the number of collectives")
        if not count:
            raise _StopError(
                self.scanner.line, "the file has no collective", "write how many follow"
            )
        for section in range(count):
            self.collective(section)
        line = self.scanner.line
        if self.scanner.number() is not None:
            self.note(
                self.scanner.line,
                Fault.MALFORMED,
                "the library ignores numbers after the last collective",
                f"correct the counts before line {line}",
            )

    def collective(self, section: int) -> None:
        word = self.word("a collective")
        line, name = self.scanner.line, self.collective_name(word)
        known = Collective(name) if name in list(Collective) else None
        if known is None or not (han_serves(self.catalogue, known) or name in _WITH_RULES):
            self.note(
                line,
                Fault.NO_EFFECT,
                f"coll/han does not serve {name}, so these rules have no effect",
                "remove them",
            )
        for _ in range(self.count(f"the number of {name}'s levels")):
            self.level(section, name, known)

    def collective_name(self, word: str) -> str:
        if word in _NAMES:
            return word
        number = int(word) if _DECIMAL.fullmatch(word) else -1
        if 0 <= number < len(_NAMES):
            return _NAMES[number]
        raise _StopError(
            self.scanner.line,
            f"{word!r} is not a collective (or an earlier count is wrong)",
            "write its name in lower case, such as reduce_scatter, or its number",
        )

    def level(self, section: int, name: str, known: Collective | None) -> None:
        level = self.level_name()
        line = self.scanner.line
        entries: list[Entry] = []
        for _ in range(self.count(f"the number of communicator sizes of {level}")):
            entries.append(self.communicator(name, known, first=not entries))
        if known is not None:
            self.reading.levels.append(LevelRules(section, known, level, line, tuple(entries)))

    def level_name(self) -> HanLevel:
        levels = list(HanLevel)
        if names_algorithms(self.catalogue):
            word = self.word("a level")
            if word in levels:
                return HanLevel(word)
            number = as_int(int(word)) if _DECIMAL.fullmatch(word) else -1
            mend = f"write one of {', '.join(levels)}"
        else:
            number = self.number("a level")
            word = self.scanner.skipped.strip() or str(number)
            mend = "write 0 (inside nodes), 1 (between them) or 2 (whole communicators)"
            if self.scanner.skipped.strip() and 0 <= number < len(levels):
                why = f"this release reads no names of levels, and takes {number} for this one"
                self.note(self.scanner.line, Fault.OTHER_RELEASE, why, mend)
        if 0 <= number < len(levels):
            return levels[number]
        raise _StopError(self.scanner.line, f"{word!r} is not a level", mend)

    def communicator(self, name: str, known: Collective | None, *, first: bool) -> Entry:
        size = self.number("a communicator size")
        line = self.scanner.line
        if size < 1 or (first and size > 1):
            why = f"a communicator size of {size}"
            if first:
                why = f"the first communicator size is {size}"
            raise _StopError(line, why, "begin with an entry for 1")
        rules: list[Rule] = []
        for _ in range(self.count("the number of message sizes")):
            rules.append(self.rule(name, known, first=not rules))
        collective = known or Collective.BARRIER
        return Entry(collective, line, as_int(size), LARGEST_COMM_SIZE, tuple(rules))

    def rule(self, name: str, known: Collective | None, *, first: bool) -> Rule:
        size = self.scanner.size()
        if size is None:
            raise self.ended("a message size")
        line = self.scanner.line
        if self.scanner.skipped:
            why = f"the library skips {self.scanner.skipped!r} before the next number"
            self.note(line, Fault.MALFORMED, why, "remove it")
        if first and size > 1:
            raise _StopError(line, f"the first message size is {size}", "begin with a rule for 0")
        component = self.word("a component")
        if component not in self.components:
            known_words = ", ".join(self.components)
            raise _StopError(
                self.scanner.line,
                f"{component!r} is not a component",
                f"write one of {known_words}, and a blank before @",
            )
        algorithm = ""
        if component == HAN and names_algorithms(self.catalogue) and self.scanner.takes("@"):
            algorithm = self.algorithm(name, known)
        self.segments()
        collective = known or Collective.BARRIER
        text = f"{size} {component}" + (f" @{algorithm}" if algorithm else "")
        configuration = configuration_of(self.catalogue, collective, component, algorithm)
        rule = Rule(line, text, collective, configuration, size)
        if known is not None:
            self.reading.rules.append(rule)
        return rule

    def algorithm(self, name: str, known: Collective | None) -> str:
        """Return the algorithm after ``@`` by its name."""
        word = self.word("an algorithm")
        if word == DEFAULT:
            return DEFAULT
        offered = algorithms(self.catalogue, known) if known is not None else ()
        if not offered and name not in ("gatherv", "scatterv"):
            raise _StopError(
                self.scanner.line,
                f"coll/han has no algorithms for {name}, but looks one up",
                "remove @ and the name after it",
                Fault.ENDS_PROGRAM,
            )
        offered = offered or (DEFAULT, "intra")
        if word in offered:
            return word
        number = int(word) if _DECIMAL.fullmatch(word) else -1
        if 0 <= number < len(offered):
            return offered[number]
        raise _StopError(
            self.scanner.line,
            f"coll/han has no algorithm {word!r} for {name}",
            f"write one of {', '.join(offered)}",
        )

    def segments(self) -> None:
        """Skip a list of segment sizes, which nothing uses."""
        if not self.scanner.takes("["):
            return
        self.note(
            self.scanner.line,
            Fault.NO_EFFECT,
            "the library reads segment sizes here and ignores them",
            "remove them, and set segments with coll_han_bcast_segsize and the like",
        )
        while not self.scanner.takes("]"):
            if self.scanner.number() is None:
                raise self.ended("the end of a list of segment sizes")

    def count(self, what: str) -> int:
        value = self.number(what)
        if value < 0:
            raise _StopError(self.scanner.line, f"{what} is {value}", f"correct {what}")
        return value

    def number(self, what: str) -> int:
        value = self.scanner.number()
        if value is None:
            raise self.ended(what)
        return value.value

    def word(self, what: str) -> str:
        value = self.scanner.word()
        if value is None:
            raise self.ended(what)
        return value

    def ended(self, what: str) -> _StopError:
        return _StopError(
            self.scanner.last_line,
            f"the file ends where {what} should follow",
            "an earlier count is too high, or the file was cut",
        )

    def note(self, line: int, fault: Fault, message: str, mend: str) -> None:
        self.reading.findings.append(Finding(line, fault, message, mend))
