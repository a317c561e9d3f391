"""The format ``openmpi-parameters``: parameters that are in effect at once, in files of all kinds.

Read are ``mca-params.conf`` (``name = value``), files for ``mpirun --tune`` and
``mca_base_envar_file_prefix`` (``--mca name value``), and listings of an environment
(``OMPI_MCA_name=value``). What is written is one of the second kind, with forced single choices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.errors import say
from colltune.mpi.file_format import Format, Listed, Written, absolute_path, refuse_dropped, text_at
from colltune.mpi.job_variables import is_surely_script, mentions
from colltune.mpi.openmpi import mca
from colltune.mpi.openmpi.parameters import reading, writing
from colltune.mpi.openmpi.parameters.lint import lint
from colltune.mpi.openmpi.parameters.parameter_file import NAME, ParameterFile
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import (
    Finding,
    Rules,
)
from colltune.text import printable

_FIRST_BYTES = 65536
_OPTION = re.compile(
    r"(?m)^[ \t]*+(?:--?o?mca[ \t]+[A-Za-z]"
    r"|(?:[^#{\n]*[ \t])?--?g?mca[ \t]+[a-z]\w+[ \t]+\S)"
)
_OWN = re.compile(
    r"(?m)^[ \t]*(?:coll|mca|pml|btl|mtl|osc|io|opal|ompi|orte|mpi|rmaps|plm|oob|hwloc|pmix|prte"
    r"|topo|op)(?:_[a-z0-9_]+)?[ \t]*="
)


class OpenMpiParameters(Format):
    name = NAME
    library = LIBRARY
    title = "Open MPI's parameters (mca-params.conf, --tune, environment)"
    single_algorithm = True
    lists_variables = True

    def recognises(self, text: str) -> bool:
        begin = text[:_FIRST_BYTES].removeprefix("\ufeff")
        if _OPTION.search(begin) is not None or mentions(text, "OMPI_MCA_"):
            return True
        return _OWN.search(begin) is not None and not is_surely_script(begin)

    def parse(self, text: str, source: str, release: str) -> Rules:
        catalogue_of(release)
        settings = reading.read(text)
        if settings.script is not None and not settings.script.sets and settings.script.others:
            line = settings.script.others[0]
            told = printable(text.split("\n")[line - 1].strip()[:60])
            raise say("sets-no-parameter", file=source, line=line, told=told)
        if settings.others and not settings.found:
            line, other = settings.others[0]
            raise say("sets-no-parameter", file=source, line=line, told=other[:60])
        return ParameterFile(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParameterFile)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        return writing.write(table, release, self, programs=programs)

    def listed(self, parsed: Rules) -> tuple[Listed, ...]:
        """Return the parameters but those that switch rules on, which no file of rules needs."""
        assert isinstance(parsed, ParameterFile)
        switches = (mca.USE_RULES, mca.RULES_FILE)
        by_name = {mca.forcing_name(collective): collective for collective in Collective}
        found = []
        for each in parsed.read.found:
            stem = f"{each.name.partition('_algorithm')[0]}_algorithm"
            if each.name not in switches:
                found.append(Listed(each.line, each.text, by_name.get(stem)))
        unknown = parsed.read.script.found if parsed.read.script else []
        found += [
            Listed(each.line, f"{each.name} (which depends on {each.unknown})")
            for each in unknown
            if each.unknown and each.name.startswith(mca.PREFIX)
        ]
        return tuple(found)

    def convert(self, parsed: Rules, release: str) -> Written:
        catalogue_of(release)
        refuse_dropped(parsed)
        return writing.convert(parsed, release)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Name the file; the users' and the system's parameter files stay in effect.

        The variables of a script have to be set by themselves.
        """
        catalogue_of(release)
        path = absolute_path(paths[""], "a parameter file")
        if (text := text_at(path)) is not None and (read := reading.read(text)).script is not None:
            return mca.environment({setting.name: setting.value for setting in read.found})
        return mca.environment({"mca_base_envar_file_prefix": path})
