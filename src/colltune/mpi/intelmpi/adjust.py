"""The format ``intelmpi-adjust``: a list of I_MPI_ADJUST_* variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import (
    Call,
    Fault,
    Finding,
    Format,
    Outcome,
    ParsedFile,
    Rule,
    Written,
    absolute_path,
)
from colltune.mpi.intelmpi import adjust_value, choices, lint
from colltune.mpi.intelmpi.adjust_value import Value
from colltune.mpi.intelmpi.choices import Choice, Sizes
from colltune.mpi.intelmpi.grid import CommPart, Grid, Laid, Leaf, PpnPart, converted, shown
from colltune.mpi.intelmpi.library import INTEL_MPI, variable
from colltune.mpi.intelmpi.releases import LIBRARY, catalogue_of

NAME = "intelmpi-adjust"
PREFIX = "I_MPI_ADJUST_"
_LINE = re.compile(r"\s*(?P<export>export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_QUOTED = re.compile(r"(?P<mark>['\"])(?P<value>.*?)(?P=mark)\s*+;?+\s*+(?:#.*)?")
_COLLECTIVES = {variable(c): c for c in Collective}


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
class AdjustFile(Laid):
    """A list of variables as one release reads it; see `file_format.ParsedFile`, `grid.Laid`."""

    text: str
    source: str
    release: str
    format: str = NAME
    dropped: str = ""

    @cached_property
    def listing(self) -> Listing:
        listing = Listing()
        for number, line in enumerate(self.text.split("\n"), 1):
            if line.strip() and not line.strip().startswith("#"):
                _read_line(listing, number, line.rstrip("\r"), self.release)
        return listing

    @property
    def collectives(self) -> tuple[Collective, ...]:
        return tuple(c for c, s in self.listing.settings.items() if not s.value.rejected)

    @property
    def not_read(self) -> tuple[str, ...]:
        return tuple(
            f"line {setting.line}: {collective} is left out: {setting.value.rejected}"
            for collective, setting in self.listing.settings.items()
            if setting.value.rejected
        )

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        rules = (rule for found in self._rules.values() for rule in found)
        return tuple(sorted(rules, key=lambda rule: rule.line))

    @cached_property
    def _rules(self) -> dict[Collective, tuple[Rule, ...]]:
        return {
            c: tuple(
                Rule(s.line, e.text, c, INTEL_MPI.presets(self.release).preset(c, e.number))
                for e in s.value.entries
            )
            for c, s in self.listing.settings.items()
        }

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
        said = (
            own
            if leaf is None
            else INTEL_MPI.presets(self.release).chosen(call.collective, leaf.number)
        )
        given = (environment or {}).get(variable(call.collective))
        if given is not None and (setting is None or given != setting.value.text):
            value = adjust_value.parse(given, call.collective, self.release)
            if not value.rejected:
                return adjust_value.outcome(value, call, None, chosen=said)
            why = f"the library ignores {shown(given)}: {value.rejected}"
            return Outcome(own, None, (why,), said)
        if setting is None:
            why = f"{variable(call.collective)} is not set: the tuning of the library holds"
            return Outcome(own, None, (why,), own)
        if leaf is None:
            why = f"line {setting.line}: the library ignores the value: {setting.value.rejected}"
            return Outcome(own, None, (why,), own)
        return adjust_value.outcome(setting.value, call, leaf.rule)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        if collective not in self.collectives:
            return ()
        return tuple(sorted({2, *(end + 1 for end in self.comm_ends(collective, 1) if end >= 2)}))


def _read_line(listing: Listing, number: int, line: str, release: str) -> None:
    match = _LINE.fullmatch(line)
    if match is None:
        what = f"{shown(line.strip())} sets no variable"
        finding = Finding(number, Fault.MALFORMED, what, "write export NAME='value', or remove it")
        listing.findings.append(finding)
        return
    value, cut = _value(match["value"], in_shell=bool(match["export"]))
    if cut:
        mend = "put the value in quotes: export NAME='value'"
        listing.findings.append(Finding(number, Fault.MALFORMED, cut, mend))
    collective = _COLLECTIVES.get(match["name"])
    if collective is None:
        listing.findings += lint.other_variable(number, match["name"])
        return
    before = listing.settings.get(collective)
    if before is not None:
        what = f"{variable(collective)} is set again on line {number}, which holds"
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


EVERYWHERE = (
    "a variable holds for communicators of all sizes, not only for those of the whole job, for"
    " which it was chosen"
)
_HEADER = "# Intel MPI: export these variables before the program is started (I_MPI_ADJUST_*).\n"
_NAMED = re.compile(
    r"(?m)^[ \t]*+(?:#.*\(I_MPI_ADJUST_\*\)|(?:export[ \t]++)?I_MPI_ADJUST_[A-Za-z_]+=)"
)


class AdjustFormat(Format):
    name = NAME
    library = LIBRARY
    title = "Intel MPI's variables I_MPI_ADJUST_*"
    allows_partial_collective = False
    knows_comm_size = False
    remarks = (EVERYWHERE,)

    def recognises(self, text: str) -> bool:
        """Tell whether a line sets one of the variables, or is the first of a written list."""
        return bool(_NAMED.search(text))

    def parse(self, text: str, source: str, release: str) -> AdjustFile:
        catalogue_of(release)
        return AdjustFile(text, source, release)

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        assert isinstance(parsed, AdjustFile)
        found = [*parsed.listing.findings]
        for setting in parsed.listing.settings.values():
            found += lint.value_findings(setting.line, setting.value)
        return tuple(sorted(set(found)))

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """Return what `table` says for the whole job's communicator, as variables.

        A collective is written as a whole or not at all, see `choices`.
        """
        chosen, notes = choices.chosen(
            _whole_job(table), release, builtin_operations_only=builtin_operations_only
        )
        grid = {collective: _everywhere(choice) for collective, choice in chosen.items()}
        dropped = sorted({c for c, s in _all_keys(table) if s != table.shape.nprocs})
        notes += tuple(
            f"{c}: what the table has for communicators of other sizes than"
            f" {table.shape.nprocs} cannot be told apart"
            for c in dropped
        )
        return _written(grid, release, (*notes, *(self.remarks if grid else ())))

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """Return what another file of Intel MPI means, as far as all communicators have it."""
        catalogue_of(release)
        grid, notes = converted(parsed, release)
        kept: dict[Collective, tuple[PpnPart, ...]] = {}
        for collective, parts in grid.items():
            if len(parts) == 1 and len(parts[0].comms) == 1:
                kept[collective] = parts
                continue
            line = next(r.line for r in parsed.rules if r.collective is collective)
            notes.append(
                f"line {line}: {collective} is left to the library: variables cannot tell"
                " communicators apart"
            )
        return _written(kept, release, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variables of the written list; nothing as long as it is not there."""
        path = Path(absolute_path(paths[""], "a configuration file"))
        try:
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            catalogue_of(release)
            return {}
        settings = self.parse(text, str(path), release).listing.settings
        return {variable(c): s.value.text for c, s in settings.items()}


def _whole_job(table: DecisionTable) -> DecisionTable:
    """Return the table's part for the communicator of the whole job."""
    job = table.shape
    rules = {key: found for key, found in table.rules.items() if key[1] == job.nprocs}
    for (collective, shape), found in table.by_layout.items():
        if shape == job:
            rules[collective, job.nprocs] = found
    return DecisionTable(table.library, job, rules)


def _all_keys(table: DecisionTable) -> set[tuple[Collective, int]]:
    return {*table.rules, *((c, shape.nprocs) for c, shape in table.by_layout)}


def _everywhere(choice: Choice) -> tuple[PpnPart, ...]:
    (sizes,) = choice.everywhere.values()
    return (PpnPart(None, (CommPart(None, sizes),)),)


def _written(grid: Grid, release: str, notes: tuple[str, ...]) -> Written:
    lines = [
        f"export {variable(collective)}='{value_of(parts[0].comms[0].sizes)}'\n"
        for collective, parts in sorted(grid.items())
    ]
    return Written(NAME, release, {"": _HEADER + "".join(lines)}, notes)


def value_of(sizes: Sizes) -> str:
    """Return the value of a variable: ascending ends, the last entry without a range."""
    words, first = [], 0
    for part in sizes:
        if part.last is None:
            words.append(str(part.preset))
            break
        if part.last > choices.LARGEST_BYTES:
            raise LibraryError(f"{part.last} bytes: no end beyond {choices.LARGEST_BYTES} is read")
        words.append(f"{part.preset}:{first}-{part.last}")
        first = part.last + 1
    return ";".join(words)
