"""The C program's files: writes its plan, reads its raw output (see hantasks.c). Version 1."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colltune.domain import RunStatus, Shape
from colltune.errors import DataError
from colltune.han.series import Manner, Measured, Wanted

_CUT_SHORT = "none"
_PLAN, _RAW = "colltune-han-plan 1", "colltune-han-raw 1"
TOLERANCE = 0.15


@dataclass(frozen=True)
class RawOutput:
    """What the program told: `series` that ended, which one was under way, why it ended.

    ``in_flight`` is the index of the series that had begun but not ended, None if none had;
    ``ended`` is ``plan`` or ``budget``, or empty for a program that was killed.
    """

    series: tuple[Measured, ...]
    in_flight: int | None
    ended: str
    facts: Mapping[str, str]


def plan_text(
    launched: Shape,
    wanted: Sequence[Wanted],
    settings: Sequence[Mapping[str, int | str]],
    budget_s: float,
    owner: str = "",
) -> str:
    """Return the plan; ``settings[i]`` are the control variables of ``wanted[i]``."""
    distinct: dict[str, int] = {}
    words = [" ".join(f"{k}={v}" for k, v in sorted(s.items())) for s in settings]
    for word in words:
        distinct.setdefault(word, len(distinct))
    lines = [_PLAN, f"layout {launched.nodes} {launched.ppn}", f"budget {budget_s:.3f}"]
    lines += [f"owner {owner}"] if owner else []
    lines += [f"config {word}".rstrip() for word in distinct]
    for one, word in zip(wanted, words, strict=True):
        values = dict(one.setup.parameters)
        lines.append(
            f"series {distinct[word]} {one.setup.collective} {one.shape.nodes} {one.shape.ppn}"
            f" {values['segsize']} {values['up']} {values['low']} {one.least} {one.most}"
            f" {one.reps} {TOLERANCE:g}"
        )
    return "\n".join(lines) + "\n"


def read_raw(path: Path, wanted: Sequence[Wanted]) -> RawOutput:
    """Read raw output of a plan of `wanted`, whole or cut off by a kill."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        text = ""
    # what follows the last end of line was cut off
    head, *lines = text.split("\n")[:-1] or [_RAW]
    if head != _RAW:
        raise DataError(f"{path}: line 1 is {head[:80]!r}, not raw output of this colltune")
    reading = _Reading(wanted)
    for number, line in enumerate(lines, 2):
        try:
            reading.line(line.split(" "))
        except (IndexError, ValueError) as error:
            raise DataError(f"{path}: line {number} makes no sense: {line[:80]!r}") from error
    in_flight = reading.open_series
    return RawOutput(tuple(reading.series), in_flight, reading.ended, reading.facts)


@dataclass
class _Reading:
    wanted: Sequence[Wanted]
    series: list[Measured] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    problems: dict[int, tuple[RunStatus, str]] = field(default_factory=dict)
    open_series: int | None = None
    ended: str = ""
    _times: dict[int, dict[tuple[int, int], tuple[float, ...]]] = field(default_factory=dict)

    def line(self, words: Sequence[str]) -> None:
        """Take note of a line."""
        kind = words[0]
        if kind == "s":
            self.open_series = int(words[1])
            self._times = defaultdict(dict)
        elif kind == "t":
            _, _, segments, rep, leader, *seconds = words
            found = tuple(map(float, seconds))
            self._times[int(segments)][int(rep), int(leader)] = found
        elif kind == "x":
            self.problems[int(words[1])] = RunStatus(words[2]), " ".join(words[3:])
        elif kind == "e":
            self.series += self._ended(int(words[1]), words[2], float(words[3]))
            self.open_series = None
        elif kind == "f":
            self.facts[words[1]] = " ".join(words[2:])
        elif kind == "end":
            self.ended = words[1]

    def _ended(self, index: int, how: str, wall_s: float) -> Iterator[Measured]:
        wanted = self.wanted[index]
        if index in self.problems:
            status, why = self.problems[index]
            yield _without_times(wanted, wall_s, status, why)
            return
        if not self._times:
            return  # the budget ended before anything was timed
        longest = max(self._times)
        by_rep: dict[int, list[tuple[float, ...]]] = defaultdict(list)
        for (rep, _), seconds in sorted(self._times[longest].items()):
            by_rep[rep].append(seconds)
        times = tuple(tuple(leaders) for _, leaders in sorted(by_rep.items()))
        manner = Manner.BOUNDED if how == _CUT_SHORT else Manner(how)
        yield Measured(wanted.shape, wanted.setup, longest, manner, times, wall_s)


def _without_times(wanted: Wanted, wall_s: float, status: RunStatus, why: str) -> Measured:
    exact = Manner.EXACT
    return Measured(wanted.shape, wanted.setup, wanted.least, exact, (), wall_s, status, why)


def blamed(wanted: Wanted, status: RunStatus, why: str) -> Measured:
    """Return what is kept of a series that ended a launch."""
    return _without_times(wanted, 0.0, status, why)
