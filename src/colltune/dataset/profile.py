"""What an application spends in collectives, as libcolltune has recorded it: ``*.profile``.

A process that calls a collective makes one of its calls; all of them together are one operation.
Seconds are summed over processes (``process_s``), waiting for the others included: divided by what
the processes' whole runs took, they are the share of the application's time.

Format history
--------------
1. Lines of words: the head (``colltune-profile 1``, ``library``, ``program``, ``job``, ``host``,
   ``started``, ``world``, ``rate``, ``wall_s``, ``collectives_s``, ``lost_calls``), one line
   ``configuration NUMBER ID`` per configuration that ran, ``columns`` with their names, one ``row``
   per kind of calls and configuration, and ``end`` with the FNV-1a hash (64 bits, hexadecimal) of
   everything before it.
2. The head also has ``arm`` (``tuned``, ``candidate``, ``control``, ``own``, ``-``) and
   ``left_out`` (how many rows found no place in the file, and their seconds). ``program`` may be
   ``#`` and a hash of the executable's path, ``host`` may be ``-``. A row also has ``times``, the
   sketch of the timed calls: ``-`` or ``K:CALLS,…``, K ascending. K counts the calls longer than
   gamma^(K-1) and at most gamma^K seconds, gamma = 1.05 / 0.95: the logarithmic mapping of DDSketch
   (Masson, Rim, Lee, VLDB 2019) with a relative accuracy of 0.05. Calls below 100 ns or above
   1000 s count in the first or last K.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from colltune.domain import LARGEST_NUMBER, Collective, Configuration, Shape, parse_collective
from colltune.errors import ColltuneError, DataError, say, unknown
from colltune.files.reading import content_of
from colltune.text import UNPRINTED, computed, counted

FORMAT_VERSION = 2
_OLDEST_VERSION = 1
SUFFIX = ".profile"
_COUNTS = ("calls", "bytes", "least_bytes", "most_bytes", "timed")
_SECONDS = ("timed_s", "least_s", "most_s", "squares_s2", "time_s")
_COLUMNS_1 = ["collective", "size", "layout", "first_bytes", "configuration", *_COUNTS, *_SECONDS]
COLUMNS = [*_COLUMNS_1, "times"]
UNKNOWN_ARM = "-"
ARMS = ("tuned", "candidate", "control", "own", UNKNOWN_ARM)
"""Which settings a run had: those of an arm of the site's comparison, or the user's own."""
GAMMA = 1.05 / 0.95
FIRST_TIME, LAST_TIME = -161, 70
"""The numbers of the sketch's buckets: 100 ns to 1000 s."""
_HEAD_1 = {
    "library": 2,
    **dict.fromkeys(("program", "job", "host", "started"), 1),
    "world": 2,
    **dict.fromkeys(("rate", "wall_s"), 1),
    "collectives_s": 3,
    "lost_calls": 1,
}
_HEAD = _HEAD_1 | {"arm": 1, "left_out": 2}
"""How many words follow each name of the head."""
_MEND = "the file was damaged or changed. Leave it out, or run the application again"
_LAYOUT = re.compile(r"(?P<nodes>\d{1,10})x(?P<ppn>\d{1,10}|-)")
_TIMES = re.compile(r"-|-?\d{1,3}:\d{1,20}(,-?\d{1,3}:\d{1,20})*")
_LONGEST_S = 1e12


@dataclass(frozen=True)
class ProfiledRun:
    """One run of the application."""

    library: str
    """MPI library"""
    release: str
    """its release"""
    program: str
    """name of the program"""
    job: str
    """id of the batch job, - without one"""
    host: str
    """host of rank 0"""
    started: str
    """UTC time"""
    nprocs: int
    """processes of MPI_COMM_WORLD"""
    shape: Shape | None
    """its shape; null: nodes hold different numbers of processes"""
    rate: int
    """one in so many calls was timed"""
    wall_s: float
    """from MPI_Init to MPI_Finalize"""
    collectives_s: tuple[float, float, float]
    """time of a process in collectives: mean, least, most"""
    lost_calls: int = 0
    """calls without room in the record"""
    # not in repr, which a profile's digest is made of: those of older versions stay the same
    arm: str = field(default=UNKNOWN_ARM, repr=False)
    """whose settings it had: tuned, candidate, control, own (the user's); - not known"""
    left_out: tuple[int, float] = field(default=(0, 0.0), repr=False)
    """rows without room in the file, and their time in seconds"""

    @property
    def process_s(self) -> float:
        return self.wall_s * self.nprocs


class CallKind(NamedTuple):
    """A collective on communicators of some size, with messages of one bin."""

    collective: Collective
    nprocs: int
    """processes of the communicator"""
    shape: Shape | None
    """how they lie; null: that is not known, or differs among their nodes"""
    first_bytes: int
    """smallest message of the bin: 0 alone, else a power of two"""

    @computed
    def last_bytes(self) -> int:
        """Largest message of the bin."""
        return max(0, 2 * self.first_bytes - 1)


@dataclass(frozen=True)
class Use:
    """The calls of one kind."""

    kind: CallKind
    """which calls"""
    process_calls: int
    """calls, summed over processes"""
    bytes: int
    """bytes of their messages, summed over these calls"""
    least_bytes: int
    """smallest message that was seen"""
    most_bytes: int
    """largest message that was seen"""
    timed: int
    """calls that were timed"""
    timed_s: float
    """their time"""
    least_s: float
    """shortest timed call; 0: none was timed"""
    most_s: float
    """longest timed call"""
    squares_s2: float
    """sum of the squares of their times"""
    process_s: float
    """time in all calls, summed over processes: an estimate by the timed ones"""
    ran: Mapping[str, int] = field(default_factory=dict)
    """calls by the configuration that ran them; empty name: the library's own decision"""
    times: Mapping[int, int] = field(default_factory=dict, repr=False, metadata=UNPRINTED)
    """timed calls by bucket of the sketch (see the module), empty where none was kept"""

    @computed
    def operations(self) -> float:
        """Calls of the collective, each by all processes of a communicator."""
        return self.process_calls / self.kind.nprocs

    @computed
    def msize_bytes(self) -> int:
        """Mean message."""
        return round(self.bytes / self.process_calls)

    @computed
    def call_s(self) -> float:
        """Mean time of a call."""
        return self.process_s / self.process_calls

    @computed
    def median_s(self) -> float | None:
        """Median of a call's time, within 5 %; null: no sketch was kept."""
        return quantile(self.times, 0.5)

    @computed
    def percentile_95_s(self) -> float | None:
        """The time that 95 % of the calls stay below, within 5 %; null: no sketch was kept."""
        return quantile(self.times, 0.95)

    @computed
    def deviation_s(self) -> float | None:
        """Standard deviation of a call's time; null: fewer than two were timed."""
        if self.timed < 2:
            return None
        mean = self.timed_s / self.timed
        return math.sqrt(max(0.0, self.squares_s2 / self.timed - mean**2))

    @property
    def default_share(self) -> float:
        return self.ran.get("", 0) / self.process_calls

    def __add__(self, other: Use) -> Use:
        timed = [use for use in (self, other) if use.timed]
        return Use(
            self.kind,
            self.process_calls + other.process_calls,
            self.bytes + other.bytes,
            min(self.least_bytes, other.least_bytes),
            max(self.most_bytes, other.most_bytes),
            self.timed + other.timed,
            self.timed_s + other.timed_s,
            min((use.least_s for use in timed), default=0.0),
            max((use.most_s for use in timed), default=0.0),
            self.squares_s2 + other.squares_s2,
            self.process_s + other.process_s,
            summed(self.ran, other.ran),
            summed(self.times, other.times),
        )


@dataclass(frozen=True)
class Profile:
    """Runs of an application, and what they spent."""

    jobs: tuple[ProfiledRun, ...]
    """runs"""
    uses: tuple[Use, ...]
    """kinds of calls, the longest first"""

    @computed
    def process_s(self) -> float:
        """Run time, summed over processes."""
        return math.fsum(job.process_s for job in self.jobs)

    @computed
    def collectives_s(self) -> float:
        """Time in collectives, summed over processes."""
        return math.fsum(use.process_s for use in self.uses)

    @computed
    def library(self) -> str:
        """MPI library."""
        return self.jobs[0].library

    @computed
    def release(self) -> str:
        """Its release."""
        return self.jobs[0].release

    @computed
    def programs(self) -> tuple[str, ...]:
        """Names of the programs."""
        return tuple(sorted({job.program for job in self.jobs}))

    @property
    def collectives(self) -> tuple[Collective, ...]:
        return tuple(sorted({use.kind.collective for use in self.uses}))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that it says, in hexadecimal digits."""
        text = repr((sorted(map(repr, self.jobs)), sorted(map(repr, self.uses))))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_Key = TypeVar("_Key", str, int)


def summed(*counts: Mapping[_Key, int]) -> dict[_Key, int]:
    """Return the sum of counts by key, keys ascending; sketches are merged so without loss."""
    total: Counter[_Key] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


def bucket(seconds: float) -> int:
    """Return the number of the sketch's bucket that counts a call of `seconds`."""
    if seconds <= 0:
        return FIRST_TIME
    return min(max(math.ceil(math.log(seconds) / math.log(GAMMA)), FIRST_TIME), LAST_TIME)


def quantile(times: Mapping[int, int], q: float) -> float | None:
    """Return the seconds that a share `q` of the calls in a sketch stay below; None without any."""
    rank, seen = q * (sum(times.values()) - 1), 0
    for number, calls in sorted(times.items()):
        seen += calls
        if seen > rank:
            return 2 * GAMMA**number / (1 + GAMMA)
    return None


def added_up(jobs: Iterable[ProfiledRun], uses: Iterable[Use]) -> Profile:
    jobs = tuple(sorted(jobs, key=lambda job: (job.started, job.job, job.host)))
    libraries = sorted({f"{job.library} {job.release}" for job in jobs})
    if not jobs:
        raise say("no-profiles")
    if len(libraries) > 1:
        names = ", ".join(libraries)
        raise say("libraries-differ", what="profiles", done="added up", libraries=names)
    found: dict[CallKind, Use] = {}
    for use in uses:
        found[use.kind] = found[use.kind] + use if use.kind in found else use
    return Profile(jobs, tuple(sorted(found.values(), key=_order)))


def _order(use: Use) -> tuple[float, Collective, int, str, int]:
    kind = use.kind
    return (-use.process_s, kind.collective, kind.nprocs, str(kind.shape), kind.first_bytes)


def read_profiles(paths: Sequence[Path], programs: Iterable[str] = ()) -> Profile:
    """Read and add up the profiles at `paths`: files, or folders whose ``*.profile`` are read.

    `programs` keeps the runs of programs with these names; all if there are none.
    """
    read = [parse_profile(content, str(file)) for file, content in profile_files(paths).items()]
    wanted = set(programs)
    kept = [(job, uses) for job, uses in read if not wanted or job.program in wanted]
    if not kept:
        there = ", ".join(sorted({job.program for job, _ in read}))
        raise say("no-profile-of", wanted=", ".join(sorted(wanted)), there=there)
    return added_up((job for job, _ in kept), (use for _, uses in kept for use in uses))


def profile_files(paths: Sequence[Path]) -> dict[Path, bytes]:
    """Return the content of each file at `paths`, as `read_profiles` finds them."""
    files = dict.fromkeys(file.resolve() for path in paths for file in _files(path))
    mend = "name a profile that libcolltune wrote"
    return {file: content_of(file, DataError, mend) for file in files}


def _files(path: Path) -> list[Path]:
    found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not found:
        raise say("no-profile-here", path=path)
    return found


def parse_profile(content: bytes, source: str) -> tuple[ProfiledRun, list[Use]]:
    """Return the job in a file's `content`, and its uses; `source` names the file in errors."""
    match = re.fullmatch(rb"colltune-profile (\d{1,9})", content.split(b"\n", 1)[0])
    if match is None:
        raise say("not-a-profile", file=source)
    version = int(match[1])
    if not _OLDEST_VERSION <= version <= FORMAT_VERSION:
        known = f"{_OLDEST_VERSION} to {FORMAT_VERSION}"
        raise say("format-version", place=f"{source}, line 1:", version=version, known=known)
    body, _, last = content.rstrip(b"\n").rpartition(b"\n")
    body += b"\n"
    names = (_HEAD_1, _COLUMNS_1) if version == 1 else (_HEAD, COLUMNS)
    reader = _ProfileReader(source, body.count(b"\n") + 1, *names)
    if last != f"end {fnv1a(body):016x}".encode():
        raise reader.wrong(say("wrong-checksum"))
    for reader.number, line in enumerate(body.decode("utf-8", "replace").splitlines(), start=1):
        if reader.number > 1:
            reader.take(line)
    return reader.job(), reader.uses


def fnv1a(content: bytes) -> int:
    """Return the FNV-1a hash of `content`, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


@dataclass
class _ProfileReader:
    """Reads line by line, names of the head with so many words each, and rows of ``columns``.

    ``head`` has the words of each of its lines, and their numbers.
    """

    source: str
    number: int
    names: Mapping[str, int]
    columns: Sequence[str]
    head: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    configurations: dict[int, str] = field(default_factory=lambda: {0: ""})
    has_columns: bool = False
    uses: list[Use] = field(default_factory=list)

    def wrong(self, why: ColltuneError) -> ColltuneError:
        error = DataError(f"{self.source}, line {self.number}: {why.finding}", _MEND)
        return error.named(why.code, {**why.values, "line": self.number})

    def take(self, line: str) -> None:
        name, *words = line.split(" ")
        if name in self.names:
            if name in self.head or len(words) != self.names[name] or not all(words):
                raise self.wrong(say("not-once", name=name, words=self.names[name]))
            self.head[name] = self.number, words
        elif name == "configuration" and len(words) == 2:
            try:
                identity = Configuration.parse(words[1]).id
            except DataError as error:
                raise self.wrong(say("not-an-id", value=words[1][:80], error=error)) from None
            self.configurations[self.count(words[0], "the number")] = identity
        elif name == "columns":
            if words != list(self.columns):
                raise self.wrong(say("columns-differ", expected=" ".join(self.columns)))
            self.has_columns = True
        elif name == "row" and self.has_columns:
            if len(words) != len(self.columns):
                raise self.wrong(say("columns-missing", count=len(words), wanted=len(self.columns)))
            self.uses.append(self.use(dict(zip(self.columns, words, strict=True))))
        else:
            raise self.wrong(say("line-unknown", value=line[:40]))

    def job(self) -> ProfiledRun:
        missing = [name for name in self.names if name not in self.head]
        if missing or not self.has_columns:
            raise self.wrong(say("line-missing", name=(*missing, "columns")[0]))
        # one after the other, since an error names the line that was asked for last
        world, layout = self.line_of("world")
        nprocs = self.count(world, "processes", least=1)
        shape = self.layout(layout, nprocs)
        rate = self.count(self.line_of("rate")[0], "rate", least=1)
        wall_s = self.seconds(self.line_of("wall_s")[0], "wall_s")
        inside = [self.seconds(text, "collectives_s") for text in self.line_of("collectives_s")]
        lost_calls = self.count(self.line_of("lost_calls")[0], "lost_calls")
        arm, left_out = self.settings(), self.left_out()
        library, release = self.line_of("library")
        names = {name: self.line_of(name)[0] for name in ("program", "job", "host", "started")}
        return ProfiledRun(
            library,
            release,
            **names,
            nprocs=nprocs,
            shape=shape,
            rate=rate,
            wall_s=wall_s,
            collectives_s=(inside[0], inside[1], inside[2]),
            lost_calls=lost_calls,
            arm=arm,
            left_out=left_out,
        )

    def settings(self) -> str:
        arm = self.line_of("arm")[0] if "arm" in self.names else UNKNOWN_ARM
        if arm not in ARMS:
            raise self.wrong(unknown("arm", arm[:40], ARMS, DataError))
        return arm

    def left_out(self) -> tuple[int, float]:
        rows, seconds = self.line_of("left_out") if "left_out" in self.names else ("0", "0")
        return self.count(rows, "rows left out"), self.seconds(seconds, "their seconds")

    def line_of(self, name: str) -> list[str]:
        self.number, words = self.head[name]
        return words

    def use(self, row: dict[str, str]) -> Use:
        calls = self.count(row["calls"], "calls", least=1)
        timed = self.count(row["timed"], "timed", most=calls)
        ran = self.configurations.get(self.count(row["configuration"], "configuration"))
        if ran is None:
            raise self.wrong(say("configuration-not-named", configuration=row["configuration"]))
        kind = self.kind(row)
        least = self.count(row["least_bytes"], "least_bytes", least=kind.first_bytes)
        most = self.count(row["most_bytes"], "most_bytes", least=least, most=kind.last_bytes)
        total = self.count(row["bytes"], "bytes", least=least * calls, most=most * calls)
        found = {name: self.seconds(row[name], name) for name in _SECONDS}
        times = self.times(row.get("times", "-"), timed)
        found["process_s"] = found.pop("time_s")
        return Use(kind, calls, total, least, most, timed, **found, ran={ran: calls}, times=times)

    def times(self, text: str, timed: int) -> dict[int, int]:
        pairs = [pair.split(":") for pair in text.split(",")] if text != "-" else []
        found = {int(k): int(n) for k, n in pairs} if _TIMES.fullmatch(text) else {}
        # as it was written: every bucket once, ascending
        written = ",".join(f"{k}:{n}" for k, n in sorted(found.items())) or "-"
        within = all(FIRST_TIME <= k <= LAST_TIME and n > 0 for k, n in found.items())
        if written != text or not within or sum(found.values()) > timed:
            raise self.wrong(
                say("not-a-sketch", value=text[:40], timed=counted(timed, "timed call"))
            )
        return found

    def kind(self, row: dict[str, str]) -> CallKind:
        try:
            collective = parse_collective(row["collective"])
        except DataError as error:
            text = row["collective"][:80]
            raise self.wrong(say("not-a-collective", text=text, error=error)) from None
        nprocs = self.count(row["size"], "size", least=1)
        first = self.count(row["first_bytes"], "first_bytes")
        if first & (first - 1):
            raise self.wrong(say("not-a-power", first=first))
        return CallKind(collective, nprocs, self.layout(row["layout"], nprocs), first)

    def layout(self, text: str, nprocs: int) -> Shape | None:
        match = _LAYOUT.fullmatch(text)
        if text == "-" or (match and match["ppn"] == "-"):
            return None
        if match is None or int(match["nodes"]) * int(match["ppn"]) != nprocs:
            raise self.wrong(
                say("not-a-layout", value=text[:40], nprocs=counted(nprocs, "process", "es"))
            )
        return Shape(int(match["nodes"]), int(match["ppn"]))

    def count(self, text: str, what: str, least: int = 0, most: int = LARGEST_NUMBER) -> int:
        digits = text.isascii() and text.isdigit() and len(text) < 40
        if not digits or not least <= int(text) <= most:
            raise self.wrong(say("not-whole", what=what, value=text[:40], least=least, most=most))
        return int(text)

    def seconds(self, text: str, what: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < _LONGEST_S:
            raise self.wrong(say("not-seconds", what=what, value=text[:40]))
        return value
