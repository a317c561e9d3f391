"""Where a configuration runs, and what is promised there.

`colltune.mpi.release.Release.runs` answers for a release: it is the one who decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from colltune.domain import Configuration, Shape
from colltune.mpi.bits import Ranges, common
from colltune.mpi.programs import Programs, Results, bits_of


class Refusal(StrEnum):
    """Why a configuration may not run somewhere."""

    UNKNOWN = "unknown"
    NOT_EXPRESSED = "not expressed"
    HARMS_PROGRAMS = "harms programs"
    OTHER_BITS = "other bits"
    WRONG_SHAPE = "wrong shape"
    NOT_AS_ITSELF = "not as itself"


@dataclass(frozen=True)
class RunningRange:
    """Where a configuration runs: from ``first_bytes`` on, or never (None).

    ``parts`` are the only ranges of message sizes in which it may, None: all from there on.
    ``reason`` tells why not everywhere, ``refusal`` which kind of reason it is where it never runs.
    """

    first_bytes: int | None
    reason: str = ""
    refusal: Refusal | None = None
    parts: Ranges | None = None

    def why_not(self, last_bytes: int | None) -> str:
        """Return why it runs for no message of up to `last_bytes`; empty if for some."""
        if self.first_bytes is None or (last_bytes is not None and last_bytes < self.first_bytes):
            return self.reason
        return ""

    def why_not_at(self, msize_bytes: int) -> str:
        """Return why it does not run for messages of one size; empty if it does."""
        runs = any(may for *_, may in self.pieces(msize_bytes, msize_bytes))
        return "" if runs else self.reason

    def pieces(self, first: int, last: int | None) -> Iterator[tuple[int, int | None, bool]]:
        """Yield the parts of a range of sizes, with whether it may run in each.

        `last` None is without end, and so is what is yielded last then.
        """
        least, end = self.first_bytes, _ENDLESS if last is None else last
        allowed: Ranges = () if least is None else ((least, _ENDLESS),)
        at = first
        allowed = common(allowed, allowed if self.parts is None else self.parts)
        for begins, ends in common(allowed, ((first, end),)):
            if at < begins:
                yield at, begins - 1, False
            yield begins, last if ends == end else ends, True
            at = ends + 1
        if at <= end:
            yield at, last, False

    def within(self, parts: Ranges, reason: str) -> RunningRange:
        """Return the same, cut down to `parts`; `reason` tells why."""
        if self.first_bytes is None:
            return self
        found = common(((self.first_bytes, _ENDLESS),), parts)
        if not found:
            return RunningRange(None, reason, Refusal.OTHER_BITS)
        return replace(self, first_bytes=found[0][0], reason=self.reason or reason, parts=found)


_ENDLESS = 2**63 - 1
EVERYWHERE = RunningRange(0)


class Expresses(Protocol):
    """What names configurations, such as a format of files."""

    def limit(self, release: str, configuration: Configuration) -> str:
        """Return why it cannot name `configuration` to `release`; empty if it can."""
        ...


@dataclass(frozen=True)
class Promises:
    """What holds wherever a configuration is to run: of the programs, the file and the calls.

    ``programs`` must not be harmed, None: they are not looked at; ``form`` must be able to name
    the configuration, None: nothing has to. ``element_bytes`` is the size of the largest datatype
    of the calls: some algorithms need an element per process. ``one_node`` tells that all processes
    of the job lie on one.
    """

    programs: Programs | None = None
    form: Expresses | None = None
    element_bytes: int = 1
    one_node: bool = False

    @property
    def same_bits(self) -> bool:
        """Whether reductions have to give the bits of the library's own decision."""
        return self.programs is not None and self.programs.results is Results.SAME_BITS


Place = int | Shape | None
"""Processes of a communicator, or how they lie on nodes; None: whatever communicator it is."""


class DecidingLibrary(Protocol):
    """What is asked of a library here; see `colltune.mpi.release.MpiLibrary`."""

    name: str
    title: str
    decides_by_machine: bool


def with_same_bits(
    runs: RunningRange,
    configuration: Configuration,
    place: Place,
    promises: Promises,
    library: DecidingLibrary,
    release: str,
) -> RunningRange:
    """Return `runs`, cut down to where a reduction gives the bits of the library's own decision.

    `configuration` is spelled as its space does. What is not known is left out.
    """
    programs = promises.programs
    if programs is None or not promises.same_bits or not configuration.collective.reduces:
        return runs
    if configuration.is_default:
        return runs
    if library.decides_by_machine:
        why = f"{library.title} decides by machine, so that nobody knows which bits it gives there"
        return runs.within((), why)
    told = bits_of(configuration, library.name, release)
    if not told:
        why = f"which bits {configuration.algorithm} gives with {release} was not measured"
        return runs.within((), why)
    nprocs = place if isinstance(place, int) else place.nprocs if place else 0
    one_node = promises.one_node if isinstance(place, int) else place and place.nodes == 1
    if not one_node and not all(facts.anywhere for facts in told):
        why = (
            f"{configuration.algorithm} is not known to give the bits of the library's own "
            "decision on several nodes"
        )
        return runs.within((), why)
    parts: Ranges = ((0, _ENDLESS),)
    for facts in told:
        parts = common(parts, facts.as_default(nprocs, own=not programs.builtin_operations))
    why = (
        f"{configuration.algorithm} on {nprocs} processes is not known to give the bits of the "
        "library's own decision there"
    )
    return runs.within(parts, why)
