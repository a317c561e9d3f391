"""What both of Intel MPI's files name: presets of a collective, by their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Note
from colltune.mpi.intelmpi.library import BUILT_IN, BUILT_IN_LOGIC, INTEL_MPI, LIBRARY
from colltune.mpi.rules import Call, Fault, Finding, Numbers, Outcome, Rule, Rules, harm_findings

_LEADING = re.compile(r"\s*([+-]?[0-9]+)")
_WORD = 1 << 32


def shown(text: str) -> str:
    """Return words of a file as messages show them: quoted, and not too long."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def leading_number(text: str) -> int | None:
    """Return what the library makes of a number: limited to 64 bits, it keeps 32 of them."""
    match = _LEADING.match(text)
    if match is None:
        return None
    # more digits than any number that is limited has
    limited = max(-(1 << 63), min((1 << 63) - 1, int(match[1][:40])))
    return (limited + _WORD // 2) % _WORD - _WORD // 2


def rule_of(line: int, text: str, collective: Collective, number: int | None, release: str) -> Rule:
    """Return the rule that names a preset; a `number` of None names none of its collective."""
    named = INTEL_MPI.presets(release).preset(collective, number)
    return Rule(line, text, collective, named, numbers=Numbers(number or BUILT_IN))


@dataclass(frozen=True)
class PresetFile(Rules):
    """A parsed file of Intel MPI.

    ``not_read`` are notes on what the release itself does not take.
    """

    text: str
    source: str
    release: str

    least_comm_size = 2

    @property
    def not_read(self) -> tuple[Note, ...]:
        return ()

    def said(self, call: Call) -> Configuration:
        """Return what the file alone says for a call."""
        rule = self.rule_for(call)
        if rule is None:
            return Configuration.default(LIBRARY, call.collective)
        return INTEL_MPI.presets(self.release).chosen(call.collective, rule.numbers.algorithm)


def ran(release: str, call: Call, rule: Rule, *reasons: str) -> Outcome:
    """Return what runs where a rule holds."""
    presets, read = INTEL_MPI.presets(release), rule.numbers.algorithm
    chosen = presets.chosen(call.collective, read)
    running, fallen = presets.running(chosen, call.comm_size)
    said = [*reasons]
    if read == BUILT_IN:
        said.append(BUILT_IN_LOGIC)
    elif presets.as_read(call.collective, read) != read:
        top = presets.highest(call.collective)
        said.append(f"there is no preset {read}, only 1 to {top}, so preset 1 runs instead")
    if fallen:
        said.append(fallen)
    return Outcome(running, rule, tuple(said), chosen)


def preset_findings(rule: Rule, release: str) -> Iterator[Finding]:
    """Yield what is wrong with the number that a rule names."""
    line, number, text = rule.line, rule.numbers.algorithm, shown(rule.text)
    collective = rule.collective
    presets = INTEL_MPI.presets(release)
    if number == BUILT_IN:
        message = f"{text}: {BUILT_IN_LOGIC}"
        yield Finding(line, Fault.REMARK, message, "nothing, if you mean that")
    elif presets.as_read(collective, number) != number:
        message = (
            f"{text}: Intel MPI {release} has presets 1 to {presets.highest(collective)} for "
            f"{collective}. It prints a message and runs preset 1"
        )
        yield Finding(line, Fault.FALLS_BACK, message, "name one of them")
    elif algorithm := presets.entry_of(collective).numbered(number):
        if algorithm.wrong:
            message = f"{text}: {algorithm.wrong}"
            yield Finding(line, Fault.WRONG_RESULT, message, "name another preset")
        named = presets.configuration(collective, algorithm, {})
        yield from harm_findings(line, text, presets.harms(named))
        if algorithm.limits:
            needs = ", ".join(sorted(algorithm.limits)).replace("_", " ")
            message = f"{text} needs {needs}; elsewhere {algorithm.fallback} runs"
            yield Finding(line, Fault.NOT_EVERYWHERE, message, "nothing, if you mean that")
