"""The format ``mpich-cvars``: a list of variables, one algorithm per collective for every call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import (
    Call,
    Finding,
    Format,
    Outcome,
    ParsedFile,
    Rule,
    Written,
    absolute_path,
)
from colltune.mpi.mpich.environment import FALLBACK, Forced, JobVariables, bare
from colltune.mpi.mpich.functions import Functions, functions_of
from colltune.mpi.mpich.library import LIBRARY, MPICH, TITLE
from colltune.mpi.mpich.tree import Leaf, leaves
from colltune.mpi.mpich.tree_file import ParsedTree

NAME = "mpich-cvars"
_LINE = re.compile(
    r"[ \t]*(?:export[ \t]+)?(?P<name>(?:MPIR_CVAR|MPIR_PARAM|MPICH)_[A-Z0-9_]+)[ \t]*="
    r"[ \t]*(?P<value>.*?)[ \t;]*"
)
_OTHER = re.compile(r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=.*")
_LONGEST = 200


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


def _plain(value: str) -> str:
    text = value.partition(" #")[0].strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return (text[1:-1] if quoted else text)[:_LONGEST]


@dataclass(frozen=True, eq=False)
class ParsedVariables:
    """A list of variables: MPICH takes each by itself, or ends with it.

    ``strange`` are the lines that set nothing, ``foreign`` those that set a variable of somebody
    else, with its name.
    """

    source: str
    release: str
    assignments: tuple[Assignment, ...]
    strange: tuple[int, ...] = ()
    foreign: tuple[tuple[int, str], ...] = ()

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
    def rules(self) -> tuple[Rule, ...]:
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
                notes.append(f"line {rule.line}: {rule.text} cannot be kept")
                continue
            own = f"{rule.collective.upper()}_"
            used = [n for n, _ in self.functions.parameters_of(rule.collective)]
            kept |= {f"{own}INTRA_ALGORITHM", f"{own}DEVICE_COLLECTIVE", *used}
            yield chosen.configuration, rule.line
        left = (a for a in self.assignments if a.bare not in kept)
        notes.extend(f"line {a.line}: {a.text} is not kept" for a in left)

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
                f"The device goes first: ch4 {device} asks for {chosen.text} within its parts only."
            )
            return Outcome(default, rule, (why,), said, f"ch4 {device}")
        why = job.why_unusable(chosen.function, call)
        if not why:
            found = chosen.configuration or default
            runs = self.functions.running_as(found, call.comm_size, call.msize_bytes)
            reasons = [f"{chosen.text} is set."]
            if runs != found:
                reasons.append(f"{found.id} runs as {runs.id}: there is one segment only.")
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
    """Return the variables that a list sets."""
    MPICH.catalogue_of(release)
    assignments, strange, foreign = [], [], []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        bare = line.lstrip("\ufeff") if number == 1 else line
        match = _LINE.fullmatch(bare)
        if match is not None:
            assignments.append(Assignment(number, match["name"], _plain(match["value"])))
        elif other := _OTHER.fullmatch(bare):
            foreign.append((number, other["name"]))
        elif bare.strip() and not bare.lstrip().startswith("#"):
            strange.append(number)
    if not assignments and (strange or foreign):
        raise LibraryError(f"{source}:1: sets no variable MPIR_CVAR_…=…; this is no list of them")
    return ParsedVariables(source, release, tuple(assignments), tuple(strange), tuple(foreign))


def _default(collective: Collective) -> Configuration:
    return Configuration.default(LIBRARY, collective)


_EMPTY = "# MPICH decides by itself: MPIR_CVAR_COLLECTIVE_FALLBACK=silent is its default\n"


class MpichVariables(Format):
    name = NAME
    library = LIBRARY
    title = "MPICH's control variables"
    single_algorithm = True

    def recognises(self, text: str) -> bool:
        """Tell whether a line sets one of MPICH's variables; an empty list has one of ours."""
        return text.replace("\r\n", "\n") == _EMPTY or any(
            _LINE.fullmatch(line) for line in text.lstrip("\ufeff").splitlines()
        )

    def parse(self, text: str, source: str, release: str) -> ParsedVariables:
        return parse(text, source, release)

    def lint(self, parsed: ParsedFile) -> tuple[Finding, ...]:
        # it needs what is parsed here
        from colltune.mpi.mpich.variables_lint import lint

        assert isinstance(parsed, ParsedVariables)
        return lint(parsed)

    def write(
        self, table: DecisionTable, release: str, *, builtin_operations_only: bool = False
    ) -> Written:
        """Return the variables of the choices that are the same wherever a table chooses.

        The device's own collectives are switched off for these collectives, as when they are
        measured; where an algorithm cannot run, the library decides.
        """
        self.catalogue_of(release)
        if table.library != LIBRARY:
            raise LibraryError(f"a table of {table.library} cannot be written for {TITLE}")
        notes: list[str] = []
        found = {}
        for collective, choices in _choices(table).items():
            if len(choices) > 1:
                what = "needs more than one choice; left to the library"
                notes.append(f"{collective}: {what}")
            elif why := _why_not(release, choices[0], table):
                notes.append(f"{collective}: {why}; left to the library")
            else:
                found[collective] = choices[0]
        return _written(release, found, notes)

    def convert(self, parsed: ParsedFile, release: str) -> Written:
        """Return the choices of a list or a tree, as far as each holds for all calls."""
        self.catalogue_of(release)
        notes: list[str] = []
        if isinstance(parsed, ParsedVariables):
            choices = dict.fromkeys(parsed.choices(notes))
        elif isinstance(parsed, ParsedTree):
            if parsed.reading.fatal:
                raise LibraryError(f"{parsed.source}: ends the program: {parsed.reading.fatal}")
            choices = dict.fromkeys(_everywhere(parsed, notes))
        else:
            raise LibraryError(f"{parsed.source}: {parsed.format} is no format of {TITLE}")
        found = {}
        for configuration, line in choices:
            try:
                MPICH.at(release).canonical(configuration)
            except LibraryError as error:
                notes.append(f"line {line}: {error}; left to the library")
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
        try:
            text = Path(paths[""]).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return {}
        return dict(parse(text, paths[""], release).variables.environment)


def _choices(table: DecisionTable) -> dict[Collective, list[Configuration]]:
    found: dict[Collective, list[Configuration]] = {}
    for rules in (table.rules, table.by_layout):
        for (collective, _), intervals in rules.items():
            known = found.setdefault(collective, [])
            known += (i.configuration for i in intervals if i.configuration not in known)
    return found


def _why_not(release: str, configuration: Configuration, table: DecisionTable) -> str:
    """Return why a choice cannot be written for everything; empty if it can."""
    space = MPICH.at(release).space
    try:
        spelled = space.canonical(configuration)
    except LibraryError as error:
        return str(error)
    unsafe = space.why_unsafe(spelled, builtin_operations_only=False)
    if unsafe:
        return unsafe
    sizes = [size for c, size in table.rules if c is spelled.collective]
    reasons = [space.running_range(spelled, size, 1) for size in sizes]
    return next((found.reason for found in reasons if found.first_bytes is None), "")


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
                f"line {first.line}: {collective} is not decided alike for all calls; left to the"
                " library"
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
