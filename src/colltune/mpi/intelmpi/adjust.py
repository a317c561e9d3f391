"""The format ``intelmpi-adjust``: a list of I_MPI_ADJUST_<COLLECTIVE> variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.file_format import Format, Listed, Note, Written, absolute_path, text_at
from colltune.mpi.intelmpi import presets
from colltune.mpi.intelmpi.library import LIBRARY, variable
from colltune.mpi.intelmpi.presets import PresetFile, Value, preset_findings, shown
from colltune.mpi.intelmpi.writing import LARGEST_BYTES, PresetChooser, converted, presets_of
from colltune.mpi.job_files import read_script
from colltune.mpi.job_variables import mentions, script_findings
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    LARGEST_SIZE,
    Call,
    Entries,
    Entry,
    Fault,
    Finding,
    Outcome,
    Rule,
    Rules,
)
from colltune.mpi.running import Promises
from colltune.mpi.shell import Assigned, Script

NAME = "intelmpi-adjust"
_PREFIX = "I_MPI_ADJUST_"
_COLLECTIVES = {variable(c): c for c in Collective}


@dataclass
class _Lines:
    """What the lines of a file set; the later of two of one name holds."""

    values: dict[Collective, Value] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def read(self, each: Assigned) -> None:
        if each.name not in _COLLECTIVES:
            self.find(each.line, *_other_variable(each.name))
            return
        collective = _COLLECTIVES[each.name]
        self.values[collective] = presets.parse(each.value, collective, each.line)

    def find(self, line: int, fault: Fault, message: str, mend: str) -> None:
        self.findings.append(Finding(line, fault, message, mend))


class AdjustFile(PresetFile):
    """A list of variables as one release reads it."""

    format = NAME

    @cached_property
    def script(self) -> Script:
        return read_script(self.text)

    @cached_property
    def lines(self) -> _Lines:
        lines, script = _Lines(), self.script
        for each in script.known:
            if each.name.upper().startswith("I_MPI_") or _likely(each.name):
                lines.read(each)
        lines.findings += script_findings(script, lambda name: name.startswith("I_MPI_"))
        return lines

    @cached_property
    def entries(self) -> Entries:  # type: ignore[override]
        kept = {c: value for c, value in self.lines.values.items() if not value.rejected}
        return {c: value.in_effect(self.release) for c, value in kept.items()}

    @property
    def not_read(self) -> tuple[Note, ...]:
        return tuple(
            Note(value.line, collective, f"{collective} is left out: {value.rejected}")
            for collective, value in self.lines.values.items()
            if value.rejected
        )

    @cached_property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        found = (
            value.rule(preset, self.release)
            for value in self.lines.values.values()
            for preset in value.presets
        )
        return tuple(sorted(found, key=lambda rule: rule.line))

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs; the file's variables hold unless `environment` sets the same ones."""
        own, said = Configuration.default(LIBRARY, call.collective), self.said(call)
        name = variable(call.collective)
        value = self.lines.values.get(call.collective)
        given = (environment or {}).get(name)
        if given is not None and (value is None or given != value.text):
            other = presets.parse(given, call.collective)
            if not other.rejected:
                return presets.outcome(other, self.release, call, instead_of=said)
            why = f"the library ignores {shown(given)}: {other.rejected}"
            return Outcome(own, None, (why,), said)
        if value is None:
            why = f"{name} is not set, so the library's own tuning applies"
        elif value.rejected:
            why = f"line {value.line}: the library ignores the value: {value.rejected}"
        else:
            return presets.outcome(value, self.release, call)
        return Outcome(own, None, (why,), own)


_OTHERS = ("ALLTOALLW", "GATHERV", "SCATTERV")
_BLOCKING = (*_COLLECTIVES, *map(_PREFIX.__add__, _OTHERS))
_KNOWN = (*_BLOCKING, *(name.replace(_PREFIX, f"{_PREFIX}I") for name in _BLOCKING))
_NEAR = 0.9


def _likely(name: str) -> str:
    return next(iter(get_close_matches(name.upper(), _KNOWN, 1, _NEAR)), "")


def _other_variable(name: str) -> tuple[Fault, str, str]:
    """Return what is to be said of a variable that is not one of a known collective."""
    likely = _likely(name)
    if likely and name not in _KNOWN and not name.startswith(f"{likely}_"):
        message = f"{shown(name)} is not a variable of Intel MPI, which ignores it"
        return Fault.UNKNOWN, message, f"write {likely}"
    if not name.startswith(_PREFIX):
        message = f"{shown(name)} chooses no preset, so it is not checked"
        return Fault.REMARK, message, "none needed"
    if name in _KNOWN or any(name.startswith(f"{known}_") for known in _KNOWN):
        message = f"colltune knows no presets of this collective: {shown(name)}"
        return Fault.REMARK, message, "none needed"
    message = f"{shown(name)} is not a collective, so the library ignores it"
    mend = "write the collective as MPI does, in capitals: I_MPI_ADJUST_REDUCE_SCATTER"
    return Fault.UNKNOWN, message, mend


EVERYWHERE = (
    "a variable holds for communicators of all sizes, not only for those of the whole job, "
    "which it was chosen for"
)
_HEADER = "# Intel MPI: export these variables before the program starts (I_MPI_ADJUST_*).\n"


class AdjustFormat(Format):
    name = NAME
    library = LIBRARY
    title = "Intel MPI's variables I_MPI_ADJUST_*"
    allows_partial_collective = False
    lists_variables = True
    knows_comm_size = False
    remarks = (EVERYWHERE,)

    def recognises(self, text: str) -> bool:
        """Tell whether a line sets one of the variables, or is the first of a written list."""
        return _HEADER.strip() in text or mentions(text, "I_MPI_ADJUST_")

    def parse(self, text: str, source: str, release: str) -> AdjustFile:
        self.catalogue_of(release)
        return AdjustFile(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, AdjustFile)
        found = {*parsed.lines.findings}
        for value in parsed.lines.values.values():
            found |= {Finding(value.line, *each) for each in presets.findings(value)}
            for preset in value.read if value.text.strip() else ():
                found |= {*preset_findings(value.rule(preset, parsed.release), parsed.release)}
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return what `table` says for the whole job's communicator, as variables.

        A collective is written as a whole or not at all, see `writing`.
        """
        chooser = PresetChooser(release, Promises(programs, one_node=table.shape.nodes == 1))
        found = {c: entries[0] for c, entries in chooser.chosen(_whole_job(table)).items()}
        job = table.shape.nprocs
        dropped = {c for c, size in table.rules if size != job}
        dropped |= {c for c, shape in table.by_layout if shape.nprocs != job}
        notes = (
            f"{c}: variables cannot tell communicators of other sizes than {job} apart"
            for c in sorted(dropped)
        )
        told = f"# Written by colltune for {programs.phrase}.\n"
        remarks = self.remarks if found else ()
        return _written(found, release, (*chooser.notes, *notes, *remarks), told)

    def listed(self, parsed: Rules) -> tuple[Listed, ...]:
        assert isinstance(parsed, AdjustFile)
        return tuple(
            Listed(
                each.line,
                each.name if each.unknown else f"{each.name}={each.value}",
                None if each.unknown else _COLLECTIVES.get(each.name),
            )
            for each in parsed.script.found
            if each.name.startswith(_PREFIX)
        )

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return what another file of Intel MPI means, as far as all communicators have it."""
        self.catalogue_of(release)
        found, notes = converted(parsed, release)
        kept: dict[Collective, Entry] = {}
        for collective, entries in found.items():
            if len({presets_of(entry) for entry in entries}) == 1:
                kept[collective] = entries[0]
                continue
            line = next(r.line for r in parsed.rules if r.collective is collective)
            what = f"{collective} is left to the library: variables cannot tell communicators apart"
            notes.append(Note(line, collective, what))
        return _written(kept, release, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variables of the written list; nothing as long as it is not there."""
        path = Path(absolute_path(paths[""], "a configuration file"))
        self.catalogue_of(release)
        if (text := text_at(str(path))) is None:
            return {}
        values = self.parse(text, str(path), release).lines.values
        return {variable(c): value.text for c, value in values.items()}


def _whole_job(table: DecisionTable) -> DecisionTable:
    """Return the table's part for the communicator of the whole job."""
    job = table.shape
    rules = {key: found for key, found in table.rules.items() if key[1] == job.nprocs}
    for (collective, shape), found in table.by_layout.items():
        if shape == job:
            rules[collective, job.nprocs] = found
    return DecisionTable(table.library, job, rules)


def _written(
    found: Mapping[Collective, Entry], release: str, notes: tuple[str, ...], told: str = ""
) -> Written:
    lines = [f"export {variable(c)}='{value_of(entry)}'\n" for c, entry in sorted(found.items())]
    return Written(NAME, release, {"": _HEADER + told + "".join(lines)}, notes)


def value_of(entry: Entry) -> str:
    """Return the value of a variable: ascending ends, the last preset without a range."""
    words, first = [], 0
    for last, preset in presets_of(entry):
        if last >= LARGEST_SIZE:
            words.append(f"{preset}")
        elif last > LARGEST_BYTES:
            raise say("end-beyond", last=last, largest_bytes=LARGEST_BYTES)
        else:
            words.append(f"{preset}:{first}-{last}")
            first = last + 1
    return ";".join(words)
