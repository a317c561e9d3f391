"""A list of MPICH's environment variables: one algorithm per collective, for every call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call, Finding, Outcome, Rule
from colltune.mpi.mpich import builtin
from colltune.mpi.mpich import environment as variables
from colltune.mpi.mpich.assignments import Listed, chooses_for, parameters_of
from colltune.mpi.mpich.facts import Facts, search
from colltune.mpi.mpich.functions import functions_of, running_as
from colltune.mpi.mpich.releases import LIBRARY, TITLE
from colltune.mpi.mpich.variables_findings import findings

NAME = "mpich-cvars"


@dataclass(frozen=True, eq=False)
class ParsedVariables:
    """A list of variables; see `colltune.mpi.file_format.ParsedFile`."""

    source: str
    listed: Listed

    format = NAME
    dropped = ""
    """MPICH takes every variable by itself, or ends with it."""

    @property
    def release(self) -> str:
        """For which release it was read."""
        return self.listed.release

    @property
    def environment(self) -> dict[str, str]:
        """What the list sets."""
        return self.listed.environment

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The lines that choose an algorithm."""
        found = []
        for assignment in self.listed.assignments:
            collective = chooses_for(assignment.bare)
            if collective is not None:
                chosen = self.chosen(collective)
                configuration = chosen.configuration if chosen else _default(collective)
                found.append(Rule(assignment.line, assignment.text, collective, configuration))
        return tuple(found)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return findings(self.listed)

    def chosen(self, collective: Collective) -> variables.Forced | None:
        """Return what the list chooses for a collective."""
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
        left = (a for a in self.listed.assignments if a.bare not in kept)
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
        for collective in Collective:
            chosen = variables.forced(self.release, collective, job)
            if chosen is not None and chosen.error:
                return Outcome(default, None, (chosen.error,), said, ends_program=chosen.error)
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
        component = self.component(call, job)
        if component:
            why = f"The device goes first: {component} asks for {text} within its parts only."
            return Outcome(default, rule, (why,), said, component)
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

    def component(self, call: Call, job: Mapping[str, str]) -> str:
        """Return which composition of the device goes first; empty if none."""
        if not variables.device_is_asked(call.collective, job):
            return ""
        number, flat = variables.composition(self.release, call.collective, job)
        if number:
            return "" if flat else f"ch4 composition {number}"
        own = builtin.compositions_of(self.release)[str(call.collective)]
        found = search(own, Facts(call), self.release)
        if found.leaf is None or builtin.is_flat(self.release, found.leaf.function):
            return ""
        return f"ch4 {found.leaf.function.removeprefix('MPIDI_')}"

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


def _default(collective: Collective) -> Configuration:
    return Configuration.default(LIBRARY, collective)
