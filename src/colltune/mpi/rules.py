"""What a configuration file says, whatever its format, what runs by it, and what is wrong with it.

A file is a list of rules in their order of precedence. The rules for some communicators of a
collective make an entry. The first entry that takes a communicator decides alone, by the first of
its rules that takes the size of the message. Where no rule does, the library decides.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.programs import MOST_PROMISED, Harm, Harms, ProgramOutcome, Results
from colltune.text import computed

LARGEST_SIZE = 2**63 - 1
"""No end of message sizes."""
LARGEST_COMM_SIZE = 2**31 - 1
"""No end of communicator sizes."""


class Severity(StrEnum):
    """How much a finding matters.

    Error: the MPI library refuses what is written, or programs crash, hang or compute what is
    wrong. Warning: something else than what is written runs. Note: what is written runs; the rest
    is taste.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Fault(StrEnum):
    """What can be wrong with a configuration file; each has one severity.

    ``FILE_DROPPED``: the release refuses the file as a whole. ``RULE_DROPPED``: it refuses this
    rule or value. ``ENDS_PROGRAM``, ``HANGS``, ``WRONG_RESULT``, ``RANKS_DISAGREE``: a legal
    program aborts, hangs, computes wrong numbers, or its ranks choose different algorithms.

    ``SOME_PROGRAMS``: the same, of legal programs that a promise leaves out. ``OTHER_BITS``:
    reductions may round otherwise, where their bits are promised; ``ROUNDS_OTHERWISE``: where they
    are not. ``DEAD_RULE``: never
    reached. ``UNSORTED``: stands where the library stops looking, or takes another one first.
    ``INHERITED``: reaches communicators or messages that its author hardly meant. ``WRONG_UNIT``:
    sizes look as if they were in another unit than the library's. ``UNKNOWN``: a collective,
    algorithm, key or parameter that the release does not have, and ignores. ``NO_EFFECT``: a value
    that is ignored. ``FALLS_BACK``: the library runs another algorithm instead. ``OUTRANKED``:
    another component of the library decides first. ``NOT_ACTIVATED``: no variable tells the library
    to read the file. ``OVERRIDDEN``: a variable of the user takes precedence. ``MALFORMED``: not
    what the format asks for, though the library reads on. ``OTHER_RELEASE``: was written for a
    release that takes it otherwise.

    ``NOT_EVERYWHERE``: holds, but not for all calls. ``REMARK``: good to know.
    """

    FILE_DROPPED = "file-dropped"
    RULE_DROPPED = "rule-dropped"
    ENDS_PROGRAM = "ends-program"
    HANGS = "hangs"
    WRONG_RESULT = "wrong-result"
    RANKS_DISAGREE = "ranks-disagree"
    DEAD_RULE = "dead-rule"
    UNSORTED = "unsorted"
    INHERITED = "inherited"
    WRONG_UNIT = "wrong-unit"
    UNKNOWN = "unknown"
    NO_EFFECT = "no-effect"
    FALLS_BACK = "falls-back"
    OUTRANKED = "outranked"
    NOT_ACTIVATED = "not-activated"
    OVERRIDDEN = "overridden"
    MALFORMED = "malformed"
    OTHER_RELEASE = "other-release"
    SOME_PROGRAMS = "some-programs"
    OTHER_BITS = "other-bits"
    ROUNDS_OTHERWISE = "rounds-otherwise"
    NOT_EVERYWHERE = "not-everywhere"
    REMARK = "remark"

    @property
    def severity(self) -> Severity:
        """How much it matters, wherever it is found."""
        if self in _ERRORS:
            return Severity.ERROR
        return Severity.NOTE if self in _NOTES else Severity.WARNING


_ERRORS = frozenset(
    {Fault.FILE_DROPPED, Fault.RULE_DROPPED, Fault.ENDS_PROGRAM, Fault.HANGS}
    | {Fault.WRONG_RESULT, Fault.RANKS_DISAGREE}
)
_NOTES = frozenset({Fault.NOT_EVERYWHERE, Fault.ROUNDS_OTHERWISE, Fault.REMARK})


class Finding(NamedTuple):
    """One finding of the lint."""

    line: int
    """line, from 1 on; 0: the file as a whole"""
    fault: Fault
    """id of the rule of lint"""
    message: str
    """what the library does with it"""
    mend: str
    """what to write instead"""
    promise: str = ""
    """of some-programs: promise that leaves them out, else empty"""

    @computed
    def severity(self) -> Severity:
        """Error, warning or note."""
        return self.fault.severity


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings by line, each once."""
    return tuple(sorted(set(findings)))


_FAULTS = {
    ProgramOutcome.WRONG: Fault.WRONG_RESULT,
    ProgramOutcome.ABORTS: Fault.ENDS_PROGRAM,
    ProgramOutcome.HANGS: Fault.HANGS,
}


def harm_findings(line: int, what: str, harms: Harms) -> Iterator[Finding]:
    """Yield what an algorithm on a `line`, called `what` in messages, does to legal programs."""
    always = harms.done_to(MOST_PROMISED)
    if always:
        fault = _FAULTS[min((harm.outcome for harm in always), key=list(_FAULTS).index)]
        yield Finding(line, fault, f"{what} {_told(harms, always)}", "choose another algorithm")
    others: dict[str, list[Harm]] = {}
    for harm in harms.found:
        if harm not in always:
            others.setdefault(harm.mode.left_out_by, []).append(harm)
    for promise, some in others.items():
        mend = f"use it only where all programs keep the promise {promise}"
        if promise == Results.ANY:
            mend = "use it only where ranks may get different results"
        yield Finding(line, Fault.SOME_PROGRAMS, f"{what} {_told(harms, some)}", mend, promise)


def _told(harms: Harms, some: Sequence[Harm]) -> str:
    texts = dict.fromkeys(map(str, some))
    return f"{'; '.join(texts)}{harms.where(some[0])}"


@dataclass(frozen=True)
class Call:
    """A call of a collective, as far as any library looks at it.

    Parameters
    ----------
    collective
        What is called.
    comm_size
        Processes of the communicator.
    msize_bytes
        Message size in the unit of `colltune.domain`: what the caller passes.
    nodes
        Over how many nodes these processes lie (evenly, as far as that is possible).
    is_world
        Whether it is MPI_COMM_WORLD (some libraries know less about its layout).
    in_place
        Whether MPI_IN_PLACE is passed.
    commutative, builtin_operation
        Of the operation of a reduction.
    element_bytes
        Size of the datatype: some algorithms need an element per process.
    ignored_send_bytes
        What the send arguments of an in-place call describe, per process: count times size of the
        type, of allgatherv what is received in the send type. MPI ignores them, Open MPI does not.
        None where that is not known; they are taken to be empty then.
    """

    collective: Collective
    comm_size: int
    msize_bytes: int
    nodes: int = 1
    is_world: bool = True
    in_place: bool = False
    commutative: bool = True
    builtin_operation: bool = True
    element_bytes: int = 1
    ignored_send_bytes: int | None = None

    @property
    def ppn(self) -> int:
        """How many processes lie on the fullest node."""
        return -(-self.comm_size // max(1, self.nodes))


class Numbers(NamedTuple):
    """What a rule names by numbers.

    Parameters
    ----------
    algorithm
        The algorithm, or preset, by its number; 0 leaves the decision to the library.
    fanout, segsize_bytes
        What stands beside it; 0 where nothing does.
    requests
        The limit of requests; None where nothing was said.
    """

    algorithm: int = 0
    fanout: int = 0
    segsize_bytes: int = 0
    requests: int | None = None


class Rule(NamedTuple):
    """The smallest part of a file that names an algorithm.

    Rules are equal where they are the same one of a file, for whatever sizes it is in effect.
    """

    line: int
    """line of the file, from 1 on"""
    text: str
    """what stands there"""
    collective: Collective
    configuration: Configuration | None
    """id of what it asks for, the default where that is left to the library; null: something that
    the release does not have"""
    first: int = 0
    """smallest size that it takes, as the library counts them"""
    last: int = LARGEST_SIZE
    """largest size that it takes"""
    numbers: Numbers = Numbers()
    """what it names, as it stands there"""
    size_line: int = 0
    """line of the first size"""
    ignored: bool = False
    """whether it takes no size at all"""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self[:4] == other[:4]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:4])

    def takes(self, compared: int) -> bool:
        """Tell whether the rule is for a call whose compared size is `compared`."""
        # whatever is larger than what stands for no end is no message
        return not self.ignored and self.first <= min(compared, LARGEST_SIZE) <= self.last


class Layout(StrEnum):
    """How the processes of a communicator lie on nodes."""

    ANY = "any"
    ONE_PER_NODE = "one-per-node"
    SINGLE_NODE = "single-node"


@dataclass(frozen=True)
class Entry:
    """The rules of a collective for some communicators, in their order of precedence.

    Parameters
    ----------
    collective
        Whose rules they are.
    line
        Where they begin.
    first_size, last_size
        For communicators of so many processes, both included.
    rules
        The first that takes the size of a message counts.
    layout
        How the processes lie; a `Shape` stands for processes that lie evenly so.
    first_ppn, last_ppn
        For so many processes on the fullest node, both included.
    named_size
        The one size by which a file names the communicators; 0 if it names none.
    """

    collective: Collective
    line: int
    first_size: int
    last_size: int
    rules: tuple[Rule, ...]
    layout: Layout | Shape = Layout.ANY
    first_ppn: int = 0
    last_ppn: int = LARGEST_COMM_SIZE
    named_size: int = 0

    @property
    def chooses(self) -> bool:
        """Whether a rule names anything but the library's own decision."""
        return any(
            r.configuration is not None and not r.configuration.is_default for r in self.rules
        )

    def takes(self, call: Call) -> bool:
        """Tell whether it is for the communicator of a call.

        Open MPI notes only of communicators that it derives from others whether every process has a
        node of its own, not of MPI_COMM_WORLD; and it notes it only if that is true of all
        communicators that the same call makes, which is taken for granted here (``comm_cid.c``).
        """
        size, nodes = call.comm_size, call.nodes
        if isinstance(self.layout, Shape) and (self.layout.nodes != nodes or size % nodes):
            return False
        if self.layout is Layout.ONE_PER_NODE and (call.is_world or nodes != size):
            return False
        if self.layout is Layout.SINGLE_NODE and nodes != 1:
            return False
        inside = self.first_size <= size <= self.last_size
        return inside and self.first_ppn <= call.ppn <= self.last_ppn

    def rule_for(self, compared: int) -> Rule | None:
        """Return the rule for a size, as it is `compared`; None if the library decides."""
        return next((rule for rule in self.rules if rule.takes(compared)), None)


Entries = Mapping[Collective, tuple[Entry, ...]]


class Rules(ABC):
    """What one release makes of a configuration file.

    ``format`` is a key of `colltune.mpi.formats.FORMATS`, ``source`` the name of the file in
    messages. ``rules`` are all in the order of the file, also those that are never reached;
    ``entries`` those in effect. ``dropped`` tells why the release ignores the file as a whole,
    ``ends_program`` why programs die of it, ``form_findings`` what is wrong with its form.
    """

    format: str
    release: str
    source: str
    dropped: str = ""
    ends_program: str = ""
    rules: tuple[Rule, ...] = ()
    entries: Entries = MappingProxyType({})
    form_findings: tuple[Finding, ...] = ()
    least_comm_size: int = 0
    """From which communicator size on decisions are told apart."""

    @abstractmethod
    def decide(self, call: Call, environment: Mapping[str, str] | None = None) -> Outcome:
        """Return what the release runs for `call`.

        `environment` holds the variables of the job as the user would export them; by default
        exactly those that put the file into effect.
        """

    def compared(self, call: Call) -> int:
        """Return the size of a call as the library compares it with those of rules."""
        return call.msize_bytes

    def first_msize(self, collective: Collective, comm_size: int, compared: int) -> int | None:
        """Return from which ``msize_bytes`` on the size `compared` is reached; None if by none.

        It is for communicators of `comm_size` processes.
        """
        return compared

    def entry_for(self, call: Call) -> Entry | None:
        """Return the entry that takes the communicator of a call."""
        return next((one for one in self.entries.get(call.collective, ()) if one.takes(call)), None)

    def rule_for(self, call: Call) -> Rule | None:
        """Return the rule for a call; None if the library decides."""
        entry = self.entry_for(call)
        return entry.rule_for(self.compared(call)) if entry is not None else None

    def match(self, call: Call) -> tuple[Rule, str] | None:
        """Return the rule for a call, and why it is that one; None if the library decides."""
        entry = self.entry_for(call)
        rule = entry.rule_for(self.compared(call)) if entry is not None else None
        if entry is None or rule is None:
            return None
        return rule, f"{self.source}:{rule.line}: {self.why(call, entry, rule)}"

    def why(self, call: Call, entry: Entry, rule: Rule) -> str:
        """Return a sentence on why a rule of an entry is the one for a call."""
        raise NotImplementedError

    def comm_sizes(self, collective: Collective) -> tuple[int, ...]:
        """Return the communicator sizes from which on another decision may hold, ascending."""
        ends: set[int] = set()
        for one in self.entries.get(collective, ()):
            if one.first_size <= one.last_size:
                ends |= {one.first_size, one.last_size + 1}
        least = self.least_comm_size
        return tuple(sorted({max(least, size) for size in ends if size <= LARGEST_COMM_SIZE}))

    def switch_points(
        self, collective: Collective, comm_size: int, nodes: int = 1
    ) -> tuple[int, ...]:
        """Return the message sizes (our ``msize_bytes``) at which the decision may change.

        Ascending, from 0 on; for communicators of `comm_size` processes over `nodes` nodes.
        """
        points: set[int | None] = {0}
        for is_world in (True, False):
            entry = self.entry_for(Call(collective, comm_size, 0, nodes, is_world=is_world))
            rules = [rule for rule in entry.rules if not rule.ignored] if entry else []
            ends = {end for rule in rules for end in (rule.first, rule.last + 1)}
            sizes = (end for end in ends if end <= LARGEST_SIZE)
            points |= {self.first_msize(collective, comm_size, size) for size in sizes}
        return tuple(sorted(point for point in points if point is not None))


@dataclass(frozen=True)
class Outcome:
    """What runs for a call, and why.

    Parameters
    ----------
    configuration
        What runs; the default stands for the library's own decision.
    rule
        The rule that said so; None where none did.
    reasons
        Sentences, in the order in which the library goes.
    chosen
        What the rule says; differs from `configuration` where the library falls back to another
        algorithm or the rule has no say.
    component
        Which part of the library decides (``tuned``, ``han``), empty where there is only one.
    ends_program
        Why the call, or the program at its start, would fail; empty if it runs.
    inner
        Calls on parts of the communicator that a hierarchical component makes in its place.
    returns_at_once
        Whether the call has no data and returns before anything runs; `configuration` is what is
        asked for then.
    handed_on
        Whether another component gets the call first, and hands it on as it is.
    """

    configuration: Configuration
    rule: Rule | None
    reasons: tuple[str, ...]
    chosen: Configuration
    component: str = ""
    ends_program: str = ""
    inner: tuple[tuple[Call, Outcome], ...] = ()
    returns_at_once: bool = False
    handed_on: bool = False


# ---- which of several entries holds where ----


class Piece(NamedTuple):
    """From ``first`` to ``last`` (None: no end) the entry at position ``owner`` holds, or none."""

    first: int
    last: int | None
    owner: int | None


def scanned(sizes: Sequence[int], *, inherit: bool) -> list[Piece]:
    """Return what holds if `sizes` are scanned in order until one is larger than the value.

    The last one before that counts; of values below all entries it is the first one with `inherit`.
    """
    owners = {start: position for position, start in enumerate(accumulate(sizes, max))}
    first = next(iter(owners), 0)
    if inherit and first > 0:
        # larger than the value, the first one ends the search: those that follow do not count
        if owners[first] == 0:
            del owners[first]
        owners = {0: 0} | owners
    return _pieces(list(owners), list(owners.values()))


def ranged(ranges: Sequence[tuple[int, int | None]]) -> list[Piece]:
    """Return what holds if the first of several `ranges` counts in which a value lies.

    Each has its first and last value, None for no end; a last one below the first makes it empty.
    """
    opening = sorted(
        (first, at) for at, (first, last) in enumerate(ranges) if last is None or first <= last
    )
    ends = [last for _, at in opening if (last := ranges[at][1]) is not None]
    starts: list[int] = []
    owners: list[int | None] = []
    waiting: list[int] = []
    opened = 0
    for edge in sorted({*(first for first, _ in opening), *(last + 1 for last in ends)}):
        while opened < len(opening) and opening[opened][0] <= edge:
            heapq.heappush(waiting, opening[opened][1])
            opened += 1
        while waiting and (last := ranges[waiting[0]][1]) is not None and last < edge:
            heapq.heappop(waiting)
        owner = waiting[0] if waiting else None
        if not owners or owners[-1] != owner:
            starts.append(edge)
            owners.append(owner)
    return _pieces(starts, owners)


def _pieces(starts: Sequence[int], owners: Sequence[int | None]) -> list[Piece]:
    lasts = [*(start - 1 for start in starts[1:]), None]
    return list(map(Piece, starts, lasts, owners))


def end_of(last: int, largest: int) -> int | None:
    """Return `last`; None, for no end, from `largest` on."""
    return None if last >= largest else last


def by_owner(pieces: Sequence[Piece]) -> dict[int | None, list[Piece]]:
    """Return `pieces` by who holds there."""
    found: dict[int | None, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.owner, []).append(piece)
    return found


class Union:
    """A union of ranges of integers, both ends included, as ascending ranges with gaps between."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Take a range from `first` to `last`; one that ends before it begins is empty."""
        if first > last:
            return
        at = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if at < end:
            first = min(first, self._firsts[at])
            last = max(last, self._lasts[end - 1])
        self._firsts[at:end] = [first]
        self._lasts[at:end] = [last]

    def covers(self, first: int, last: int) -> bool:
        """Tell whether all numbers from `first` to `last` are taken."""
        at = bisect_right(self._firsts, first) - 1
        return first > last or (at >= 0 and last <= self._lasts[at])

    def meets(self, first: int, last: int) -> bool:
        """Tell whether any number from `first` to `last` is taken."""
        at = bisect_right(self._firsts, last) - 1
        return first <= last and at >= 0 and first <= self._lasts[at]


def union_of(rules: Sequence[Rule]) -> Union:
    """Return the sizes that `rules` take."""
    taken = Union()
    for rule in rules:
        taken.add(rule.first, rule.last)
    return taken
