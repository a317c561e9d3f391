"""Lists of MPICH's environment variables: one algorithm per collective, for every call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm
from colltune.mpi.file_format import Call, Outcome, Rule
from colltune.mpi.mpich import environment as variables
from colltune.mpi.mpich.functions import functions_of, running_as
from colltune.mpi.mpich.releases import LIBRARY, TITLE, catalogue_of, entry_of

LINE = re.compile(
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
        return variables.bare(self.name)

    @property
    def text(self) -> str:
        return f"{self.name}={self.value}"


def _plain(value: str) -> str:
    text = value.partition(" #")[0].strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return (text[1:-1] if quoted else text)[:_LONGEST]


def chooses_for(bare: str) -> Collective | None:
    """Return the collective for which a variable chooses an algorithm."""
    name = bare.removesuffix("_INTRA_ALGORITHM").lower()
    return Collective(name) if name != bare.lower() and name in list(Collective) else None


def parameters_of(release: str, collective: Collective) -> Iterator[tuple[str, Algorithm]]:
    """Yield the bare names of variables that are parameters, with the algorithms that use them."""
    for algorithm in entry_of(release, collective).algorithms:
        for _, variable in algorithm.variables:
            yield f"{collective.upper()}_{variable}", algorithm
        for variable, _ in algorithm.settings:
            yield f"{collective.upper()}_{variable}", algorithm


NAME = "mpich-cvars"


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
    def environment(self) -> dict[str, str]:
        return {found.name: found.value for found in self.assignments}

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        found = []
        for assignment in self.assignments:
            collective = chooses_for(assignment.bare)
            if collective is not None:
                chosen = self.chosen(collective)
                configuration = chosen.configuration if chosen else _default(collective)
                found.append(Rule(assignment.line, assignment.text, collective, configuration))
        return tuple(found)

    def chosen(self, collective: Collective) -> variables.Forced | None:
        return variables.forced(self.release, collective, self.environment)

    def choices(self, notes: list[str]) -> Iterator[tuple[Configuration, int]]:
        """Yield what the list chooses, with lines; `notes` gets what only MPICH could keep."""
        kept: set[str] = set()
        for rule in self.rules:
            chosen = self.chosen(rule.collective)
            if chosen is None:
                continue
            if chosen.configuration is None:
                notes.append(f"line {rule.line}: {rule.text} cannot be kept")
                continue
            own = f"{rule.collective.upper()}_"
            used = [n for n, _ in parameters_of(self.release, rule.collective)]
            kept |= {f"{own}INTRA_ALGORITHM", f"{own}DEVICE_COLLECTIVE", *used}
            yield chosen.configuration, rule.line
        left = (a for a in self.assignments if a.bare not in kept)
        notes.extend(f"line {a.line}: {a.text} is not kept" for a in left)

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`.

        A variable of `environment` goes before one of the list: that is what a job makes of a list
        that is exported first.
        """
        job = self.environment | dict(environment or {})
        default = _default(call.collective)
        listed = self.chosen(call.collective)
        said = (listed.configuration if listed else None) or default
        error = variables.unknown_choice(self.release, job)
        if error:
            return Outcome(default, None, (error,), said, ends_program=error)
        chosen = variables.forced(self.release, call.collective, job)
        if chosen is None:
            why = f"No variable chooses for {call.collective}: {TITLE} decides by itself."
            return Outcome(default, None, (why,), said)
        rule = next((r for r in self.rules if r.collective is call.collective), None)
        return self.of_variable(call, job, chosen, rule, said)

    def of_variable(
        self,
        call: Call,
        job: Mapping[str, str],
        chosen: variables.Forced,
        rule: Rule | None,
        said: Configuration,
    ) -> Outcome:
        """Return what runs where a variable chooses."""
        default = _default(call.collective)
        text = f"{chosen.variable}={chosen.value}"
        device = variables.device_goes_first(self.release, call, job)
        if device:
            why = f"The device goes first: ch4 {device} asks for {text} within its parts only."
            return Outcome(default, rule, (why,), said, f"ch4 {device}")
        why = variables.why_unusable(self.release, chosen.function, call)
        if not why:
            ends = variables.ends_inside(chosen.function, call)
            found = chosen.configuration or default
            runs = running_as(self.release, found, call.comm_size, call.msize_bytes)
            reasons = [f"{text} is set."]
            if runs != found:
                reasons.append(f"{found.id} runs as {runs.id}: there is one segment only.")
            return Outcome(runs, rule, tuple(reasons), said, ends_program=ends)
        how = variables.fallback(job)
        ends = f"{text} cannot run ({why})"
        if how == "error":
            ends += f", and {variables.FALLBACK}=error"
            return Outcome(default, rule, (ends,), said, ends_program=ends)
        said_so = " and says so" if how == "print" else ""
        return Outcome(default, rule, (f"{ends}: {TITLE} decides by itself{said_so}.",), said)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return 1: a choice holds for every communicator."""
        return (1,) if any(rule.collective is collective for rule in self.rules) else ()

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        """Return 0, and from which size on an algorithm has elements enough."""
        chosen = self.chosen(collective)
        needs = functions_of(self.release).needs.get(chosen.function if chosen else "", ())
        if "size-ge-pof2" in needs and comm_size > 1:
            return (0, 1 << (comm_size.bit_length() - 1))
        return (0,)


def parse(text: str, source: str, release: str) -> ParsedVariables:
    """Return the variables that a list sets."""
    catalogue_of(release)
    assignments, strange, foreign = [], [], []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        bare = line.lstrip("\ufeff") if number == 1 else line
        match = LINE.fullmatch(bare)
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
