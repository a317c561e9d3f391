"""Files of profiles, as libcolltune writes them: one per job, ``*.profile``.

Format history
--------------
1. Lines of words: the head (``colltune-profile 1``, ``library``, ``program``, ``job``, ``host``,
   ``started``, ``world``, ``rate``, ``wall_s``, ``collectives_s``, ``lost_calls``), one line
   ``configuration NUMBER ID`` per configuration that ran, ``columns`` with their names, one ``row``
   per kind of calls and configuration, and ``end`` with the FNV-1a hash (64 bits, hexadecimal) of
   everything before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from colltune.dataset.profile import Job, Kind, Profile, Use, added_up
from colltune.domain import LARGEST_NUMBER, Configuration, Shape, parse_collective
from colltune.errors import DataError
from colltune.files.reading import content_of

FORMAT_VERSION = 1
SUFFIX = ".profile"
COLUMNS = [
    "collective",
    "size",
    "layout",
    "first_bytes",
    "configuration",
    "calls",
    "bytes",
    "least_bytes",
    "most_bytes",
    "timed",
    "timed_s",
    "least_s",
    "most_s",
    "squares_s2",
    "time_s",
]
_MEND = "it is damaged or was changed; leave it out, or run the application again"
_LAYOUT = re.compile(r"(?P<nodes>\d{1,10})x(?P<ppn>\d{1,10}|-)")
_HEAD = {
    "library": 2,
    "program": 1,
    "job": 1,
    "host": 1,
    "started": 1,
    "world": 2,
    "rate": 1,
    "wall_s": 1,
    "collectives_s": 3,
    "lost_calls": 1,
}
"""How many words follow each name of the head."""
_LONGEST_S = 1e12
_Value = TypeVar("_Value")


def read_profiles(paths: Sequence[Path], programs: Iterable[str] = ()) -> Profile:
    """Read and add up the profiles at `paths`: files, or folders whose ``*.profile`` are read.

    `programs` keeps the runs of programs with these names; all if there are none.
    """
    files = [file for path in paths for file in _files(path)]
    read = [_read(file) for file in dict.fromkeys(file.resolve() for file in files)]
    wanted = set(programs)
    kept = [(job, uses) for job, uses in read if not wanted or job.program in wanted]
    if not kept:
        there = ", ".join(sorted({job.program for job, _ in read}))
        raise DataError(f"no profile of {', '.join(sorted(wanted))}; there are profiles of {there}")
    return added_up((job for job, _ in kept), (use for _, uses in kept for use in uses))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(f"*{SUFFIX}"))
    if not found:
        raise DataError(
            f"{path}: holds no *{SUFFIX}; run the application with COLLTUNE_PROFILE={path}"
        )
    return found


def _read(path: Path) -> tuple[Job, list[Use]]:
    content = content_of(path, DataError, "name a profile that libcolltune wrote")
    return parse_profile(content, str(path))


def parse_profile(content: bytes, source: str) -> tuple[Job, list[Use]]:
    """Return the job in a file's `content`, and its uses; `source` names the file in errors."""
    first = content.split(b"\n", 1)[0]
    match = re.fullmatch(rb"colltune-profile (\d{1,9})", first)
    if match is None:
        raise DataError(f"{source}, line 1: not a profile; libcolltune writes them as *{SUFFIX}")
    if int(match[1]) != FORMAT_VERSION:
        raise DataError(
            f"{source}, line 1: a profile of format {int(match[1])} is not known to this colltune,"
            f" which reads {FORMAT_VERSION}; upgrade colltune"
        )
    body, _, last = content.rstrip(b"\n").rpartition(b"\n")
    body += b"\n"
    if last != f"end {fnv1a(body):016x}".encode():
        number = body.count(b"\n") + 1
        raise DataError(f"{source}, line {number}: the end does not fit the rest; {_MEND}")
    reader = _Reader(source)
    for number, line in enumerate(body.decode("utf-8", "replace").splitlines()[1:], start=2):
        reader.take(number, line)
    return reader.job(), reader.uses


def fnv1a(content: bytes) -> int:
    """Return the FNV-1a hash of `content`, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


@dataclass
class _Reader:
    source: str
    number: int = 1
    head: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    configurations: dict[int, str] = field(default_factory=lambda: {0: ""})
    columns: list[str] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)

    def take(self, number: int, line: str) -> None:
        self.number = number
        name, *words = line.split(" ")
        if name in _HEAD:
            self._take_head(name, words)
        elif name == "configuration" and len(words) == 2:
            identity = self._made(Configuration.parse, words[1], "an id").id
            self.configurations[self._count(words[0], "the number")] = identity
        elif name == "columns":
            if words != COLUMNS:
                raise self._wrong(f"the columns must be {' '.join(COLUMNS)}")
            self.columns = words
        elif name == "row" and self.columns:
            if len(words) != len(COLUMNS):
                raise self._wrong(f"{len(words)} columns where there must be {len(COLUMNS)}")
            self.uses.append(self._use(dict(zip(COLUMNS, words, strict=True))))
        else:
            raise self._wrong(f"{line[:40]!r} does not belong here")

    def job(self) -> Job:
        missing = [name for name in _HEAD if name not in self.head]
        if missing or not self.columns:
            raise self._wrong(f"{(*missing, 'columns')[0]} is missing")
        # one after the other, since an error names the line that was asked for last
        world, layout = self._head("world")
        nprocs = self._count(world, "processes", least=1)
        shape = self._layout(layout, nprocs)
        rate = self._count(self._head("rate")[0], "rate", least=1)
        wall_s = self._seconds(self._head("wall_s")[0], "wall_s")
        inside = [self._seconds(text, "collectives_s") for text in self._head("collectives_s")]
        lost_calls = self._count(self._head("lost_calls")[0], "lost_calls")
        library, release = self._head("library")
        names = {name: self._head(name)[0] for name in ("program", "job", "host", "started")}
        return Job(
            library,
            release,
            **names,
            nprocs=nprocs,
            shape=shape,
            rate=rate,
            wall_s=wall_s,
            collectives_s=(inside[0], inside[1], inside[2]),
            lost_calls=lost_calls,
        )

    def _take_head(self, name: str, words: list[str]) -> None:
        if name in self.head or len(words) != _HEAD[name] or not all(words):
            raise self._wrong(f"{name} must stand there once, with {_HEAD[name]} words")
        self.head[name], self.lines[name] = words, self.number

    def _head(self, name: str) -> list[str]:
        self.number = self.lines[name]
        return self.head[name]

    def _use(self, row: dict[str, str]) -> Use:
        calls = self._count(row["calls"], "calls", least=1)
        timed = self._count(row["timed"], "timed", most=calls)
        ran = self.configurations.get(self._count(row["configuration"], "configuration"))
        if ran is None:
            raise self._wrong(f"configuration {row['configuration']} was not named before")
        kind = self._kind(row)
        least = self._count(row["least_bytes"], "least_bytes", least=kind.first_bytes)
        most = self._count(row["most_bytes"], "most_bytes", least=least, most=kind.last_bytes)
        total = self._count(row["bytes"], "bytes", least=least * calls, most=most * calls)
        seconds = {
            name: self._seconds(row[name], name)
            for name in ("timed_s", "least_s", "most_s", "squares_s2")
        }
        return Use(
            kind,
            process_calls=calls,
            bytes=total,
            least_bytes=least,
            most_bytes=most,
            timed=timed,
            **seconds,
            process_s=self._seconds(row["time_s"], "time_s"),
            ran={ran: calls},
        )

    def _kind(self, row: dict[str, str]) -> Kind:
        collective = self._made(parse_collective, row["collective"], "a collective")
        nprocs = self._count(row["size"], "size", least=1)
        first = self._count(row["first_bytes"], "first_bytes")
        if first & (first - 1):
            raise self._wrong(f"first_bytes {first} is neither 0 nor a power of two")
        return Kind(collective, nprocs, self._layout(row["layout"], nprocs), first)

    def _layout(self, text: str, nprocs: int) -> Shape | None:
        match = _LAYOUT.fullmatch(text)
        if text == "-" or (match and match["ppn"] == "-"):
            return None
        if match is None or int(match["nodes"]) * int(match["ppn"]) != nprocs:
            raise self._wrong(f"{text[:40]!r} is no layout of {nprocs} processes, such as 4x2 or -")
        return Shape(int(match["nodes"]), int(match["ppn"]))

    def _count(self, text: str, what: str, least: int = 0, most: int | None = None) -> int:
        # bytes of all calls may be more than 64 bits hold in theory only
        limit = LARGEST_NUMBER if most is None else most
        digits = text.isascii() and text.isdigit() and len(text) < 40
        if not digits or not least <= int(text) <= limit:
            raise self._wrong(f"{what} {text[:40]!r} is no whole number from {least} to {limit}")
        return int(text)

    def _seconds(self, text: str, what: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < _LONGEST_S:
            raise self._wrong(f"{what} {text[:40]!r} is no number of seconds")
        return value

    def _made(self, make: Callable[[str], _Value], text: str, what: str) -> _Value:
        try:
            return make(text)
        except DataError as error:
            raise self._wrong(f"{text[:80]!r} is not {what}: {error}") from None

    def _wrong(self, why: str) -> DataError:
        return DataError(f"{self.source}, line {self.number}: {why}; {_MEND}")
