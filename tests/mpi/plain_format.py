"""A format that no library has: what the verbs and checks over formats do is seen without one.

``plain`` on the first line; then rules ``collective size bytes algorithm``, each for communicators
of at least that size and messages of at least that many bytes. The last rule that fits is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

import pytest

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape, parse_collective
from colltune.errors import DataError, LibraryError
from colltune.mpi import library
from colltune.mpi.file_format import Format, Written
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules

LIBRARY = "openmpi"
RELEASES = ("4.1.4", "5.0.11")
HEADER = "plain"


@dataclass(frozen=True)
class _Threshold:
    comm_size: int
    first_bytes: int
    rule: Rule


@dataclass(frozen=True)
class PlainFile(Rules):
    """A parsed file: thresholds, and lines that are none."""

    text: str
    source: str
    release: str
    format: str = "plain"

    @property
    def dropped(self) -> str:  # type: ignore[override]
        """Tell that a file with a line ``drop`` is dropped."""
        return "it says drop" if "\ndrop\n" in self.text else ""

    @cached_property
    def thresholds(self) -> tuple[_Threshold, ...]:
        """All rules that are understood."""
        found = []
        for number, line in enumerate(self.text.splitlines()[1:], 2):
            words = line.split()
            if len(words) == 4:
                chosen = Configuration.parse(f"{LIBRARY}.{words[0]}.{words[3]}")
                rule = Rule(number, line, chosen.collective, chosen)
                found.append(_Threshold(int(words[1]), int(words[2]), rule))
        return tuple(found)

    @property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        """All rules in the order of the file."""
        return tuple(threshold.rule for threshold in self.thresholds)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs: ``PLAIN_HAN`` is above 0 across nodes, ``PLAIN_FORCE`` before rules."""
        default = Configuration.default(LIBRARY, call.collective)
        variables = {"PLAIN_ON": "1", "PLAIN_HAN": "0"} if environment is None else environment
        rule = self._rule(call) if variables.get("PLAIN_ON") == "1" and not self.dropped else None
        chosen = rule.configuration if rule and rule.configuration else default
        if call.nodes > 1 and variables.get("PLAIN_HAN", "35") != "0":
            return Outcome(default, rule, ("han is above tuned.",), chosen, "han")
        if forced := variables.get("PLAIN_FORCE"):
            runs = Configuration(LIBRARY, call.collective, forced)
            return Outcome(runs, rule, (f"PLAIN_FORCE is {forced}.",), chosen, "tuned")
        why = "A rule fits." if rule else "Nothing is said."
        ends = "it has no such algorithm" if chosen.algorithm == "abort" else ""
        return Outcome(chosen, rule, (why,), chosen, "tuned", ends)

    def _rule(self, call: Call) -> Rule | None:
        fitting = [
            t.rule
            for t in self.thresholds
            if t.rule.collective is call.collective
            and t.comm_size <= call.comm_size
            and t.first_bytes <= call.msize_bytes
        ]
        return fitting[-1] if fitting else None

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return the sizes of the rules."""
        ours = [t.comm_size for t in self.thresholds if t.rule.collective is collective]
        return tuple(sorted(set(ours)))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        """Return the message sizes of the rules that communicators of that size reach."""
        del nodes
        ours = [
            t.first_bytes
            for t in self.thresholds
            if t.rule.collective is collective and t.comm_size <= comm_size
        ]
        return tuple(sorted({0, *ours}))


def offer(monkeypatch: pytest.MonkeyPatch, mpi: str, known: type[Format]) -> None:
    """Let the library `mpi` have the format `known` besides its own."""
    location = f"{known.__module__}:{known.__qualname__}"
    ours = library(mpi)
    monkeypatch.setattr(ours, "formats", {**ours.formats, known.name: location})


class PlainFormat(Format):
    """The format; 4.1.4 does not read it where it says so on the first line."""

    name = "plain"
    library = LIBRARY
    title = "Plain"

    def recognises(self, text: str) -> bool:
        """Tell by the first line."""
        return text.startswith(HEADER)

    def unreadable_by(self, release: str) -> str:
        """Refuse all but two releases."""
        if release not in RELEASES:
            raise LibraryError(f"Open MPI {release} is not supported")
        return ""

    def parse(self, text: str, source: str, release: str) -> Rules:
        """Refuse what has another first line, and numbers that are none."""
        self.unreadable_by(release)
        parsed = PlainFile(text, source, release)
        if text.splitlines()[:1] != [HEADER]:
            raise LibraryError(f"{source}:1: not {HEADER!r}")
        try:
            len(parsed.thresholds)
        except (DataError, ValueError) as error:
            raise LibraryError(f"{source}: {error}") from error
        return parsed

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        """Return one of each severity, for lines ``error``, ``warning`` and ``note``."""
        assert isinstance(parsed, PlainFile)
        named = {"error": Fault.RULE_DROPPED, "warning": Fault.UNKNOWN, "note": Fault.REMARK}
        found = [
            Finding(number, named[line], f"it says {line}", "remove it")
            for number, line in enumerate(parsed.text.splitlines(), 1)
            if line in named
        ]
        if parsed.dropped:
            found.append(Finding(0, Fault.FILE_DROPPED, parsed.dropped, "do not"))
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Write every interval as a rule, and none for larger communicators."""
        del programs
        lines, sizes = [HEADER], {}
        for (collective, size), intervals in sorted(table.rules.items()):
            for interval in intervals:
                spelled = interval.configuration.id.partition(f".{collective}.")[2]
                lines.append(f"{collective} {size} {interval.first_bytes} {spelled}")
            sizes[collective, size + 1] = f"{collective} {size + 1} 0 default"
        ends = [line for key, line in sizes.items() if key not in table.rules]
        rules = sorted((*lines[1:], *ends), key=_order)
        return Written(self.name, release, {"": "\n".join((HEADER, *rules, ""))})

    def convert(self, parsed: Rules, release: str) -> Written:
        """Keep the lines of a file; a line ``note`` cannot be kept."""
        assert isinstance(parsed, PlainFile)
        self.unreadable_by(release)
        if parsed.dropped:
            raise LibraryError(f"{parsed.source}: dropped: {parsed.dropped}")
        notes = tuple(f"line {f.line}: {f.message}" for f in self.lint(parsed))
        kept = [rule.text for rule in parsed.rules]
        return Written(self.name, release, {"": "\n".join((HEADER, *kept, ""))}, notes)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file, switch it on, and put han below."""
        del release, job
        if not PurePath(paths[""]).is_absolute():
            raise LibraryError(f"{paths['']}: a relative path")
        return {"PLAIN_ON": "1", "PLAIN_FILE": paths[""], "PLAIN_HAN": "0"}


def _order(line: str) -> tuple[Collective, int, int]:
    words = line.split()
    return parse_collective(words[0]), int(words[1]), int(words[2])
