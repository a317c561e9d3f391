"""What a release makes of a list of I_MPI_ADJUST_* variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call, Fault, Finding, Outcome, Rule
from colltune.mpi.intelmpi import adjust_lint, adjust_value, presets
from colltune.mpi.intelmpi.adjust_value import Value
from colltune.mpi.intelmpi.grid import Leaf
from colltune.mpi.intelmpi.releases import LIBRARY

NAME = "intelmpi-adjust"
PREFIX = "I_MPI_ADJUST_"
_LINE = re.compile(r"\s*(?P<export>export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_QUOTED = re.compile(r"(?P<mark>['\"])(?P<value>.*?)(?P=mark)\s*+;?+\s*+(?:#.*)?")
_COLLECTIVES = {presets.variable(c): c for c in Collective}


@dataclass(frozen=True)
class Setting:
    """A variable as a line sets it; the later of two of one name holds."""

    line: int
    collective: Collective
    value: Value


@dataclass
class Listing:
    """What the lines of a file set."""

    settings: dict[Collective, Setting] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class AdjustFile:
    """A list of variables as one release reads it; see `file_format.ParsedFile`, `grid.Laid`."""

    text: str
    source: str
    release: str
    format: str = NAME
    dropped: str = ""

    @cached_property
    def listing(self) -> Listing:
        """What the file sets."""
        listing = Listing()
        for number, line in enumerate(self.text.split("\n"), 1):
            if line.strip() and not line.strip().startswith("#"):
                _read_line(listing, number, line.rstrip("\r"), self.release)
        return listing

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """All collectives for which a variable is taken."""
        return tuple(c for c, s in self.listing.settings.items() if not s.value.rejected)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        rules = (rule for found in self._rules.values() for rule in found)
        return tuple(sorted(rules, key=lambda rule: rule.line))

    @cached_property
    def _rules(self) -> dict[Collective, tuple[Rule, ...]]:
        return {
            c: tuple(
                Rule(s.line, e.text, c, presets.configuration_of(self.release, c, e.number))
                for e in s.value.entries
            )
            for c, s in self.listing.settings.items()
        }

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        found = [*self.listing.findings]
        for setting in self.listing.settings.values():
            found += adjust_lint.findings(setting.line, setting.value)
        return tuple(sorted(set(found)))

    def leaf(self, collective: Collective, ppn: int, comm_size: int, msize: int) -> Leaf | None:
        if collective not in self.collectives:
            return None
        value = self.listing.settings[collective].value
        entry = adjust_value.entry_at(value, comm_size, msize)
        at = next(i for i, each in enumerate(value.entries) if each is entry)
        return Leaf(self._rules[collective][at], entry.number)

    def ppn_ends(self, collective: Collective) -> tuple[int, ...]:
        """Return none: a variable knows of no nodes."""
        return ()

    def comm_ends(self, collective: Collective, ppn: int) -> tuple[int, ...]:
        taken = collective in self.collectives
        return adjust_value.comm_ends(self.listing.settings[collective].value) if taken else ()

    def size_ends(self, collective: Collective, ppn: int, comm_size: int) -> tuple[int, ...]:
        taken = collective in self.collectives
        return adjust_value.size_ends(self.listing.settings[collective].value) if taken else ()

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs; the file's variables hold unless `environment` sets the same ones."""
        own = Configuration.default(LIBRARY, call.collective)
        leaf = self.leaf(call.collective, 1, call.comm_size, call.msize_bytes)
        setting = self.listing.settings.get(call.collective)
        said = own if leaf is None else presets.chosen(self.release, call.collective, leaf.number)
        given = (environment or {}).get(presets.variable(call.collective))
        if given is not None and (setting is None or given != setting.value.text):
            value = adjust_value.parse(given, call.collective, self.release)
            if not value.rejected:
                return adjust_value.outcome(value, call, None, chosen=said)
            why = f"the library ignores {presets.shown(given)}: {value.rejected}"
            return Outcome(own, None, (why,), said)
        if setting is None:
            why = f"{presets.variable(call.collective)} is not set: the tuning of the library holds"
            return Outcome(own, None, (why,), own)
        if leaf is None:
            why = f"line {setting.line}: the library ignores the value: {setting.value.rejected}"
            return Outcome(own, None, (why,), own)
        return adjust_value.outcome(setting.value, call, leaf.rule)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        if collective not in self.collectives:
            return ()
        return tuple(sorted({2, *(end + 1 for end in self.comm_ends(collective, 1) if end >= 2)}))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        return (0, *(end + 1 for end in self.size_ends(collective, 1, comm_size)))


def _read_line(listing: Listing, number: int, line: str, release: str) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        what = f"{presets.shown(line.strip())} sets no variable"
        finding = Finding(number, Fault.MALFORMED, what, "write export NAME='value', or remove it")
        listing.findings.append(finding)
        return
    value, cut = _value(match["value"], in_shell=bool(match["export"]))
    if cut:
        mend = "put the value in quotes: export NAME='value'"
        listing.findings.append(Finding(number, Fault.MALFORMED, cut, mend))
    collective = _COLLECTIVES.get(match["name"])
    if collective is None:
        listing.findings += adjust_lint.other_variable(number, match["name"])
        return
    before = listing.settings.get(collective)
    if before is not None:
        what = f"{presets.variable(collective)} is set again on line {number}, which holds"
        finding = Finding(before.line, Fault.DEAD_RULE, what, "remove one line")
        listing.findings.append(finding)
    parsed = adjust_value.parse(value, collective, release)
    listing.settings[collective] = Setting(number, collective, parsed)


def _value(text: str, *, in_shell: bool) -> tuple[str, str]:
    """Return the value that a line sets, and what a shell would make of missing quotes."""
    quoted = _QUOTED.fullmatch(text.strip())
    if quoted is not None:
        return quoted["value"], ""
    plain = text.strip()
    if ";" not in plain.rstrip(";"):
        return plain, ""
    if in_shell:
        what = "a shell ends the value at the first ';': the rest of it is lost"
        return plain.partition(";")[0], what
    return plain, "a shell would end the value at the first ';'"
