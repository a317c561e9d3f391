"""What both of Intel MPI's files say: for each collective a tree of upper ends over presets.

Every branch has keys with a number: the first one whose number is not below the actual value is
taken, else the last one. A negative number is no limit. What is not as it looks: the number of
``comm_id`` is never matched, message sizes are compared only below one, and processes only above
it. What is not compared is as if the actual value were beyond all numbers.
"""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from colltune.domain import Collective, Configuration
from colltune.mpi.intelmpi.library import BUILT_IN, BUILT_IN_LOGIC, INTEL_MPI, LIBRARY
from colltune.mpi.rules import Call, Fault, Finding, Outcome, Rule, Rules, harm_findings

PPN, COMM_SIZE, COMM_ID, MSG_SIZE = "ppn", "comm_size", "comm_id", "msg_size"
LEVELS = (PPN, COMM_SIZE, COMM_ID, MSG_SIZE)
_LEADING = re.compile(r"\s*([+-]?[0-9]+)")
_WORD = 1 << 32
_BEYOND = 1 << 31
"""Stands for a value that is not compared: above every number of a file."""


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


@dataclass(frozen=True)
class Preset:
    """A leaf, ``BCAST=3``; ``number`` is None where it names no preset of its collective."""

    line: int
    text: str
    number: int | None


@dataclass(frozen=True)
class Step:
    """A key of a level: its upper end (None: no limit), and what stands below it.

    ``below`` is None where an empty object leaves it to the library's built-in logic.
    """

    line: int
    text: str
    level: str
    last: int | None
    below: Branch | Preset | None


@dataclass(frozen=True)
class Branch:
    """Keys of one level, in the order in which they are tried."""

    steps: tuple[Step, ...]

    @property
    def level(self) -> str:
        return self.steps[0].level

    def is_compared(self, *, below_id: bool) -> bool:
        """Tell whether the numbers of the keys are compared with actual values."""
        return self.level != COMM_ID and below_id == (self.level == MSG_SIZE)

    @cached_property
    def _reachable(self) -> tuple[list[int], list[Step]]:
        """Ends that are above all before them, and their keys; after one without limit, none."""
        ends: list[int] = []
        reachable: list[Step] = []
        for step in self.steps:
            if step.last is None:
                return [*ends, sys.maxsize], [*reachable, step]
            if not ends or step.last > ends[-1]:
                ends.append(step.last)
                reachable.append(step)
        return ends, reachable

    def taken(self, known: Mapping[str, int], *, below_id: bool) -> Step:
        """Return the key that the library takes where the values of `known` levels are these."""
        compared = self.is_compared(below_id=below_id)
        ends, reachable = self._reachable
        at = bisect_left(ends, known.get(self.level, _BEYOND) if compared else _BEYOND)
        return reachable[at] if at < len(reachable) else self.steps[-1]


@dataclass
class Tree:
    """What a file says of one collective; ``root`` is None where it says nothing."""

    collective: Collective
    line: int
    root: Branch | Preset | None = None

    def leaf(self, known: Mapping[str, int]) -> Preset:
        """Return the leaf for the actual values; an empty object counts as the built-in logic."""
        node, below_id = self.root, False
        line, text = self.line, f"coll={self.collective}"
        while isinstance(node, Branch):
            step = node.taken(known, below_id=below_id)
            below_id = below_id or step.level == COMM_ID
            line, text, node = step.line, step.text, step.below
        return node or Preset(line, text, BUILT_IN)

    def leaves(self, node: Branch | Preset | None) -> Iterator[Preset]:
        if isinstance(node, Preset):
            yield node
        for step in node.steps if isinstance(node, Branch) else ():
            yield from self.leaves(step.below)

    def ends(self, level: str, known: Mapping[str, int]) -> tuple[int, ...]:
        """Return the finite ends of `level` that can matter where some values are known."""
        found: set[int] = set()

        def visit(node: Branch | Preset | None, below_id: bool) -> None:
            if not isinstance(node, Branch):
                return
            followed: tuple[Step, ...] = (node.taken(known, below_id=below_id),)
            if node.is_compared(below_id=below_id) and node.level not in known:
                followed = node.steps
                if node.level == level:
                    found.update(step.last for step in node.steps if step.last is not None)
            for step in followed:
                visit(step.below, below_id or node.level == COMM_ID)

        visit(self.root, below_id=False)
        return tuple(sorted(end for end in found if end < _BEYOND))


@dataclass(frozen=True)
class PresetFile(Rules):
    """A parsed file of Intel MPI; see `rules.Rules`.

    ``not_read`` are notes on what the release itself does not take, ``ends_program`` tells why
    programs end at their start.
    """

    text: str
    source: str
    release: str

    format = ""
    dropped = ""
    ends_program = ""

    @property
    @abstractmethod
    def trees(self) -> Mapping[Collective, Tree]: ...

    @property
    def not_read(self) -> tuple[str, ...]:
        return ()

    @cached_property
    def rules(self) -> tuple[Rule, ...]:  # type: ignore[override]
        found = (self.rule(c, leaf) for c, t in self.trees.items() for leaf in t.leaves(t.root))
        return tuple(sorted(found, key=lambda rule: rule.line))

    def rule(self, collective: Collective, leaf: Preset) -> Rule:
        named = INTEL_MPI.presets(self.release).preset(collective, leaf.number)
        return Rule(leaf.line, leaf.text, collective, named)

    def said(self, call: Call) -> Configuration:
        """Return what the file alone says for a call."""
        if call.collective not in self.trees:
            return Configuration.default(LIBRARY, call.collective)
        number = self.leaf_for(call).number or BUILT_IN
        return INTEL_MPI.presets(self.release).chosen(call.collective, number)

    def leaf_for(self, call: Call) -> Preset:
        known = {PPN: ppn_of(call), COMM_SIZE: call.comm_size, MSG_SIZE: call.msize_bytes}
        return self.trees[call.collective].leaf(known)

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        if collective not in self.trees:
            return ()
        ends = self.trees[collective].ends(COMM_SIZE, {})
        return tuple(sorted({2, *(end + 1 for end in ends if end >= 2)}))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        if collective not in self.trees:
            return (0,)
        known = {PPN: -(-comm_size // nodes), COMM_SIZE: comm_size}
        return (0, *(end + 1 for end in self.trees[collective].ends(MSG_SIZE, known)))


def ppn_of(call: Call) -> int:
    """Return how many processes of a call lie on its fullest node."""
    return -(-call.comm_size // max(1, call.nodes))


def ran(release: str, call: Call, rule: Rule, number: int | None, *reasons: str) -> Outcome:
    """Return what runs where a rule with this number holds."""
    presets, read = INTEL_MPI.presets(release), number or BUILT_IN
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


def preset_findings(leaf: Preset, collective: Collective, release: str) -> Iterator[Finding]:
    """Yield what is wrong with the number of a leaf."""
    line, number, text = leaf.line, leaf.number or BUILT_IN, shown(leaf.text)
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
