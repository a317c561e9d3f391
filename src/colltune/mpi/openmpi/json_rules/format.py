"""The format ``openmpi-json``: rules for coll/tuned with ranges, from Open MPI 6.0 on."""

from __future__ import annotations

import re

from colltune.decisions import DecisionTable
from colltune.errors import LibraryError
from colltune.mpi import located_json
from colltune.mpi.file_format import Written, refuse_dropped
from colltune.mpi.openmpi.json_rules import writing
from colltune.mpi.openmpi.json_rules.lint import lint
from colltune.mpi.openmpi.json_rules.reading import NAME, JsonFile, read
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.tuned_format import TunedFormat, TunedRules
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    Fault,
    Finding,
    Rules,
)

_OWN_KEYS = re.compile(
    r'"(?:collectives|rule_file_version|(?:comm|msg)_size_m(?:in|ax)|comm_rank_distribution)"\s*:'
)
_FIRST_SERIES = 6


class OpenMpiJson(TunedFormat):
    name = NAME
    title = "Open MPI's JSON rules for coll/tuned (6.0 and later)"
    knows_layout = True

    def recognises(self, text: str) -> bool:
        return text.lstrip("\ufeff \t\r\n").startswith("{") and bool(_OWN_KEYS.search(text))

    def unreadable_by(self, release: str) -> str:
        series = catalogue_of(release).series
        if int(series.partition(".")[0]) >= _FIRST_SERIES:
            return ""
        return f"Open MPI {release} reads classic rules files only; JSON came with 6.0"

    def parse(self, text: str, source: str, release: str) -> Rules:
        unreadable = self.unreadable_by(release)
        plain = text.removeprefix("\ufeff")
        if not plain.lstrip(" \t\r\n").startswith(("{", "[")):
            raise LibraryError(f"{source}: these are not JSON rules, which begin with a brace")
        parsed = JsonFile(source, release)
        try:
            root = located_json.parse(plain, trailing_commas=True)
        except located_json.JsonSyntaxError as error:
            parsed.dropped = f"line {error.line}: this is not JSON: {error}"
            message = (
                f"this is not JSON: {error}. The library then tries to read a classic file, "
                "and drops the whole file without a message"
            )
            form = Finding(error.line, Fault.FILE_DROPPED, message, "correct the JSON")
            parsed.form_findings = (form,)
        else:
            found = read(root, parsed.catalogue)
            parsed.dropped, parsed.ends_program = found.dropped, found.ends_program
            parsed.rules, parsed.entries = tuple(found.rules), found.entries
            parsed.form_findings = tuple(found.findings)
        if unreadable:
            parsed.dropped, parsed.ends_program = unreadable, ""
            message = f"{unreadable}: the library drops the file without a message"
            form = Finding(0, Fault.FILE_DROPPED, message, "convert it to openmpi-classic")
            parsed.form_findings = (form,)
        return parsed

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, JsonFile)
        found = list(parsed.form_findings)
        if not parsed.dropped and not parsed.ends_program:
            found += lint(parsed)
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        if unreadable := self.unreadable_by(release):
            raise LibraryError(f"{unreadable}. Write the format openmpi-classic for it.")
        return writing.write(table, release, self, programs=programs)

    def convert(self, parsed: Rules, release: str) -> Written:
        if unreadable := self.unreadable_by(release):
            raise LibraryError(f"{unreadable}. Convert to openmpi-classic for it.")
        refuse_dropped(parsed, parsed.ends_program if isinstance(parsed, TunedRules) else "")
        if not isinstance(parsed, TunedRules):
            raise LibraryError(f"{parsed.source}: {NAME} cannot express what {parsed.format} says")
        return writing.convert(parsed.entries, release)
