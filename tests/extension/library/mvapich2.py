"""MVAPICH2 2.3: algorithms by the variables MV2_*_TUNING, in a file that MV2_USER_CONFIG names.

A variable takes one number for all message sizes, or a list ``8:0-8191,5:8192-+``. Of a list the
library looks at the upper ends alone: the first part that reaches as far as a message is taken, or
the last. A number that it does not have means its first algorithm. The file sets variables that
are not set yet; a line that sets none ends the job (``src/util/mv2_config/mv2_config.c``).

From documentation and sources of 2.3.3; nothing of it was run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import NamedTuple

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.configuration_space import CatalogueSpace
from colltune.mpi.file_format import Format, Written
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.release import MpiLibrary, UserPatterns
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules
from colltune.mpi.running import Promises
from colltune.mpi.toolchain import Toolchain

NAME = "mvapich2"
USER_FILE, IGNORE_FILE = "MV2_USER_CONFIG", "MV2_IGNORE_USER_CONFIG"
VARIABLES = {
    Collective.ALLGATHER: "MV2_INTER_ALLGATHER_TUNING",
    Collective.ALLGATHERV: "MV2_INTER_ALLGATHERV_TUNING",
    Collective.ALLREDUCE: "MV2_INTER_ALLREDUCE_TUNING",
    Collective.ALLTOALL: "MV2_ALLTOALL_TUNING",
    Collective.ALLTOALLV: "MV2_ALLTOALLV_TUNING",
    Collective.BCAST: "MV2_INTER_BCAST_TUNING",
    Collective.GATHER: "MV2_INTER_GATHER_TUNING",
    Collective.REDUCE: "MV2_INTER_REDUCE_TUNING",
    Collective.REDUCE_SCATTER: "MV2_INTER_RED_SCAT_TUNING",
    Collective.SCATTER: "MV2_INTER_SCATTER_TUNING",
}
_COLLECTIVES = {variable: collective for collective, variable in VARIABLES.items()}
_HEADER = "# MVAPICH2 (MV2_USER_CONFIG); collectives without a line are left to the library\n"
_EVERYWHERE = "a variable holds for communicators of all sizes, not only for that of the whole job"
_OWN_LINE = re.compile(r"(?m)^[ \t]*+(?:MV2_\w*TUNING[ \t]*+=|#.*\(MV2_USER_CONFIG\))")
_PART = re.compile(r"([0-9]+):([0-9]+)-([0-9]+|\+)")
_BLANKS = " \t\n\v\f\r"
_BUFSIZ = 8192
_LARGEST_INT = 2**31 - 1


class _Programs(Toolchain):
    """Its mpiexec is Hydra, and says no more; ``mpiname`` tells the release."""

    launcher_says = r"\A\s*MVAPICH2 (\d+\.\d+\S*)"
    compiler_says = r"\Ampi\w+ for MVAPICH2 version (\d+\.\d+\S*)"
    program_says = r"\AMVAPICH2 Version\s*:\s*(\d+\.\d+\S*)"
    suffix = ".mvapich2"
    compiler_variable = "MPICH_CC"
    root_variable = "EBROOTMVAPICH2"
    development = "Spack: mvapich2; EasyBuild: MVAPICH2"
    mend = "load its module"
    version_program = ("mpiname", "-a")
    modules = re.compile(r"(?:.*/)?(?i:mvapich2)/")
    easybuild = "EBVERSIONMVAPICH2"


class _Algorithms(CatalogueSpace):
    """Its algorithms; the base answers from the catalogue whatever else is asked."""

    def chosen_by(self, collective: Collective) -> str:
        """Return the variable, which holds between nodes where there are several."""
        return VARIABLES.get(collective, "")

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        """Return the variable with one number for all sizes."""
        spelled = self.canonical(configuration)
        if spelled.is_default:
            return {}
        return {VARIABLES[spelled.collective]: self.algorithm_of(spelled).value}


class Mvapich2(MpiLibrary):
    """MVAPICH2; see `colltune.mpi.release.MpiLibrary`."""

    name = NAME
    title = "MVAPICH2"
    releases = ("2.3.3", "2.3.7")
    toolchain = _Programs()
    formats: Mapping[str, str] = {"mvapich2-conf": f"{__name__}:Mvapich2Conf"}
    catalogues = Path(__file__).parent
    space = _Algorithms
    user_patterns = UserPatterns(
        ("MV2_*_TUNING*", USER_FILE, IGNORE_FILE, "MV2_USE_OSU_COLLECTIVES")
    )


class _Part(NamedTuple):
    """A part of a value: an algorithm's number, the sizes written, and the rule it makes."""

    number: str
    low: int
    high: int | None
    rule: Rule


class _Line(NamedTuple):
    """A line that sets a variable."""

    number: int
    variable: str
    value: str


@dataclass(frozen=True, eq=False)
class _ParsedConf(Rules):
    """What a release makes of a file; see `colltune.mpi.rules.Rules`."""

    library: Mvapich2
    text: str
    source: str
    release: str

    format = "mvapich2-conf"
    dropped = ""

    @cached_property
    def _read(self) -> tuple[tuple[_Line, ...], tuple[int, str]]:
        """The lines up to the one that ends the job, and that one with the reason."""
        found: list[_Line] = []
        for number, line in enumerate(self.text.split("\n"), 1):
            bare = line.strip(_BLANKS)
            if len(line.encode("utf-8", "surrogateescape")) > _BUFSIZ - 2:
                return tuple(found), (number, "the line is longer than MVAPICH2 reads")
            if not bare or bare.startswith("#"):
                continue
            variable, _, value = (part.strip(_BLANKS) for part in bare.partition("="))
            if not variable or not value:
                return tuple(found), (number, "the line is not of the form PARAMETER = VALUE")
            found.append(_Line(number, variable, value))
        return tuple(found), (0, "")

    @property
    def lines(self) -> tuple[_Line, ...]:
        """The lines that set variables."""
        return self._read[0]

    @property
    def fatal(self) -> str:
        """Why a job with this file ends at its start; empty if it does not."""
        number, why = self._read[1]
        return f"{self.source}:{number}: {why}, which ends the job" if why else ""

    @cached_property
    def parts(self) -> dict[Collective, tuple[_Part, ...]]:
        """The parts of each collective's value, of the first line that sets it."""
        found: dict[Collective, tuple[_Part, ...]] = {}
        for line in self.lines:
            collective = _COLLECTIVES.get(line.variable)
            if collective is not None and collective not in found:
                found[collective] = self._parts(collective, line.value, line.number)
        return found

    def _parts(self, collective: Collective, value: str, line: int) -> tuple[_Part, ...]:
        """Return the parts of a value; none if the library cannot read one of them."""
        words = value.split(",")
        if len(words) == 1:
            number = re.match(r"\d{1,9}", value, re.ASCII)
            if number is None:
                return ()
            rule = Rule(line, value, collective, self._named(collective, number[0]))
            return (_Part(number[0], 0, None, rule),)
        found = []
        for word in words:
            match = _PART.search(word)
            if match is None or any(len(n) > 10 or int(n) > _LARGEST_INT for n in _numbers(match)):
                return ()
            high = None if match[3] == "+" else int(match[3])
            rule = Rule(line, word.strip(), collective, self._named(collective, match[1]))
            found.append(_Part(match[1], int(match[2]), high, rule))
        return tuple(found)

    def _named(self, collective: Collective, number: str) -> Configuration | None:
        entry = self.library.at(self.release).space.entry_of(collective)
        algorithm = entry.named(str(int(number)))
        if algorithm is None:
            return None
        return self.library.at(self.release).space.configuration(collective, algorithm, {})

    def meant(self, part: _Part) -> Configuration:
        """Return what runs for a part: the first algorithm where there is none of its number."""
        collective = part.rule.collective
        first = self.library.at(self.release).space.entry_of(collective).algorithms[0]
        return part.rule.configuration or self.library.at(self.release).space.configuration(
            collective, first, {}
        )

    @property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        """All parts of all values."""
        return tuple(part.rule for parts in self.parts.values() for part in parts)

    def found(self) -> Iterator[Finding]:
        """Yield everything that is wrong."""
        number, why = self._read[1]
        if why:
            what = f"{why}, and the job ends"
            yield Finding(number, Fault.ENDS_PROGRAM, what, "correct or remove it")
        seen = set()
        for line in self.lines:
            if line.variable in seen:
                what = "an earlier line sets the variable, and the first one holds"
                yield Finding(line.number, Fault.DEAD_RULE, what, "remove it")
            elif (collective := _COLLECTIVES.get(line.variable)) is not None:
                yield from self._found_in(line, self.parts[collective])
            seen.add(line.variable)

    def _found_in(self, line: _Line, parts: tuple[_Part, ...]) -> Iterator[Finding]:
        at = line.number
        if not parts:
            what = "MVAPICH2 cannot read the value"
            mend = "write one number, or number:low-high,…,number:low-+"
            yield Finding(at, Fault.MALFORMED, what, mend)
        reached = 0
        for part in parts:
            if part.rule.configuration is None:
                what = f"there is no algorithm {int(part.number)}; the first one runs instead"
                yield Finding(at, Fault.UNKNOWN, what, "colltune rules catalog mvapich2 lists them")
            if reached < 0 or (part.high is not None and part.high < reached):
                what = f"an earlier part reaches further than {part.rule.text[:40]}"
                yield Finding(at, Fault.DEAD_RULE, what, "sort the parts by size")
            elif part.low != reached:
                what = f"{part.rule.text[:40]} holds from {reached} bytes on: low ends are not read"
                yield Finding(at, Fault.MALFORMED, what, f"start with {reached}")
            reached = -1 if part.high is None else max(reached, part.high + 1)
        if reached > 0:
            what = f"messages from {reached} bytes on get the last part, too"
            yield Finding(at, Fault.INHERITED, what, "end with +")

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs: a variable of the job goes before one of the file."""
        default = Configuration.default(NAME, call.collective)
        parts = self.parts.get(call.collective, ())
        chosen = self._taken(parts, call)
        said = self.meant(chosen) if chosen else default
        if environment is not None:
            ignored = re.match(r"\s*[-+]?0*[1-9]", environment.get(IGNORE_FILE, ""))
            if not environment.get(USER_FILE) or ignored:
                return Outcome(default, None, ("the job does not read the file",), said)
        if self.fatal:
            return Outcome(default, None, (self.fatal,), said, ends_program=self.fatal)
        variable = VARIABLES.get(call.collective, "")
        users = (environment or {}).get(variable)
        if users is not None:
            theirs = self._taken(self._parts(call.collective, users, 0), call)
            runs = self.meant(theirs) if theirs else default
            return Outcome(runs, chosen and chosen.rule, (f"the job sets {variable}",), said)
        if chosen is None:
            return Outcome(default, None, ("no line chooses: the library decides",), said)
        return Outcome(said, chosen.rule, (f"line {chosen.rule.line} chooses",), said)

    def _taken(self, parts: tuple[_Part, ...], call: Call) -> _Part | None:
        reaching = (p for p in parts if p.high is None or call.msize_bytes <= p.high)
        return next(reaching, parts[-1] if parts else None)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return 1 where there is a rule: it holds for every communicator."""
        return (1,) if self.parts.get(collective) else ()

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        """Return where parts end."""
        del comm_size, nodes
        ends = (part.high + 1 for part in self.parts.get(collective, ()) if part.high is not None)
        return tuple(sorted({0, *ends}))


def _numbers(part: re.Match[str]) -> list[str]:
    return [number for number in part.groups() if number != "+"]


class Mvapich2Conf(Format):
    """The configuration file behind `colltune.mpi.file_format.Format`."""

    name = "mvapich2-conf"
    library = NAME
    title = "MVAPICH2's configuration file (MV2_USER_CONFIG)"
    allows_partial_collective = False
    knows_comm_size = False
    remarks = (_EVERYWHERE,)
    compared = dict.fromkeys(VARIABLES, "bytes, as its documentation says; it was not tried")

    def __init__(self) -> None:
        self._mpi = Mvapich2()

    def recognises(self, text: str) -> bool:
        """Tell by a variable for tuning, or by the first line of our own."""
        return _OWN_LINE.search(text) is not None

    def parse(self, text: str, source: str, release: str) -> _ParsedConf:
        """Return what `release` makes of a file."""
        self._mpi.catalogue_of(release)
        return _ParsedConf(self._mpi, text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        """Return everything that is wrong, by line."""
        assert isinstance(parsed, _ParsedConf)
        return tuple(sorted(parsed.found()))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return the choices for the largest communicator of each collective."""
        self._mpi.catalogue_of(release)
        if table.library != NAME:
            raise LibraryError(f"a table of {table.library} cannot be written for MVAPICH2")
        largest: dict[Collective, tuple[int, tuple[Interval, ...]]] = {}
        for (collective, size), intervals in table.rules.items():
            if size >= largest.get(collective, (0, ()))[0]:
                largest[collective] = size, intervals
        chosen = {collective: intervals for collective, (_, intervals) in largest.items()}
        written = self._written(release, chosen, [])
        remarks = self.remarks if chosen else ()
        return replace(written, notes=(*written.notes, *remarks))

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return the same choices; other variables are not kept."""
        self._mpi.catalogue_of(release)
        if not isinstance(parsed, _ParsedConf):
            raise LibraryError(f"{parsed.source}: {parsed.format} is no format of MVAPICH2")
        if parsed.fatal:
            raise LibraryError(parsed.fatal)
        notes = [
            f"line {line.number}: {line.variable[:60]!r} is not kept"
            for line in parsed.lines
            if not parsed.parts.get(_COLLECTIVES.get(line.variable, Collective.BARRIER))
        ]
        chosen = {}
        for collective in parsed.parts:
            firsts = parsed.switch_points(collective, 2)
            lasts = (*(first - 1 for first in firsts[1:]), None)
            chosen[collective] = tuple(
                Interval(first, last, parsed.decide(Call(collective, 2, first)).chosen)
                for first, last in zip(firsts, lasts, strict=True)
            )
        return self._written(release, chosen, notes)

    def _written(
        self, release: str, chosen: Mapping[Collective, tuple[Interval, ...]], notes: list[str]
    ) -> Written:
        lines = []
        for collective, intervals in sorted(chosen.items()):
            if all(interval.configuration.is_default for interval in intervals):
                continue
            if why := self._why_not(release, intervals):
                notes.append(f"{collective}: {why}; left to the library")
                continue
            parts = []
            for interval in intervals:
                value = self._mpi.at(release).space.algorithm_of(interval.configuration).value
                last = "+" if interval.last_bytes is None else interval.last_bytes
                parts.append(f"{value}:{interval.first_bytes}-{last}")
            value = ",".join(parts) if len(parts) > 1 else parts[0].partition(":")[0]
            lines.append(f"{VARIABLES[collective]} = {value}\n")
        return Written(self.name, release, {"": _HEADER + "".join(lines)}, tuple(notes))

    def _why_not(self, release: str, intervals: tuple[Interval, ...]) -> str:
        """Return why choices cannot be written; empty if they can."""
        if intervals[0].first_bytes or any(i.configuration.is_default for i in intervals):
            return "a list cannot leave some sizes to the library"
        if any(i.first_bytes > _LARGEST_INT for i in intervals):
            return "sizes from 2 GiB on cannot be told apart"
        promises = Promises(ANY_LEGAL)
        unsafe = [
            interval.configuration.id
            for interval in intervals
            if self._mpi.at(release).runs(interval.configuration, promises=promises).refusal
        ]
        return f"{unsafe[0]} is not safe" if unsafe else ""

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variable that names the file."""
        if not PurePath(paths[""]).is_absolute():
            raise LibraryError(f"{paths['']}: the path of a configuration file must be absolute")
        return {USER_FILE: paths[""]}
