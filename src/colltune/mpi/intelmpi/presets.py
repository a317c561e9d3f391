"""Presets of a collective by their numbers, and values of I_MPI_ADJUST_<COLLECTIVE> that name them.

``3:0-1024;4:1025-65536``: presets, each with conditions ``l``, ``l-m``, ``l@p`` or ``l-m@p-q``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Note
from colltune.mpi.intelmpi.library import BUILT_IN, BUILT_IN_LOGIC, INTEL_MPI, LIBRARY, variable
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
    harm_findings,
)
from colltune.text import counted

_LEADING = re.compile(r"\s*([+-]?[0-9]+)")
_WORD = 1 << 32
_RANGE = re.compile(r"\s*([+-]?[0-9]+)(?P<rest>[^-]*)(?:-(?P<end>.*))?", re.DOTALL)
_FORM = "write <preset>:<first>-<last>;…;<preset>, with numbers up to 2147483647"


@dataclass(frozen=True)
class Condition:
    """One condition: up to which message size and number of processes; None is no end.

    ``counts_processes`` tells that it has an ``@``.
    """

    text: str
    first: int
    last: int | None
    last_process: int | None
    counts_processes: bool


@dataclass(frozen=True)
class Preset:
    """A preset and its conditions; ``number`` is what the library reads."""

    text: str
    number: int
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Value:
    """A value on a line; ``rejected`` says why the library ignores all of it, after a message."""

    line: int
    text: str
    collective: Collective
    presets: tuple[Preset, ...]
    rejected: str = ""

    @cached_property
    def counts_processes(self) -> bool:
        """Whether any condition is on the number of processes, so that sizes get lost."""
        return any(c.counts_processes for entry in self.presets for c in entry.conditions)

    @property
    def read(self) -> tuple[Preset, ...]:
        """The entries up to the first without conditions, after which the library reads no more."""
        ends = (at for at, entry in enumerate(self.presets, 1) if not entry.conditions)
        return self.presets[: next(ends, None)]

    def in_effect(self, release: str) -> tuple[Entry, ...]:
        """Return the entries as they are tried: of equal ends the first place, the last entry."""
        tried: dict[int | None, Preset] = {}
        for preset in self.presets:
            for condition in preset.conditions or (_ALWAYS,):
                end = condition.last_process if self.counts_processes else condition.last
                # nothing takes the place of an entry without an end
                if end is not None or None not in tried:
                    tried[end] = preset
        rules, first = [], 0
        for end, preset in _reached(tried):
            last = LARGEST_SIZE if end is None else end
            rules.append(self.rule(preset, release)._replace(first=first, last=last))
            first = last + 1
        if not self.counts_processes:
            return (Entry(self.collective, self.line, 0, LARGEST_COMM_SIZE, tuple(rules)),)
        return tuple(
            Entry(
                self.collective,
                self.line,
                rule.first,
                min(rule.last, LARGEST_COMM_SIZE),
                (rule._replace(first=0, last=LARGEST_SIZE),),
            )
            for rule in rules
        )

    def rule(self, preset: Preset, release: str) -> Rule:
        return rule_of(self.line, preset.text, self.collective, preset.number, release)


_ALWAYS = Condition("", 0, None, None, counts_processes=False)


def _reached(tried: Mapping[int | None, Preset]) -> Iterator[tuple[int | None, Preset]]:
    """Yield the entries with ends above all before them, then the one that goes on after them."""
    highest = -1
    for end, entry in tried.items():
        if end is None:
            yield None, entry
            return
        if end > highest:
            yield end, entry
            highest = end
    yield None, list(tried.values())[-1]


def parse(text: str, collective: Collective, line: int = 0) -> Value:
    """Return what the library reads out of a value."""
    parts = text.split(";")
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    if not text.strip():
        return Value(line, text, collective, (Preset(text, BUILT_IN, ()),))
    entries: list[Preset] = []
    for part in parts:
        entry = _entry(part)
        if isinstance(entry, str):
            if all(before.conditions for before in entries):
                return Value(line, text, collective, (), entry)
            entry = Preset(part.strip(), BUILT_IN, ())
        entries.append(entry)
    return Value(line, text, collective, tuple(entries))


def _entry(text: str) -> Preset | str:
    """Return an entry, or why the library rejects it."""
    number, colon, conditions = text.partition(":")
    preset = leading_number(number)
    if preset is None or preset < 0:
        return f"{shown(text)} does not begin with the number of a preset"
    found = []
    for condition in conditions.split(",") if colon and conditions.strip() else ():
        sizes, at, processes = condition.partition("@")
        size = (0, None) if at and not sizes.strip() else _ends(sizes)
        process = _ends(processes) if at else (0, None)
        if size is None or process is None:
            return f"{shown(condition)} is not a range of numbers from 0 to 2147483647"
        found.append(Condition(condition.strip(), size[0], size[1], process[1], bool(at)))
    return Preset(text.strip(), preset, tuple(found))


def _ends(text: str) -> tuple[int, int | None] | None:
    """Return first value and last one of a range (None: no end); None if it is rejected."""
    match = _RANGE.match(text)
    first = leading_number(text)
    if match is None or first is None or first < 0:
        return None
    if match["end"] is None:
        return 0, first
    last = leading_number(match["end"])
    if match["rest"] or last is None or last < 0:
        return None
    return first, (last if last >= first else None)


def outcome(
    value: Value, release: str, call: Call, *, instead_of: Configuration | None = None
) -> Outcome:
    """Return what runs by a value that is not rejected.

    A variable of the job goes before a file, which says `instead_of`.
    """
    name = variable(call.collective)
    entry = next(one for one in value.in_effect(release) if one.takes(call))
    rule = next(rule for rule in entry.rules if rule.takes(call.msize_bytes))
    why = (
        f"the entry {shown(rule.text)} of {name} holds for "
        f"{counted(call.comm_size, 'process', 'es')} and {counted(call.msize_bytes, 'byte')}"
    )
    if instead_of is None:
        return ran(release, call, rule, why)
    found = ran(release, call, rule, f"{name} has priority over the file", why)
    return Outcome(found.configuration, None, found.reasons, instead_of)


def findings(value: Value) -> Iterator[tuple[Fault, str, str]]:
    """Yield what is wrong with a value: fault, message, mend."""
    name = variable(value.collective)
    if value.rejected:
        message = (
            f"{name}: {value.rejected}. The library prints a message and ignores the whole value"
        )
        yield Fault.RULE_DROPPED, message, _FORM
        return
    if not value.text.strip():
        message = f"{name} is empty: the built-in logic runs, which differs from an unset variable"
        yield Fault.MALFORMED, message, "remove it, or name a preset"
        return
    for entry in value.read:
        if not entry.text.partition(":")[0].strip().isdecimal():
            message = f"{shown(entry.text)}: the library reads preset {entry.number}"
            yield Fault.MALFORMED, message, _FORM
        for condition in entry.conditions:
            if not condition.counts_processes:
                yield from _spelling(shown(entry.text), condition)
    if value.counts_processes:
        message = (
            f"{name}: with an @ in any condition, message sizes are not compared, and only "
            "the last entry for each number of processes counts"
        )
        yield Fault.DEAD_RULE, message, "use a file for I_MPI_TUNING (format intelmpi-json)"
    else:
        yield from _order(value)


def _spelling(entry: str, condition: Condition) -> Iterator[tuple[Fault, str, str]]:
    first, dash, last = condition.text.partition("-")
    upper = (last if dash else first).strip()
    said = shown(condition.text)
    if condition.last is None:
        message = f"{entry}: {said} ends before it begins, so it holds for all sizes"
        yield Fault.MALFORMED, message, _FORM
    elif upper.lstrip("+") != str(condition.last):
        if upper.isdecimal() and int(upper[:40]) == condition.last:
            return
        message = f"{entry}: the library reads the end of {said} as {condition.last}"
        yield Fault.MALFORMED, message, "write bytes, without a unit"


def _order(value: Value) -> Iterator[tuple[Fault, str, str]]:
    """Yield entries that are never reached, and gaps that another entry fills."""
    reached = -1
    unbounded: Preset | None = None
    for entry in value.presets:
        said = shown(entry.text)
        if unbounded is not None:
            message = (
                f"{said} is never reached, because {shown(unbounded.text)} holds for all "
                "remaining sizes"
            )
            yield Fault.DEAD_RULE, message, "remove it, or sort the entries"
            continue
        lasts = [c.last for c in entry.conditions]
        if lasts and all(last is not None and last < reached for last in lasts):
            message = f"{said} is never reached, because an earlier entry ends at {reached}"
            yield Fault.DEAD_RULE, message, "sort by ascending ends"
        elif reached in lasts:
            message = f"{said} replaces an earlier entry with the same end"
            yield Fault.DEAD_RULE, message, "remove one of them"
        yield from _lower_ends(entry, reached)
        reached = max([reached, *(last for last in lasts if last is not None)])
        if not lasts or None in lasts:
            unbounded = entry
    if unbounded is None:
        message = (
            f"{shown(value.presets[-1].text)} also holds above {reached}, because it is the "
            "last entry"
        )
        yield Fault.INHERITED, message, "end with an entry without a range"


def _lower_ends(entry: Preset, reached: int) -> Iterator[tuple[Fault, str, str]]:
    said = shown(entry.text)
    for condition in entry.conditions:
        if condition.last is None or "-" not in condition.text:
            continue
        if condition.first > reached + 1:
            message = (
                f"{said} holds from {reached + 1} on, because the library ignores where a "
                f"range begins ({condition.first})"
            )
            yield Fault.INHERITED, message, "name a preset for the sizes before"
        elif condition.first <= reached < condition.last:
            message = f"{said} begins at {condition.first}, but holds from {reached + 1} on"
            yield Fault.UNSORTED, message, f"let it begin at {reached + 1}"


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
