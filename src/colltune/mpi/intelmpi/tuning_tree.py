"""The tree of an I_MPI_TUNING file as the library walks it.

Every object has keys ``level=number``: of the keys of one object the first one whose number is not
below the actual value is taken, else the last one. A negative number is no limit. What is not as it
looks: the number of ``comm_id`` is never matched, message sizes are compared only below one, and
processes only above it. What is not compared is as if the actual value were beyond all numbers.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from colltune.domain import Collective
from colltune.mpi.intelmpi.grid import as_word
from colltune.mpi.located_json import Member, Node

PPN, COMM_SIZE, COMM_ID, MSG_SIZE = "ppn", "comm_size", "comm_id", "msg_size"
LEVELS = (PPN, COMM_SIZE, COMM_ID, MSG_SIZE)
_NUMBER = re.compile(r"\s*([+-]?[0-9]+)")
_PRESET = re.compile(r"[0-9]+")
_BEYOND = 1 << 31
"""Stands for a value that is not compared: above every number of a file."""


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
    """An object: its keys in the order in which they are tried."""

    steps: tuple[Step, ...]

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

    def first_from(self, actual: int) -> Step:
        """Return the first key whose number is not below `actual`, else the last key."""
        ends, reachable = self._reachable
        at = bisect_left(ends, actual)
        return reachable[at] if at < len(reachable) else self.steps[-1]


@dataclass
class Tree:
    """What one ``coll=`` key holds; ``root`` is None where it holds nothing."""

    collective: Collective
    line: int
    root: Branch | Preset | None = None


@dataclass(frozen=True)
class Point:
    """The actual values that the levels are compared with; those that are absent are not known."""

    values: Mapping[str, int] = field(default_factory=dict)

    def pick(self, branch: Branch, *, below_id: bool) -> Step:
        level = branch.steps[0].level
        compared = is_compared(level, below_id=below_id)
        actual = self.values.get(level, _BEYOND) if compared else _BEYOND
        return branch.first_from(actual)


def is_compared(level: str, *, below_id: bool) -> bool:
    """Tell whether the numbers of a level are compared with actual values there."""
    return level != COMM_ID and below_id == (level == MSG_SIZE)


def leaf_at(root: Branch | Preset | None, point: Point) -> tuple[Preset | None, tuple[Step, ...]]:
    """Return the leaf for `point`, None for the built-in logic, and the keys on the way."""
    node, way, below_id = root, list[Step](), False
    while isinstance(node, Branch):
        step = point.pick(node, below_id=below_id)
        below_id = below_id or step.level == COMM_ID
        way.append(step)
        node = step.below
    return node, tuple(way)


def ends(root: Branch | Preset | None, level: str, point: Point) -> tuple[int, ...]:
    """Return the finite ends of `level` that can matter where `point` is known, ascending."""
    found: set[int] = set()

    def visit(node: Branch | Preset | None, below_id: bool) -> None:
        if not isinstance(node, Branch):
            return
        here = node.steps[0].level
        followed: tuple[Step, ...] = (point.pick(node, below_id=below_id),)
        if is_compared(here, below_id=below_id) and here not in point.values:
            followed = node.steps
            if here == level:
                found.update(step.last for step in node.steps if step.last is not None)
        for step in followed:
            visit(step.below, below_id or here == COMM_ID)

    visit(root, below_id=False)
    return tuple(sorted(end for end in found if end < _BEYOND))


def last_values(node: Node) -> list[Member]:
    """Return the members as the library keeps them: of equal keys the first place, last value."""
    places: dict[str, Member] = {}
    for member in node.members:
        places[member.key] = member
    return list(places.values())


def level_of(key: str) -> str | None:
    """Return the level that a key is of, None if of none."""
    name, equals, _ = key.partition("=")
    return name if equals and name in LEVELS else None


def end_of(key: str) -> int | None:
    """Return the upper end that a key of a level names; None for no limit."""
    match = _NUMBER.match(key.partition("=")[2])
    number = as_word(match[1]) if match else 0
    return None if number < 0 else number


def preset_in(key: str, collective: Collective) -> int | None:
    """Return the number that a leaf's key names; None if it is of no preset of `collective`."""
    name, equals, value = key.partition("=")
    if not equals or name.upper() != collective.upper():
        return None
    match = _PRESET.match(value)
    number = as_word(match[0]) if match else 0
    return max(number, 0)
