"""The format ``openmpi-han``: rules by which coll/han hands calls on, or runs its algorithms."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colltune.decisions import DecisionTable
from colltune.domain import Configuration, Shape
from colltune.errors import say
from colltune.mpi.file_format import Format, Written, absolute_path, refuse_dropped
from colltune.mpi.openmpi import han_setups, mca
from colltune.mpi.openmpi.decide.components import han_serves
from colltune.mpi.openmpi.han import reading, writing
from colltune.mpi.openmpi.han.lint import lint
from colltune.mpi.openmpi.han.rules import (
    NAME,
    HanFile,
    choices,
    names_algorithms,
    parameters,
)
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import Finding, Rules

_FIRST_BYTES = 65536
_COMPONENT = re.compile(
    r"^\s*[0-9]+\s+(?:self|basic|libnbc|tuned|sm|adapt|han|xhc)\b", re.MULTILINE
)
_COMMENT = re.compile("#[^\n]*")


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
        found = reading.read(text, catalogue_of(release))
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
