"""What an Open MPI release runs for a call: variables, a rules file and coll/han's file together.

The order in which the library goes: which component owns the collective on the communicator
(`components`); if that is coll/han, whether it hands the call on (`han_calls`); in coll/tuned the
forced algorithm and the rules file, of which 4.1 asks the file first and later releases the forced
one; then whether that algorithm runs as itself (`tuned`); at last the built-in decision
(``coll_tuned_decision_dynamic.c``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import CollectiveEntry
from colltune.mpi.openmpi.decide import han_calls
from colltune.mpi.openmpi.decide.components import BASIC, HAN, TUNED, Owner, owner
from colltune.mpi.openmpi.decide.han_calls import HanLevel, HanMatch
from colltune.mpi.openmpi.decide.tuned import (
    IN_PLACE_FORGOTTEN,
    NO_SIZE,
    configuration_of,
    forced_numbers,
    returns_at_once,
    running,
)
from colltune.mpi.openmpi.mca import (
    HAN_RULES_FILE,
    RULES_FILE,
    USE_HAN_RULES,
    USE_RULES,
    Variables,
    forcing_name,
)
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.rules import Call, Numbers, Outcome, Rule, Rules
from colltune.text import counted


class HanRules(Rules):
    """A parsed rules file of coll/han."""

    @abstractmethod
    def match_at(
        self, collective: Collective, level: HanLevel, comm_size: int, msize_bytes: int
    ) -> HanMatch | None:
        """Return the rule for a call on a communicator of that level; None if there is none."""


def decide(
    release: str,
    call: Call,
    environment: Mapping[str, str],
    tuned: Rules | None = None,
    han: HanRules | None = None,
) -> Outcome:
    """Return what `release` runs for `call` in a job with `environment`.

    `environment` holds ``OMPI_MCA_`` variables as the library sees them at last, those of parameter
    files included. `tuned` and `han` are the files that it names; a file is in effect only where
    its variables say so. ``Outcome.rule`` is the rule that a file has for the call, also where it
    has no say, and ``Outcome.chosen`` what it says.
    """
    return _Deciding(release, Variables(environment), tuned, han).outcome(call)


def decide_without(
    release: str,
    call: Call,
    environment: Mapping[str, str],
    variables: tuple[str, str],
    why: str,
    *,
    ends: bool,
) -> Outcome:
    """Return what runs where a file is dropped, or `ends` programs, for the reason `why`.

    `variables` are those that switch files of its kind on, and name it.
    """
    outcome = decide(release, call, environment)
    told, (switch, name) = Variables(environment), variables
    if not told.flag(switch, False) or not told.text(name):
        return outcome
    return replace(
        outcome,
        rule=None,
        chosen=Configuration.default(LIBRARY, call.collective),
        reasons=(f"{why}.", *outcome.reasons),
        ends_program=why if ends else outcome.ends_program,
    )


@dataclass(frozen=True)
class _Said:
    """What coll/tuned is told for a call, by the rule and by forced variables."""

    numbers: Numbers
    rule: Rule | None
    chosen: Configuration
    reasons: tuple[str, ...]


class _Deciding:
    """One job's setup."""

    def __init__(
        self,
        release: str,
        variables: Variables,
        tuned: Rules | None,
        han: HanRules | None,
    ) -> None:
        self.release, self.catalogue = release, catalogue_of(release)
        self.variables = variables
        self.dynamic = variables.flag(USE_RULES, False)
        self.tuned = tuned if self.dynamic and variables.text(RULES_FILE) else None
        by_han = variables.flag(USE_HAN_RULES, False) and variables.text(HAN_RULES_FILE)
        self.han = han if by_han else None

    def outcome(self, call: Call, *, inner: bool = False) -> Outcome:
        """Return what runs for `call`; coll/han keeps off its `inner` communicators."""
        default = Configuration.default(LIBRARY, call.collective)
        if call.collective not in self.catalogue.collectives:
            why = f"coll/tuned of Open MPI {self.release} has no algorithms for {call.collective}."
            return Outcome(default, None, (why,), default, "basic")
        # coll/tuned keeps off communicators of one process
        said = self._said(call) if call.comm_size > 1 else _Said(Numbers(0), None, default, ())
        dynamic = said.rule is not None or bool(said.numbers.algorithm)
        placed = replace(call, nodes=1) if inner else call
        who = owner(self.catalogue, self.variables, placed, dynamic=dynamic)
        if not who.name:
            return Outcome(default, said.rule, (who.reason,), said.chosen, "", who.reason)
        if returns_at_once(call):
            told = None
            if who.name == TUNED:
                told = configuration_of(self.catalogue.collectives[call.collective], said.numbers)
            reasons = (who.reason, *said.reasons, "A call without any data returns before that.")
            return Outcome(
                told or default, said.rule, reasons, said.chosen, who.name, returns_at_once=True
            )
        if who.name == TUNED:
            return self._by_tuned(call, said, (who.reason,))
        if who.name == HAN:
            return self._by_han(call, said, who)
        reasons = (who.reason, *_unheard(said, who.name))
        ends = ""
        if who.name == BASIC and call.collective is Collective.EXSCAN and call.comm_size == 1:
            ends = (
                "coll/basic sends an exscan of one process to a process that does not exist, and "
                "crashes"
            )
        return Outcome(default, said.rule, reasons, said.chosen, who.name, ends)

    def _by_tuned(self, call: Call, said: _Said, before: tuple[str, ...]) -> Outcome:
        entry = self.catalogue.collectives[call.collective]
        reasons = (*before, *said.reasons)
        told = configuration_of(entry, said.numbers)
        if told is None:
            why = (
                f"Open MPI {self.release} has no {call.collective} algorithm"
                f" {said.numbers.algorithm}; the first such call ends the program"
            )
            default = Configuration.default(LIBRARY, call.collective)
            return Outcome(default, said.rule, (*reasons, f"{why}."), said.chosen, TUNED, why)
        runs = running(entry, told, call)
        reasons = (*reasons, *runs.reasons)
        if not runs.ends_program:
            reasons = (*reasons, f"Therefore {_named(runs.configuration)} runs.")
        return Outcome(
            runs.configuration, said.rule, reasons, said.chosen, TUNED, runs.ends_program
        )

    def _by_han(self, call: Call, said: _Said, who: Owner) -> Outcome:
        match = None
        if self.han is not None:
            size = 0 if call.collective in NO_SIZE else call.msize_bytes
            level = HanLevel.GLOBAL_COMMUNICATOR
            match = self.han.match_at(call.collective, level, call.comm_size, size)
        plan = han_calls.plan(self.catalogue.series, self.variables, match, call)
        reasons = (who.reason, *plan.reasons)
        if plan.component == TUNED and not plan.ends_program:
            return replace(self._by_tuned(call, said, reasons), handed_on=plan.handed_on)
        default = Configuration.default(LIBRARY, call.collective)
        inner = tuple((part, self.outcome(part, inner=True)) for part in plan.inner)
        rule, chosen = said.rule, said.chosen
        if plan.rule is not None:
            # coll/han's rules send the call here, and coll/tuned's are meant for the others
            rule, chosen = plan.rule, default
        reasons = (*reasons, *_unheard(said, plan.component))
        return Outcome(default, rule, reasons, chosen, plan.component, plan.ends_program, inner)

    def _said(self, call: Call) -> _Said:
        """Return what file and forced variables say, in the release's order."""
        entry = self.catalogue.collectives[call.collective]
        forced = forced_numbers(entry, self.variables) if self.dynamic else Numbers(0)
        forcing = self.variables.shown(forcing_name(call.collective))
        said = _Said(Numbers(0), None, Configuration.default(LIBRARY, call.collective), ())
        match = self.tuned.match(call) if self.tuned is not None else None
        if match is not None:
            said = self._of_file(entry, call, *match)
        if forced.algorithm and not (self._file_first and said.numbers.algorithm):
            if match is None:
                why = f"{forcing} forces the algorithm."
            elif not match[0].numbers.algorithm:
                why = f"The rule leaves the decision open, so {forcing} decides."
            else:
                why = f"{forcing} has priority over the rules file in this release."
            return replace(said, numbers=forced, reasons=(*said.reasons, why))
        if not said.numbers.algorithm:
            return replace(said, reasons=(*said.reasons, self._left(call, said)))
        if forced.algorithm:
            beaten = f"The rule has priority over {forcing} in this release."
            return replace(said, reasons=(*said.reasons, beaten))
        return said

    @property
    def _file_first(self) -> bool:
        return self.catalogue.series.startswith("4.")

    def _of_file(self, entry: CollectiveEntry, call: Call, rule: Rule, reason: str) -> _Said:
        numbers = rule.numbers
        if numbers.requests is None:
            # that of alltoall is the limit of all rules without one, of whichever collective
            limit = self.variables.integer("coll_tuned_alltoall_algorithm_max_requests", 0)
            numbers = numbers._replace(requests=limit)
        if call.in_place and call.collective in IN_PLACE_FORGOTTEN:
            reason = f"{reason} {_ignored(call)}"
        default = Configuration.default(LIBRARY, call.collective)
        chosen = configuration_of(entry, numbers) or default
        return _Said(numbers, rule, chosen, (reason,))

    def _left(self, call: Call, said: _Said) -> str:
        """Return why coll/tuned's built-in decision holds."""
        built_in = "the library's built-in decision applies"
        if said.rule is not None:
            return f"The rule leaves the decision to the library: {built_in}."
        if self.tuned is not None and self.tuned.dropped:
            why = f"Open MPI {self.release} drops {self.tuned.source} as a whole"
            return f"{why} ({self.tuned.dropped}): {built_in}."
        if self.tuned is not None:
            return f"{self.tuned.source} has no rule for {call.collective} there: {built_in}."
        if not self.dynamic and self.variables.text(RULES_FILE):
            return f"{USE_RULES} is not set, so no rules file is read: {built_in}."
        return f"No rules are in effect: {built_in}."


def _unheard(said: _Said, component: str) -> tuple[str, ...]:
    if said.rule is None and not said.numbers.algorithm:
        return ()
    what = "rule" if said.rule is not None else "forced algorithm"
    return (*said.reasons, f"coll/{component} does not ask coll/tuned for that {what}.")


def _ignored(call: Call) -> str:
    """Return how the size of an in-place call came about."""
    why = "The library takes the size from the send arguments, which MPI ignores with MPI_IN_PLACE"
    if call.ignored_send_bytes is None:
        return (
            f"{why}: they are assumed to be empty, as usual. If the program passes others, "
            "another rule may hold (explain --ignored-send-bytes)."
        )
    return f"{why}: they describe {counted(call.ignored_send_bytes, 'byte')} per process."


def _named(configuration: Configuration) -> str:
    if configuration.is_default:
        return "the library's own choice"
    values = " and ".join(f"{name} {value}" for name, value in configuration.parameters)
    return f"{configuration.algorithm} with {values}" if values else configuration.algorithm
