"""What an Open MPI release runs for a call: variables, a rules file and coll/han's file together.

The order in which the library goes: which component owns the collective on the communicator
(`components`); if that is coll/han, whether it hands the call on (`han_parts`); in coll/tuned the
forced algorithm and the rules file, of which 4.1 asks the file first and later releases the forced
one; at last the built-in decision (``coll_tuned_decision_dynamic.c``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call, Outcome, Rule
from colltune.mpi.openmpi import activation, forced, han_parts
from colltune.mpi.openmpi.components import BASIC, HAN, TUNED, Owner, owner
from colltune.mpi.openmpi.releases import LIBRARY, catalogue_of
from colltune.mpi.openmpi.rules import (
    IN_PLACE_FORGOTTEN,
    HanLevel,
    HanMatch,
    HanRules,
    TunedMatch,
    TunedRules,
)
from colltune.mpi.openmpi.running import Numbers, configuration_of, returns_at_once, running
from colltune.mpi.openmpi.variables import Variables

USE_RULES = activation.USE_RULES
RULES_FILE = "coll_tuned_dynamic_rules_filename"
USE_HAN_RULES = "coll_han_use_dynamic_file_rules"
HAN_RULES_FILE = "coll_han_dynamic_rules_filename"


def decide(
    release: str,
    call: Call,
    environment: Mapping[str, str],
    tuned: TunedRules | None = None,
    han: HanRules | None = None,
) -> Outcome:
    """Return what `release` runs for `call` in a job with `environment`.

    `environment` holds ``OMPI_MCA_`` variables as the library sees them at last, those of parameter
    files included. `tuned` and `han` are the files that it names; a file is in effect only where
    its variables say so. ``Outcome.rule`` is the rule that a file has for the call, also where it
    has no say, and ``Outcome.chosen`` what it says.
    """
    return _Deciding(release, Variables(environment), tuned, han).outcome(call)


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
        tuned: TunedRules | None,
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
            return self._at_once(call, said, who)
        if who.name == TUNED:
            return self._by_tuned(call, said, (who.reason,))
        if who.name == HAN:
            return self._by_han(call, said, who)
        reasons = (who.reason, *self._unheard(said, who.name))
        ends = ""
        if who.name == BASIC and call.collective is Collective.EXSCAN and call.comm_size == 1:
            ends = "coll/basic sends an exscan of one process to the next one, and crashes"
        return Outcome(default, said.rule, reasons, said.chosen, who.name, ends)

    def _at_once(self, call: Call, said: _Said, who: Owner) -> Outcome:
        """Return what becomes of a call without data."""
        told = None
        if who.name == TUNED:
            told = configuration_of(self.catalogue.collectives[call.collective], said.numbers)
        asked_for = told or Configuration.default(LIBRARY, call.collective)
        reasons = (who.reason, *said.reasons, "A call without any data returns before that.")
        return Outcome(asked_for, said.rule, reasons, said.chosen, who.name, returns_at_once=True)

    def _by_tuned(self, call: Call, said: _Said, before: tuple[str, ...]) -> Outcome:
        entry = self.catalogue.collectives[call.collective]
        reasons = (*before, *said.reasons)
        told = configuration_of(entry, said.numbers)
        if told is None:
            number = said.numbers.algorithm
            why = (
                f"Open MPI {self.release} has no {call.collective} algorithm {number}; the first"
                " such call ends the program"
            )
            default = Configuration.default(LIBRARY, call.collective)
            return Outcome(default, said.rule, (*reasons, f"{why}."), said.chosen, TUNED, why)
        runs = running(entry, told, call)
        last = f"So {_named(runs.configuration)} runs."
        told_all = (
            (*reasons, *runs.reasons)
            if runs.ends_program
            else (
                *reasons,
                *runs.reasons,
                last,
            )
        )
        return Outcome(
            runs.configuration, said.rule, told_all, said.chosen, TUNED, runs.ends_program
        )

    def _by_han(self, call: Call, said: _Said, who: Owner) -> Outcome:
        plan = han_parts.plan(self.catalogue.series, self.variables, self._han_match(call), call)
        reasons = (who.reason, *plan.reasons)
        if plan.component == TUNED and not plan.ends_program:
            return self._by_tuned(call, said, reasons)
        default = Configuration.default(LIBRARY, call.collective)
        inner = tuple((part, self.outcome(part, inner=True)) for part in plan.inner)
        rule, chosen = said.rule, said.chosen
        if plan.rule is not None:
            # coll/han's rules send the call here, and coll/tuned's are meant for the others
            rule, chosen = plan.rule, default
        reasons = (*reasons, *self._unheard(said, plan.component))
        return Outcome(default, rule, reasons, chosen, plan.component, plan.ends_program, inner)

    def _han_match(self, call: Call) -> HanMatch | None:
        if self.han is None:
            return None
        size = 0 if call.collective is Collective.BARRIER else call.msize_bytes
        level = HanLevel.GLOBAL_COMMUNICATOR
        return self.han.match(call.collective, level, call.comm_size, size)

    def _said(self, call: Call) -> _Said:
        """Return what file and forced variables say, in the release's order."""
        entry = self.catalogue.collectives[call.collective]
        default = Configuration.default(LIBRARY, call.collective)
        match = self.tuned.match(call) if self.tuned is not None else None
        if match is not None and call.in_place and call.collective in IN_PLACE_FORGOTTEN:
            match = replace(match, reason=f"{match.reason} {_ignored(call)}")
        rule, chosen, from_file = None, default, Numbers(0)
        if match is not None:
            rule, from_file = match.rule, self._filled(call, match.numbers)
            chosen = configuration_of(entry, from_file) or default
        by_force = forced.numbers(entry, self.variables) if self.dynamic else Numbers(0)
        file_first = self.catalogue.series.startswith("4.")
        said = _Said(from_file, rule, chosen, (match.reason,) if match else ())
        if by_force.algorithm and not (file_first and from_file.algorithm):
            return replace(
                said, numbers=by_force, reasons=self._forced_reasons(call, by_force, match)
            )
        if not said.numbers.algorithm:
            return replace(said, reasons=(*said.reasons, self._left(call, said)))
        if by_force.algorithm:
            beaten = (
                f"It goes before {forced.shown(self.variables, call.collective)} in this release."
            )
            return replace(said, reasons=(*said.reasons, beaten))
        return said

    def _filled(self, call: Call, numbers: Numbers) -> Numbers:
        """Return `numbers` with the limit of requests that a rule does not tell itself."""
        if numbers.requests is not None:
            return numbers
        return replace(numbers, requests=forced.requests_of_rules(self.variables))

    def _forced_reasons(
        self, call: Call, by_force: Numbers, match: TunedMatch | None
    ) -> tuple[str, ...]:
        shown = forced.shown(self.variables, call.collective)
        if match is None:
            return (f"{shown} forces the algorithm.",)
        if not match.numbers.algorithm:
            return (match.reason, f"The rule leaves the decision open, so that {shown} decides.")
        return (match.reason, f"{shown} goes before the rules file in this release.")

    def _left(self, call: Call, said: _Said) -> str:
        """Return why coll/tuned's built-in decision holds."""
        built_in = "the library's built-in decision holds"
        if said.rule is not None:
            return f"The rule leaves the decision to the library: {built_in}."
        if self.tuned is not None and self.tuned.dropped:
            why = f"Open MPI {self.release} drops {self.tuned.source} as a whole"
            return f"{why} ({self.tuned.dropped}): {built_in}."
        if self.tuned is not None:
            return f"{self.tuned.source} has no rule for {call.collective} there: {built_in}."
        if not self.dynamic and self.variables.text(RULES_FILE):
            return f"{USE_RULES} is not set, so that no rules file is read: {built_in}."
        return f"No rules are in effect: {built_in}."

    def _unheard(self, said: _Said, component: str) -> tuple[str, ...]:
        if said.rule is None and not said.numbers.algorithm:
            return ()
        what = "rule" if said.rule is not None else "forced algorithm"
        return (*said.reasons, f"coll/{component} does not ask that {what} of coll/tuned.")


def _ignored(call: Call) -> str:
    """Return how the size of an in-place call came about."""
    why = "It takes the size from the send arguments, which MPI ignores where MPI_IN_PLACE is given"
    if call.ignored_send_bytes is None:
        return (
            f"{why}: they are taken to be empty, as is usual; if the program passes others, another"
            " rule may hold (explain --ignored-send-bytes)."
        )
    return f"{why}: they describe {call.ignored_send_bytes} bytes per process."


def _named(configuration: Configuration) -> str:
    if configuration.is_default:
        return "the library's own choice"
    values = " and ".join(f"{name} {value}" for name, value in configuration.parameters)
    return f"{configuration.algorithm} with {values}" if values else configuration.algorithm
