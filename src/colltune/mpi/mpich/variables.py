"""The format ``mpich-cvars``: a list of variables, one algorithm per collective for every call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError, say
from colltune.mpi.file_format import Format, Listed, Written, absolute_path, text_at
from colltune.mpi.job_files import read_script
from colltune.mpi.job_variables import mentions, script_findings
from colltune.mpi.mpich.environment import ABORTS_INSIDE, FALLBACK, Forced, JobVariables, bare
from colltune.mpi.mpich.functions import LEAST_CHUNK, Functions, function_of, functions_of
from colltune.mpi.mpich.library import LIBRARY, MPICH, PREFIXES, TITLE
from colltune.mpi.mpich.tree import Leaf, as_c_int, brief, leaves
from colltune.mpi.mpich.tree_file import ParsedTree
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED, Programs
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules, harm_findings
from colltune.mpi.running import Promises
from colltune.mpi.shell import Script

NAME = "mpich-cvars"
NAMED = re.compile(r"(?:MPIR_CVAR|MPIR_PARAM|MPICH)_[A-Z0-9_]+\Z")
_LONGEST = 200
_SWITCHES = ("1", "yes", "true", "on", "0", "no", "false", "off")


class _Values(NamedTuple):
    """What values a kind of variable takes; MPICH ends where it finds others."""

    pattern: re.Pattern[str]
    mend: str


_VALUES = {
    "number": _Values(re.compile(r"\s*[+-]?[0-9]*"), "write a number, without a unit"),
    "switch": _Values(
        re.compile("|".join((*_SWITCHES, *map(str.upper, _SWITCHES)))),
        "write 1 or 0",
    ),
    "range": _Values(re.compile(r"\s*[0-9]*(:[0-9]*)?"), "write two numbers: 50000:50100"),
}
_THRESHOLD = re.compile(r"[A-Z_]+_(?:SHORT|LONG|MEDIUM)_MSG_SIZE|[A-Z_]+_MIN_PROCS")
_HIERARCHICAL = frozenset({"bcast", "reduce", "allreduce", "barrier", "scan"})
_NEAR = 0.85
_FEW_WORDS = 2


@dataclass(frozen=True)
class Assignment:
    """One line that sets a variable of MPICH."""

    line: int
    name: str
    value: str

    @property
    def bare(self) -> str:
        return bare(self.name)

    @property
    def text(self) -> str:
        return f"{self.name}={self.value}"

    @property
    def collective(self) -> Collective | None:
        """The collective for which the variable chooses an algorithm."""
        name = self.bare.removesuffix("_INTRA_ALGORITHM").lower()
        return Collective(name) if name != self.bare.lower() and name in list(Collective) else None


@dataclass(frozen=True, eq=False)
class ParsedVariables(Rules):
    """A list of variables: MPICH takes each by itself, or ends with it.

    ``script`` is what they stand in, with the variables of others.
    """

    source: str
    release: str
    assignments: tuple[Assignment, ...]
    script: Script

    format = NAME
    dropped = ""

    @cached_property
    def functions(self) -> Functions:
        return functions_of(self.release)

    @cached_property
    def variables(self) -> JobVariables:
        environment = {found.name: found.value for found in self.assignments}
        return JobVariables(self.functions, environment)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        found = []
        for assignment in self.assignments:
            collective = assignment.collective
            if collective is not None:
                chosen = self.variables.forced(collective)
                configuration = chosen.configuration if chosen else _default(collective)
                found.append(Rule(assignment.line, assignment.text, collective, configuration))
        return tuple(found)

    def choices(self, notes: list[str]) -> Iterator[tuple[Configuration, int]]:
        """Yield what the list chooses, with lines; `notes` gets what only MPICH could keep."""
        kept: set[str] = set()
        for rule in self.rules:
            chosen = self.variables.forced(rule.collective)
            if chosen is None:
                continue
            if chosen.configuration is None:
                notes.append(f"line {rule.line}: {rule.text} cannot be converted")
                continue
            own = f"{rule.collective.upper()}_"
            used = [n for n, _ in self.functions.parameters_of(rule.collective)]
            kept |= {f"{own}INTRA_ALGORITHM", f"{own}DEVICE_COLLECTIVE", *used}
            yield chosen.configuration, rule.line
        left = (a for a in self.assignments if a.bare not in kept)
        notes.extend(f"line {a.line}: {a.text} is not converted" for a in left)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`.

        A variable of `environment` goes before one of the list: that is what a job makes of a list
        that is exported first.
        """
        job = JobVariables(self.functions, {**self.variables.environment, **(environment or {})})
        default = _default(call.collective)
        listed = self.variables.forced(call.collective)
        said = (listed.configuration if listed else None) or default
        if error := job.unknown_choice():
            return Outcome(default, None, (error,), said, ends_program=error)
        chosen = job.forced(call.collective)
        if chosen is None:
            why = f"No variable chooses for {call.collective}: {TITLE} decides by itself."
            return Outcome(default, None, (why,), said)
        rule = next((r for r in self.rules if r.collective is call.collective), None)
        return self._of_variable(call, job, chosen, rule, said)

    def _of_variable(
        self, call: Call, job: JobVariables, chosen: Forced, rule: Rule | None, said: Configuration
    ) -> Outcome:
        """Return what runs where a variable chooses."""
        default = _default(call.collective)
        if device := job.device_goes_first(call):
            why = (
                f"The device decides first: ch4 {device} uses {chosen.text} within its parts only."
            )
            return Outcome(default, rule, (why,), said, f"ch4 {device}")
        why = job.why_unusable(chosen.function, call)
        if not why:
            found = chosen.configuration or default
            runs = self.functions.running_as(found, call.comm_size, call.msize_bytes)
            reasons = [f"{chosen.text} is set."]
            if runs != found:
                reasons.append(f"{found.id} runs as {runs.id}, because there is only one segment.")
            ends = chosen.ends_inside(call)
            return Outcome(runs, rule, tuple(reasons), said, ends_program=ends)
        ends = f"{chosen.text} cannot run ({why})"
        if job.fallback == "error":
            ends += f", and {FALLBACK}=error"
            return Outcome(default, rule, (ends,), said, ends_program=ends)
        said_so = " and says so" if job.fallback == "print" else ""
        return Outcome(default, rule, (f"{ends}: {TITLE} decides by itself{said_so}.",), said)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return 1: a choice holds for every communicator."""
        return (1,) if any(rule.collective is collective for rule in self.rules) else ()

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        """Return 0, and from which size on an algorithm has elements enough."""
        chosen = self.variables.forced(collective)
        needs = self.functions.needs.get(chosen.function, ()) if chosen else ()
        if "size-ge-pof2" in needs and comm_size > 1:
            return (0, 1 << (comm_size.bit_length() - 1))
        return (0,)


def parse(text: str, source: str, release: str) -> ParsedVariables:
    """Return the variables of MPICH that a job script, or a list, sets."""
    MPICH.catalogue_of(release)
    script = read_script(text)
    assignments = [
        Assignment(each.line, each.name, each.value[:_LONGEST])
        for each in script.known
        if NAMED.match(each.name)
    ]
    if not script.sets and script.others:
        raise say("no-variables", file=source)
    return ParsedVariables(source, release, tuple(assignments), script)


def _default(collective: Collective) -> Configuration:
    return Configuration.default(LIBRARY, collective)


def lint(parsed: ParsedVariables) -> tuple[Finding, ...]:
    return tuple(sorted(set(_findings(parsed))))


def _findings(parsed: ParsedVariables) -> Iterator[Finding]:
    yield from script_findings(parsed.script, lambda name: NAMED.match(name) is not None)
    for each in parsed.script.found:
        if each.name.upper().startswith("MPI") and not NAMED.match(each.name):
            likely = _likely(parsed.functions, each.name)
            if likely:
                yield _unknown(each.line, each.name, likely)
    last: dict[str, Assignment] = {}
    for assignment in parsed.assignments:
        yield from _on_one(parsed, assignment)
        before = last.get(assignment.bare)
        if before is not None and before.name != assignment.name:
            yield _twice(before, assignment)
        last[assignment.bare] = assignment


def _twice(before: Assignment, after: Assignment) -> Finding:
    prefixes = [PREFIXES.index(_prefix(each.name)) for each in (before, after)]
    loser, winner = (before, after) if prefixes[1] < prefixes[0] else (after, before)
    what = f"{winner.name} on line {winner.line} has priority over {loser.name}"
    return _finding(loser.line, Fault.OVERRIDDEN, what, "remove one of them")


def _prefix(name: str) -> str:
    return next(prefix for prefix in PREFIXES if name.startswith(prefix))


def _unknown(line: int, name: str, likely: str) -> Finding:
    what = f"{TITLE} has no variable {name}, and ignores it"
    return _finding(line, Fault.UNKNOWN, what, f"write {likely}" if likely else "correct its name")


def _likely(functions: Functions, name: str) -> str:
    """Return the variable that was probably meant; empty if none is near."""
    prefix = next((p for p in PREFIXES if name.upper().startswith(p)), "MPIR_CVAR_")
    words = set(name.upper().removeprefix(prefix).split("_"))
    near = min(functions.variables, key=lambda bare: len(words ^ set(bare.split("_"))))
    if len(words ^ set(near.split("_"))) < _FEW_WORDS and len(words) > _FEW_WORDS:
        return f"{prefix}{near}"
    names = [f"{prefix}{bare}" for bare in functions.variables]
    return next(iter(get_close_matches(name.upper(), names, 1, _NEAR)), "")


def _on_one(parsed: ParsedVariables, assignment: Assignment) -> Iterator[Finding]:
    if assignment.bare not in parsed.functions.variables:
        likely = _likely(parsed.functions, assignment.name)
        # others than MPICH read variables with this prefix
        if likely or not assignment.name.startswith("MPICH_"):
            yield _unknown(assignment.line, assignment.name, likely)
        else:
            what = f"{assignment.name} is a variable of HPE Cray MPICH, which {TITLE} ignores"
            mend = "see the page on derivatives for what is known of it"
            yield Finding(assignment.line, Fault.REMARK, what, mend)
        return
    kind, _, words = parsed.functions.variables[assignment.bare].partition(":")
    collective = assignment.collective
    if kind in _VALUES and not _VALUES[kind].pattern.fullmatch(assignment.value):
        what = f"{assignment.text}: this is no {kind}, and {TITLE} ends in MPI_Init"
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, _VALUES[kind].mend)
    elif words:
        if assignment.value not in words.split(","):
            known = words.replace(",", ", ")
            what = f"{assignment.text}: {TITLE} knows {known}, and otherwise ends in MPI_Init"
            yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "use one of them")
    elif collective is not None:
        yield from _on_choice(parsed, assignment, collective)
    elif assignment.bare.endswith("_ALGORITHM"):
        yield from _on_other_choice(parsed, assignment)
    elif _THRESHOLD.fullmatch(assignment.bare):
        what = f"{assignment.name}: thresholds do not affect blocking collectives"
        yield _finding(
            assignment.line, Fault.NO_EFFECT, what, "write a selection file (mpich-json)"
        )
    else:
        yield from _on_parameter(parsed, assignment)


def _on_choice(
    parsed: ParsedVariables, assignment: Assignment, collective: Collective
) -> Iterator[Finding]:
    variables = parsed.variables
    job = {**variables.environment, assignment.name: assignment.value}
    chosen = replace(variables, environment=job).forced(collective)
    if chosen is None:
        return
    if chosen.error:
        known = _known(parsed.functions, collective)
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, chosen.error, f"name one of {known}")
        return
    device, (_, flat) = variables.device_is_asked(collective), variables.composition(collective)
    if collective in _HIERARCHICAL and device and not flat:
        what = f"the device splits {collective} by nodes first; this holds for its parts only"
        mend = f"add MPIR_CVAR_{collective.upper()}_DEVICE_COLLECTIVE=0"
        yield _finding(assignment.line, Fault.OUTRANKED, what, mend)
    if chosen.function == ABORTS_INSIDE:
        what = (
            f"{assignment.text} aborts unless all blocks are equal and the number of processes is "
            "a power of two"
        )
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "name recursive_doubling")
        return
    if chosen.configuration is not None:
        harms = parsed.functions.space.harms(chosen.configuration)
        yield from harm_findings(assignment.line, assignment.text, harms)
    needs = parsed.functions.needs.get(chosen.function, ())
    if needs and variables.fallback == "error":
        what = (
            f"{assignment.text} needs {', '.join(needs)}, and with {FALLBACK}=error other calls "
            "end the program"
        )
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, f"write {FALLBACK}=print")
    elif needs:
        what = f"{assignment.text} needs {', '.join(needs)}; other calls are left to {TITLE}"
        mend = "nothing, if you mean that"
        yield Finding(assignment.line, Fault.NOT_EVERYWHERE, what, mend)


def _known(functions: Functions, collective: Collective) -> str:
    names = functions.by_collective[collective]
    words = [name.partition("_intra_")[2] for name in names if "_intra_" in name]
    return ", ".join(["auto", "nb", *words])


def _on_other_choice(parsed: ParsedVariables, assignment: Assignment) -> Iterator[Finding]:
    """Tell of choices for collectives that are none of ours, and between groups of processes."""
    name, _, kind = assignment.bare.removesuffix("_ALGORITHM").rpartition("_")
    of = parsed.functions.by_collective.get(name.lower())
    if of is None or kind not in ("INTRA", "INTER"):
        return
    middle = f"_{kind.lower()}_"
    words = {n.partition(middle)[2] for n in of} | {n.partition("_allcomm_")[2] for n in of}
    words |= {"auto", "sched_auto"} if name.startswith("I") else {"auto", "nb"}
    if assignment.value not in words - {""}:
        what = f"{assignment.text}: {TITLE} has no such algorithm and ends in MPI_Init"
        yield _finding(assignment.line, Fault.ENDS_PROGRAM, what, "name an algorithm that it has")


def _on_parameter(parsed: ParsedVariables, assignment: Assignment) -> Iterator[Finding]:
    for collective in Collective:
        users = [a for n, a in parsed.functions.parameters_of(collective) if n == assignment.bare]
        if not users:
            continue
        if assignment.bare.endswith("_KVAL") and as_c_int(assignment.value) < 1 + (
            not assignment.bare.endswith("_TREE_KVAL")
        ):
            what = f"{assignment.text}: a radix below 2 never ends"
            yield _finding(assignment.line, Fault.HANGS, what, "write 2 or more")
        if assignment.bare.endswith("_CHUNK_SIZE") and 0 < as_c_int(assignment.value) < LEAST_CHUNK:
            what = f"{assignment.text}: every few elements become a message"
            yield _finding(
                assignment.line, Fault.WRONG_UNIT, what, "write bytes, for example 65536"
            )
        chosen = parsed.variables.forced(collective)
        names = {function_of(collective, user) for user in users}
        if chosen is not None and not chosen.error and chosen.function not in names:
            what = f"{assignment.name} has no effect on {chosen.value}"
            yield _finding(assignment.line, Fault.NO_EFFECT, what, "remove it")
        return


def _finding(line: int, fault: Fault, message: str, mend: str) -> Finding:
    return Finding(line, fault, brief(message), brief(mend))


_EMPTY = "# MPICH decides by itself: MPIR_CVAR_COLLECTIVE_FALLBACK=silent is its default\n"


class MpichVariables(Format):
    name = NAME
    library = LIBRARY
    title = "MPICH's control variables"
    single_algorithm = True
    lists_variables = True

    def recognises(self, text: str) -> bool:
        """Tell whether a line sets one of MPICH's variables; an empty list has one of ours."""
        ours = "(?:MPIR_CVAR|MPIR_PARAM|MPICH)_"
        return text.replace("\r\n", "\n") == _EMPTY or mentions(text, ours)

    def parse(self, text: str, source: str, release: str) -> ParsedVariables:
        return parse(text, source, release)

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        assert isinstance(parsed, ParsedVariables)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Return the variables of the choices that are the same wherever a table chooses.

        The device's own collectives are switched off for these collectives, as when they are
        measured; where an algorithm cannot run, the library decides.
        """
        self.catalogue_of(release)
        if table.library != LIBRARY:
            raise say("table-not-writable", library=table.library, title=TITLE)
        notes: list[str] = []
        found = {}
        for collective, choices in _choices(table).items():
            if len(choices) > 1:
                what = "needs more than one variable; left to the library"
                notes.append(f"{collective}: {what}")
            elif why := _why_not(release, choices[0], table, programs):
                notes.append(f"{collective}: {why}; left to the library")
            else:
                found[collective] = choices[0]
        written = _written(release, found, notes)
        if written.text == _EMPTY:
            return written
        told = f"# Written by colltune for {programs.phrase}.\n"
        return replace(written, texts={"": told + written.text})

    def listed(self, parsed: Rules) -> tuple[Listed, ...]:
        """Return what only the job knows; all else is told where it is converted."""
        assert isinstance(parsed, ParsedVariables)
        return tuple(
            Listed(each.line, f"{each.name} (which depends on {each.unknown})")
            for each in parsed.script.found
            if each.unknown and NAMED.match(each.name)
        )

    def convert(self, parsed: Rules, release: str) -> Written:
        """Return the choices of a list or a tree, as far as each holds for all calls."""
        self.catalogue_of(release)
        notes: list[str] = []
        if isinstance(parsed, ParsedVariables):
            choices = dict.fromkeys(parsed.choices(notes))
        elif isinstance(parsed, ParsedTree):
            if parsed.reading.fatal:
                raise say("ends-the-program", file=parsed.source, fatal=parsed.reading.fatal)
            choices = dict.fromkeys(_everywhere(parsed, notes))
        else:
            raise say("not-a-format-of", file=parsed.source, format=parsed.format, title=TITLE)
        found = {}
        for configuration, line in choices:
            try:
                why = MPICH.at(release).harms(configuration).sentence(MOST_PROMISED)
            except LibraryError as error:
                why = str(error)
            if why:
                notes.append(f"line {line}: {why}; left to the library")
                continue
            found[configuration.collective] = configuration
        return _written(release, found, notes)

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return what the list sets: no variable names a list, so that all of it is exported.

        Where the list cannot be read, there is nothing to return.
        """
        for path in paths.values():
            absolute_path(path, "a list of variables")
        if (text := text_at(paths[""])) is None:
            return {}
        return dict(parse(text, paths[""], release).variables.environment)


def _choices(table: DecisionTable) -> dict[Collective, list[Configuration]]:
    found: dict[Collective, list[Configuration]] = {}
    for rules in (table.rules, table.by_layout):
        for (collective, _), intervals in rules.items():
            known = found.setdefault(collective, [])
            known += (i.configuration for i in intervals if i.configuration not in known)
    return found


def _why_not(
    release: str, configuration: Configuration, table: DecisionTable, programs: Programs
) -> str:
    """Return why a choice cannot be written for everything; empty if it can."""
    sizes = [size for c, size in table.rules if c is configuration.collective]
    found = MPICH.at(release).runs_at(configuration, sizes, Promises(programs))
    return next((runs.reason for runs in found if runs.refusal is not None), "")


def _everywhere(parsed: ParsedTree, notes: list[str]) -> Iterator[tuple[Configuration, int]]:
    """Yield what a tree chooses for all calls of a collective, with its line."""
    for collective in Collective:
        found: dict[Leaf, Leaf] = {}
        for path, leaf in leaves(parsed.tree):
            keys = {test.key for test in path}
            if f"collective={collective}" in keys and "comm_type=inter" not in keys:
                found.setdefault(leaf, leaf)
        if all(leaf.left_to_library for leaf in found.values()):
            continue
        first = next(leaf for leaf in found.values() if not leaf.left_to_library)
        configuration = parsed.named(collective, first)
        if len(found) > 1 or configuration is None:
            notes.append(
                f"line {first.line}: the decision for {collective} depends on the call; left "
                "to the library"
            )
            continue
        yield configuration, first.line


def _written(release: str, found: Mapping[Collective, Configuration], notes: list[str]) -> Written:
    lines = [
        f"{name}={value}\n"
        for collective in sorted(found)
        for name, value in sorted(MPICH.at(release).forced_environment(found[collective]).items())
    ]
    return Written(NAME, release, {"": "".join(lines) or _EMPTY}, tuple(notes))
