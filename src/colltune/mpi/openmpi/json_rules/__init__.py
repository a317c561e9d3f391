"""The format ``openmpi-json``: rules for coll/tuned with ranges, from Open MPI 6.0 on."""

from __future__ import annotations

import re

from colltune.decisions import DecisionTable
from colltune.errors import LibraryError
from colltune.mpi import located_json
from colltune.mpi.file_format import Fault, Finding, ParsedFile, Written, refuse_dropped
from colltune.mpi.openmpi.json_rules import converting, reading, writer
from colltune.mpi.openmpi.json_rules.lint import lint
from colltune.mpi.openmpi.json_rules.parsed import NAME, ParsedRanges
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.openmpi.rules import RangedFile
from colltune.mpi.openmpi.tuned_format import TunedFormat

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

    def parse(self, text: str, source: str, release: str) -> ParsedFile:
        unreadable = self.unreadable_by(release)
        plain = text.removeprefix("\ufeff")
        if not plain.lstrip(" \t\r\n").startswith(("{", "[")):
            raise LibraryError(f"{source}: no JSON rules: these begin with a brace")
        try:
            root = located_json.parse(plain, trailing_commas=True)
        except located_json.JsonSyntaxError as error:
            return _no_json(source, release, error, unreadable)
        found = reading.read(root, catalogue_of(release))
        findings = list(found.findings)
        if unreadable:
            findings = [_other_release(unreadable)]
        elif not found.dropped and not found.ends_program:
            findings += lint(found.ranges, catalogue_of(release), release)
        return ParsedRanges(
            release,
            source,
            unreadable or found.dropped,
            tuple(found.rules),
            tuple(sorted(findings)),
            "" if unreadable else found.ends_program,
            found.ranges,
        )

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        unreadable = self.unreadable_by(release)
        if unreadable:
            raise LibraryError(f"{unreadable}; write the format openmpi-classic for it")
        return writer.write(table, release, builtin_operations_only=builtin_operations_only)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        unreadable = self.unreadable_by(release)
        if unreadable:
            raise LibraryError(f"{unreadable}; convert to openmpi-classic for it")
        refuse_dropped(parsed, parsed.ends_program if isinstance(parsed, ParsedRanges) else "")
        if not isinstance(parsed, RangedFile):
            raise LibraryError(
                f"{parsed.source}: what {parsed.format} says cannot be said in {NAME}"
            )
        return converting.convert(parsed.ranges, release)


def _no_json(
    source: str, release: str, error: located_json.JsonSyntaxError, unreadable: str
) -> ParsedRanges:
    why = f"line {error.line}: this is no JSON: {error}"
    if unreadable:
        return ParsedRanges(release, source, unreadable, (), (_other_release(unreadable),))
    finding = Finding(
        error.line,
        Fault.FILE_DROPPED,
        f"this is no JSON: {error}; the library tries to read the file as a classic one then, and"
        " drops it without a word",
        "correct the JSON",
    )
    return ParsedRanges(release, source, why, (), (finding,))


def _other_release(unreadable: str) -> Finding:
    message = f"{unreadable}: the library drops the file without a word"
    mend = "convert it to openmpi-classic"
    return Finding(0, Fault.FILE_DROPPED, message, mend)
