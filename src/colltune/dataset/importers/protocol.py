"""What importing asks of a reader of another program's measurements."""

from __future__ import annotations

import errno
import hashlib
import io
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Protocol, Self

from colltune.dataset.frame import PerformanceDataset
from colltune.dataset.method import Condition
from colltune.dataset.tidy_csv import without_prefixes
from colltune.domain import Collective, Configuration, Instance, LaunchStatistics, RunStatus, Shape
from colltune.errors import ColltuneError, say
from colltune.files.reading import opened
from colltune.files.unpacking import encoding_of, unpacked

_WHOLE = re.compile(r"[0-9]{1,18}")
_REAL = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,2})?|nan|inf)")
_ALL_COLLECTIVES = {collective.value.replace("_", "") for collective in Collective}
_ALL_COLLECTIVES |= {"gatherv", "scatterv", "alltoallw", "exscan", "scan", "broadcast"}
_NO_PLAIN_COLLECTIVES = {
    "nccl": "is not of MPI",
    "rccl": "is not of MPI",
    "nonblocking": "is a nonblocking collective",
    "persistent": "is a persistent collective",
    "neighbor": "is a neighbourhood collective",
}
_LONGEST_LINE = 1 << 20
_LINES_BETWEEN = 10_000


def whole(text: str) -> int | None:
    """Return the number of at least 0 that `text` is (it fits 64 bits), or None if it is none."""
    return int(text) if _WHOLE.fullmatch(text) else None


def real(text: str) -> float | None:
    """Return the number that `text` is, such as ``-1.5``, ``2e-06`` or ``nan``, or None."""
    return float(text) if _REAL.fullmatch(text) else None


def filled(nprocs: int, slots: int) -> Shape | None:
    """Return the shape of processes that fill nodes of so many slots in turn; None: uneven."""
    if nprocs <= slots:
        return Shape(1, nprocs)
    return Shape(nprocs // slots, slots) if nprocs % slots == 0 else None


def over_ranks(
    n_reps: int, most_us: float, mean_us: float | None, least_us: float | None
) -> LaunchStatistics:
    """Return the summary of means over so many repetitions, of which ranks have these."""
    mean_s, least_s = (math.nan if us is None else us * 1e-6 for us in (mean_us, least_us))
    time_s = most_us * 1e-6
    nothing = math.nan
    return LaunchStatistics(n_reps, time_s, time_s, nothing, nothing, nothing, mean_s, least_s)


def why_left_out(benchmark: str) -> str:
    """Return why there are no measurements of another program's `benchmark` here."""
    name = re.sub(
        r"^mpi(?:-[a-z]+)?|latency|personalized|exchange|pure$|[^a-z]", "", benchmark.lower()
    )
    known = name.removesuffix("gpu") in _ALL_COLLECTIVES
    if "multi-" in benchmark.lower():
        return "runs several groups at once"
    for sign, why in _NO_PLAIN_COLLECTIVES.items():
        if sign in name:
            return why
    if known:
        return "is a collective that colltune does not tune"
    if name.startswith("i") and name[1:] in _ALL_COLLECTIVES:
        return "is a nonblocking collective"
    return "is not a collective"


@dataclass(frozen=True)
class SourceFile:
    """A file, plain or packed; `with_folder` where its name alone does not tell it from others.

    `progress` is called with the bytes read so far, once in a while.
    """

    path: Path
    with_folder: bool = False
    progress: Callable[[int], None] = field(default=lambda _bytes: None, compare=False)

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def launch(self) -> str:
        """The launch's name where the user gives none: the file's, without ``.gz`` and its like."""
        name = re.sub(r"\.(?:gz|bz2|xz|zst)$", "", self.path.name)
        return f"{self.path.absolute().parent.name}/{name}" if self.with_folder else name

    def lines(self) -> Iterator[str]:
        """Yield its lines as the program printed them, ended by a line feed.

        Bytes that are no text become a placeholder.
        """
        return without_prefixes(self._lines(), self.name)

    def _lines(self) -> Iterator[str]:
        try:
            with unpacked(self.path) as (raw, content):
                text = io.TextIOWrapper(content, encoding_of(content), errors="replace")
                for number in count():
                    if number % _LINES_BETWEEN == 0:
                        self.progress(raw.tell())
                    if not (line := text.readline(_LONGEST_LINE)):
                        break
                    yield line
        except OSError as error:
            raise self.unreadable(error) from error

    def sha256(self) -> str:
        try:
            with opened(self.path) as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: BaseException) -> ColltuneError:
        if isinstance(error, FileNotFoundError):
            return say("no-such-data", path=self.path)
        if isinstance(error, IsADirectoryError):
            return say("is-a-folder", path=self.path)
        why = getattr(error, "strerror", None) or error
        if getattr(error, "errno", None) == errno.EINVAL:
            return say("not-read", path=self.path, why=why)
        return say("cut-short", path=self.path, why=why)


class TimeKind(StrEnum):
    """What a source's time stands for; ours is the first."""

    MEDIAN_OF_MAXIMA = "median over repetitions of the maximum over ranks"
    MEAN_OF_MAXIMA = "mean over repetitions of the maximum over ranks"
    MEDIAN_OF_SPANS = "median over repetitions of last end minus first start"
    MEAN_OF_SPANS = "mean over repetitions of last end minus first start"
    MAXIMUM_OF_MEANS = "maximum over ranks of each rank's mean over repetitions"
    MEDIAN_OF_RANK_MEANS = "median over repetitions of the mean over ranks"
    MEAN = "mean over ranks and repetitions"
    UNTOLD = "as the file says"

    def compares_with(self, other: TimeKind) -> bool:
        """Tell whether times of both may be joined: a mean over ranks hides the slowest one."""
        means = (TimeKind.MEDIAN_OF_RANK_MEANS, TimeKind.MEAN)
        return self is other or not (self in means or other in means)


Parameters = tuple[tuple[str, int | str], ...]
Place = tuple[str, str]
"""The value of a condition, and where it was found."""


@dataclass(frozen=True)
class ImportedRow:
    """One measured cell as a source tells it, in our units.

    ``line`` is where it stands; ``nprocs`` is None where the source does not tell; ``algorithm`` is
    the source's word or number for it, empty where the file has none. ``conditions`` are what rows
    of one collective must have in common to be comparable, by the names of ``CONDITIONS``. Where
    ``split_bytes`` is not 0, ``msize_bytes`` is a whole buffer of elements of so many bytes, which
    the source divided into equal blocks; ours is such a block.
    """

    collective: Collective
    msize_bytes: int
    nprocs: int | None
    kind: TimeKind
    line: int
    status: RunStatus = RunStatus.OK
    times_s: tuple[float, ...] = ()
    summary: LaunchStatistics | None = None
    algorithm: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    split_bytes: int = 0


@dataclass(frozen=True)
class ParsedOutput:
    """What a file says: its rows, its header's facts, and remarks on what was left out and why."""

    rows: tuple[ImportedRow, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass
class LineReader(ABC):
    """Reads a file line by line; ``facts`` holds the different values of each fact, in order."""

    name: str
    number: int = 0
    rows: list[ImportedRow] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    facts: dict[str, dict[str, None]] = field(default_factory=dict)

    @abstractmethod
    def feed(self, line: str) -> None:
        """Take the next line, which has the ``number``."""

    def read(self, lines: Iterable[str]) -> Self:
        for self.number, line in enumerate(lines, start=1):
            self.feed(line)
        return self

    def reading(self) -> ParsedOutput:
        facts = {key: "; ".join(values) for key, values in self.facts.items()}
        return ParsedOutput(tuple(self.rows), facts, tuple(self.remarks))

    def is_cut_off(self, line: str) -> bool:
        """Tell whether a row is the end of a file that lost its last bytes, and remark on it."""
        if line.endswith("\n"):
            return False
        self.remarks.append(f"the last line ({self.number}) is incomplete and is left out")
        return True

    def wrong(self, why: ColltuneError) -> ColltuneError:
        return why.of(f"{self.name}, line {self.number}", line=self.number)


class Algorithms(Protocol):
    """What is known of the MPI library whose measurements are imported."""

    def at(self, release: str) -> Algorithms:
        """Return what is known of another release."""
        ...

    def library(self, word: str) -> str:
        """Return the name of the library that a file calls `word`; an unknown one as it is."""
        ...

    def configuration(
        self, library: str, collective: Collective, word: str, parameters: Parameters = ()
    ) -> Configuration:
        """Return the configuration that a file calls `word`, which may be a number."""
        ...

    def chosen(self, library: str, collective: Collective, script: str) -> Configuration | None:
        """Return what the variables of a job's script choose; None: nothing, or it is unknown."""
        ...

    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the one spelling of `configuration`, as the library's catalogue has it."""
        ...

    def why_not(self, configuration: Configuration, instance: Instance) -> str:
        """Return why the library would have run something else; empty if it would not."""
        ...


@dataclass(frozen=True)
class ImportRequest:
    """What the user says beside the files: see `colltune data import`.

    ``settings`` are what the files do not tell (our name to value), ``columns`` maps our column to
    the file's, ``where`` says which rows to keep, ``launch`` names the launch. ``round_trip_s`` is
    the shortest round trip between two nodes. ``from_commands`` takes shapes and algorithms from
    the launchers' commands in a file, ``path`` is a pattern that takes settings from its path.
    """

    settings: Mapping[str, str]
    algorithms: Algorithms
    columns: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    time_unit: str = ""
    launch: str = ""
    round_trip_s: float | None = None
    from_commands: bool = False
    path: str = ""


@dataclass(frozen=True)
class Imported:
    """One file as a dataset, with what is to be stored as its provenance and told to the user."""

    dataset: PerformanceDataset
    kinds: frozenset[TimeKind] = frozenset()
    facts: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    conditions: Mapping[Condition, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Importer:
    """Reads one format; a line that `signs` match is unmistakable, None where no line is."""

    title: str
    signs: re.Pattern[str] | None
    load: Callable[[SourceFile, ImportRequest], Imported]

    def recognises(self, line: str) -> bool:
        return self.signs is not None and self.signs.match(line) is not None
