"""A small format for tests: one choice per collective, put into effect by Open MPI's variables.

A file is ``fake`` and then lines such as ``bcast binomial:segsize=0``; ``default`` leaves the
decision to the library, ``dead`` stands for a rule that is never reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.file_format import Written
from colltune.mpi.openmpi.decide import decide
from colltune.mpi.programs import ANY_LEGAL, Programs
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules

OPENMPI = library("openmpi")


@dataclass(frozen=True)
class FakeFile(Rules):
    """A parsed file; ``least`` is the smallest communicator that its rules serve."""

    release: str
    source: str
    rules: tuple[Rule, ...]
    dropped: str = ""
    least: int = 2
    format: str = "fake"

    def activation(self) -> dict[str, str]:
        """Return the variables that force what the rules say."""
        forced: dict[str, str] = {}
        for rule in self.rules:
            if rule.configuration is not None:
                forced |= OPENMPI.at(self.release).forced_environment(rule.configuration)
        return forced

    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what Open MPI runs, with the rule of the collective."""
        if environment is None:
            environment = self.activation()
        outcome = decide(self.release, call, environment)
        rule = next(
            (r for r in self.rules if r.collective is call.collective and r.configuration), None
        )
        if rule is None or rule.configuration is None or call.comm_size < self.least:
            return outcome
        return replace(outcome, rule=rule, chosen=rule.configuration)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return the least size."""
        return (self.least,)

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        """Return a single range."""
        return (0,)


def dead_rules(parsed: Rules) -> tuple[Finding, ...]:
    """Return a finding for each rule without a configuration."""
    return tuple(
        Finding(rule.line, Fault.DEAD_RULE, "nothing reaches it", "remove it")
        for rule in parsed.rules
        if rule.configuration is None
    )


class FakeFormat:
    """See the module."""

    name = "fake"
    library = "openmpi"
    title = "fake files"
    single_algorithm = True
    knows_layout = False
    allows_partial_collective = True

    def recognises(self, text: str) -> bool:
        """Tell by the first word."""
        return text.startswith("fake")

    def unreadable_by(self, release: str) -> str:
        """Open MPI 4.1 does not read it."""
        return "it came with 5.0" if release.startswith("4.") else ""

    def lint(self, parsed: Rules) -> tuple[Finding, ...]:
        """Return a finding for each dead rule."""
        return dead_rules(parsed)

    def parse(self, text: str, source: str, release: str) -> Rules:
        """Read the lines."""
        head, *lines = text.splitlines()
        rules = []
        for number, line in enumerate(lines, start=2):
            collective, _, name = line.partition(" ")
            dead = name == "dead"
            configuration = None if dead else Configuration.parse(f"openmpi.{collective}.{name}")
            rules.append(Rule(number, line, Collective(collective), configuration))
        words = head.split()
        dropped = "its head says so" if "dropped" in words else ""
        least = int(words[-1]) if words[-1].isdigit() else 2
        return FakeFile(release, source, tuple(rules), dropped, least)

    def write(
        self, table: DecisionTable, release: str, *, programs: Programs = ANY_LEGAL
    ) -> Written:
        """Write nothing."""
        raise LibraryError("not written")

    def convert(self, parsed: Rules, release: str) -> Written:
        """Convert nothing."""
        raise LibraryError("not converted")

    def activation(
        self, release: str, paths: Mapping[str, str], job: Shape | None = None
    ) -> dict[str, str]:
        """Return the variables of the file's rules."""
        with open(paths[""], encoding="utf-8") as stream:  # noqa: PTH123
            parsed = self.parse(stream.read(), paths[""], release)
        assert isinstance(parsed, FakeFile)
        return parsed.activation()
