"""MVAPICH2 2.3: algorithms by the variables MV2_*_TUNING, in a file that MV2_USER_CONFIG names.

A variable takes one number for all message sizes, or a list ``8:0-8191,5:8192-+``. Of a list the
library looks at the upper ends alone: the first part that reaches as far as a message is taken, or
the last. A number that it does not have means its first algorithm. The file sets variables that
are not set yet; a line that sets none ends the job (``src/util/mv2_config/mv2_config.c``).

From documentation and sources of 2.3.3; nothing of it was run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.choosing import Chooser, check_library
from colltune.mpi.configuration_space import CatalogueSpace
from colltune.mpi.file_format import Format, Written, absolute_path, refuse_dropped
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.release import MpiLibrary, UserPatterns
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Call,
    Entry,
    Fault,
    Finding,
    Numbers,
    Outcome,
    Rule,
    Rules,
    ranged,
)
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


class _Conf(Rules):
    """What a release makes of a file; see `colltune.mpi.rules.Rules`.

    ``lines`` have the numbers, variables and values of the lines up to one that ends the job.
    """

    format = "mvapich2-conf"

    def __init__(self, space: CatalogueSpace, text: str, source: str, release: str) -> None:
        self.space, self.source, self.release = space, source, release
        self.lines: list[tuple[int, str, str]] = []
        self.fatal: tuple[int, str] | None = None
        for number, line in enumerate(text.split("\n"), 1):
            bare = line.strip(_BLANKS)
            variable, _, value = (part.strip(_BLANKS) for part in bare.partition("="))
            if len(line.encode("utf-8", "surrogateescape")) > _BUFSIZ - 2:
                self.fatal = number, "the line is longer than MVAPICH2 reads"
            elif bare and not bare.startswith("#") and not (variable and value):
                self.fatal = number, "the line is not of the form PARAMETER = VALUE"
            if self.fatal:
                self.ends_program = f"{source}:{number}: {self.fatal[1]}, which ends the job"
                break
            if bare and not bare.startswith("#"):
                self.lines.append((number, variable, value))
        first = {variable: (number, value) for number, variable, value in reversed(self.lines)}
        self.entries = {
            c: (Entry(c, first[v][0], 1, LARGEST_COMM_SIZE, self.rules_of(c, *first[v])),)
            for c, v in VARIABLES.items()
            if v in first
        }
        self.rules = tuple(rule for (entry,) in self.entries.values() for rule in entry.rules)

    def rules_of(self, collective: Collective, line: int, value: str) -> tuple[Rule, ...]:
        """Return the rules of a value; none if the library cannot read one of its parts."""
        words = [word.strip() for word in value.split(",")]
        if len(words) == 1 and (alone := re.match(r"\d{1,9}", value, re.ASCII)):
            return (self._rule(collective, line, value, alone[0], LARGEST_SIZE),)
        found: list[Rule] = []
        for word in words:
            part = _PART.search(word)
            if part is None or max(map(int, _numbers(part))) > _LARGEST_INT:
                return ()
            no_end = part[3] == "+" or len(found) == len(words) - 1
            last = LARGEST_SIZE if no_end else int(part[3])
            found.append(self._rule(collective, line, word, part[1], last))
        return tuple(found)

    def _rule(self, collective: Collective, line: int, text: str, number: str, last: int) -> Rule:
        algorithm = self.space.entry_of(collective).named(str(int(number)))
        chosen = algorithm and self.space.configuration(collective, algorithm, {})
        return Rule(line, text, collective, chosen or None, 0, last, Numbers(int(number)))

    def found(self) -> Iterator[Finding]:
        """Yield everything that is wrong."""
        if self.fatal:
            number, why = self.fatal
            what = f"{why}, and the job ends"
            yield Finding(number, Fault.ENDS_PROGRAM, what, "correct or remove it")
        seen = set()
        for number, variable, _ in self.lines:
            if variable in seen:
                what = "an earlier line sets the variable, and the first one holds"
                yield Finding(number, Fault.DEAD_RULE, what, "remove it")
            seen.add(variable)
        for (entry,) in self.entries.values():
            yield from self._found_in(entry)

    def _found_in(self, entry: Entry) -> Iterator[Finding]:
        at, reached = entry.line, 0
        if not entry.rules:
            what, mend = "MVAPICH2 cannot read the value", "write number:low-high,…,number:low-+"
            yield Finding(at, Fault.MALFORMED, what, mend)
        for rule in entry.rules:
            part = _PART.search(rule.text)
            if rule.configuration is None:
                what = f"there is no algorithm {rule.numbers.algorithm}; the first one runs instead"
                yield Finding(at, Fault.UNKNOWN, what, "colltune rules catalog mvapich2 lists them")
            if part and (reached < 0 or (part[3] != "+" and int(part[3]) < reached)):
                what = f"an earlier part reaches further than {rule.text[:40]}"
                yield Finding(at, Fault.DEAD_RULE, what, "sort the parts by size")
            elif part and int(part[2]) != reached:
                what = f"{rule.text[:40]} holds from {reached} bytes on: low ends are not read"
                yield Finding(at, Fault.MALFORMED, what, f"start with {reached}")
            reached = max(reached, int(part[3]) + 1) if part and part[3] != "+" else -1
        if reached > 0:
            what = f"messages from {reached} bytes on get the last part, too"
            yield Finding(at, Fault.INHERITED, what, "end with +")

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what runs: a variable of the job goes before one of the file."""
        default, rule = Configuration.default(NAME, call.collective), self.rule_for(call)
        said = self.meant(rule) or default
        variable = VARIABLES.get(call.collective, "")
        if environment is not None:
            ignored = re.match(r"\s*[-+]?0*[1-9]", environment.get(IGNORE_FILE, ""))
            if not environment.get(USER_FILE) or ignored:
                return Outcome(default, None, ("the job does not read the file",), said)
        if self.ends_program:
            why = self.ends_program
            return Outcome(default, None, (why,), said, ends_program=why)
        if environment is not None and variable in environment:
            users = self.rules_of(call.collective, 0, environment[variable])
            theirs = next((one for one in users if one.takes(call.msize_bytes)), None)
            why = f"the job sets {variable}"
            return Outcome(self.meant(theirs) or default, rule, (why,), said)
        why = f"line {rule.line} chooses" if rule else "no line chooses: the library decides"
        return Outcome(said, rule, (why,), said)

    def meant(self, rule: Rule | None) -> Configuration | None:
        """Return what runs for a rule: the first algorithm where there is none of its number."""
        if rule is None or rule.configuration:
            return rule and rule.configuration
        first = self.space.entry_of(rule.collective).algorithms[0]
        return self.space.configuration(rule.collective, first, {})


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

    def parse(self, text: str, source: str, release: str) -> _Conf:
        """Return what `release` makes of a file."""
        return _Conf(self._mpi.at(release).space, text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        """Return everything that is wrong, by line."""
        assert isinstance(parsed, _Conf)
        return tuple(sorted(parsed.found()))

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return the choices for the largest communicator of each collective."""
        chooser = Chooser(self._mpi.at(release), "", Promises(programs))
        check_library(table, chooser.bound)
        largest = dict(sorted(table.rules))
        entries = (chooser.entry(c, size, table.rules[c, size]) for c, size in largest.items())
        chosen = {entry.collective: entry.rules for entry in entries if entry.chooses}
        written = self._written(release, chosen, chooser.notes)
        remarks = self.remarks if table.rules else ()
        return replace(written, notes=(*written.notes, *remarks))

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return the same choices; other variables are not kept."""
        if not isinstance(parsed, _Conf):
            raise LibraryError(f"{parsed.source}: {parsed.format} is no format of MVAPICH2")
        refuse_dropped(parsed, parsed.ends_program)
        kept = {VARIABLES[rule.collective] for rule in parsed.rules}
        notes = [
            f"line {number}: {variable[:60]!r} is not kept"
            for number, variable, _ in parsed.lines
            if variable not in kept
        ]
        chosen = {}
        for collective, (entry,) in parsed.entries.items():
            pieces = ranged([(rule.first, rule.last) for rule in entry.rules])
            chosen[collective] = [
                entry.rules[piece.owner]._replace(
                    configuration=parsed.meant(entry.rules[piece.owner]), first=piece.first
                )
                for piece in pieces
                if piece.owner is not None
            ]
        return self._written(release, chosen, notes)

    def _written(
        self, release: str, chosen: Mapping[Collective, Sequence[Rule]], notes: list[str]
    ) -> Written:
        space, lines = self._mpi.at(release).space, []
        for collective, rules in sorted(chosen.items()):
            named = [rule.configuration for rule in rules if rule.configuration]
            firsts = [rule.first for rule in rules]
            if any(configuration.is_default for configuration in named):
                why = "a list cannot leave some sizes to the library"
            elif max(firsts, default=0) > _LARGEST_INT:
                why = "sizes from 2 GiB on cannot be told apart"
            else:
                numbers = [space.algorithm_of(configuration).value for configuration in named]
                lasts = [*(str(first - 1) for first in firsts[1:]), "+"]
                parts = [f"{n}:{f}-{e}" for n, f, e in zip(numbers, firsts, lasts, strict=False)]
                value = ",".join(parts) if len(parts) > 1 else "".join(numbers)
                lines += [f"{VARIABLES[collective]} = {value}\n"] if value else []
                continue
            notes.append(f"{collective}: {why}; left to the library")
        return Written(self.name, release, {"": _HEADER + "".join(lines)}, tuple(notes))

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variable that names the file."""
        return {USER_FILE: absolute_path(paths[""], "a configuration file")}
