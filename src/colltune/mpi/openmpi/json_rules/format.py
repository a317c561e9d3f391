"""The format ``openmpi-json``: rules for coll/tuned with ranges, from Open MPI 6.0 on."""

from __future__ import annotations

import re

from colltune.decisions import DecisionTable
from colltune.errors import say
from colltune.mpi.file_format import Note, Written
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.tuned_format import TunedFormat, TunedRules
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    Finding,
    Rules,
)

_OWN_KEYS = re.compile(
    r'"(?:collectives|rule_file_version|(?:comm|msg)_size_m(?:in|ax)|comm_rank_distribution)"\s*:'
)
_FIRST_SERIES = 6


class OpenMpiJson(TunedFormat):
    name = "openmpi-json"
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
        from colltune.mpi.openmpi.json_rules.reading import json_file

        return json_file(text, source, release, self.unreadable_by(release))

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        from colltune.mpi.openmpi.json_rules.lint import lint
        from colltune.mpi.openmpi.json_rules.reading import JsonFile

        assert isinstance(parsed, JsonFile)
        found = list(parsed.form_findings)
        if not parsed.dropped and not parsed.ends_program:
            found += lint(parsed)
        return tuple(sorted(found))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        from colltune.mpi.openmpi.json_rules import writing

        if why := self.unreadable_by(release):
            raise say("format-not-read", format=self.name, why=why)
        return writing.write(table, release, self, programs=programs)

    def converted(self, parsed: TunedRules, release: str) -> tuple[str, list[Note]]:
        from colltune.mpi.openmpi.json_rules import writing

        return writing.converted(parsed.entries, release)
