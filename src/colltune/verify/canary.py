"""Starts the canary by the user's launcher and reads what it tells (see native/canary.c)."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote

from colltune import leftovers, process
from colltune.bench import build
from colltune.domain import Collective
from colltune.errors import ColltuneError, say
from colltune.mpi import formats, trace
from colltune.mpi.installation import Installation, misplaced
from colltune.mpi.programs import FOR_A_PROGRAM, Programs, Results
from colltune.mpi.trace import Function
from colltune.verify.user_line import UserLine, check_line, installation_of

_TOLD = re.compile(r"\bCANARY (?P<kind>[a-z]+)(?P<rest>(?: \S+)*)")
_SHOWN = re.compile(
    r"^\[[^\]]*\] (?P<name>coll\w*)=(?P<value>.*?) \((?P<source>[^()]+(?:\([^()]*\))?)\)$"
)
_MOST_LAUNCHES = 6
_MOST_HANGS = 1
_CALLS_PER_LAUNCH = 200
VARYING = "varying"


class CallEnding(StrEnum):
    OK = "ok"
    WRONG = "wrong"
    DISAGREE = "disagree"
    """Ranks hold different bits of a result."""
    REFUSED = "refused"
    CRASH = "crash"
    HANG = "hang"
    NOT_RUN = "not_run"


@dataclass(frozen=True, order=True)
class CanaryCall:
    """A call for the canary, on processes that lie evenly on the first `nodes` nodes."""

    collective: Collective
    msize_bytes: int
    comm_size: int
    """processes of the communicator"""
    nodes: int
    """nodes that they lie on"""
    is_whole: bool = False
    """whether these are all processes of the job as they are"""

    @property
    def word(self) -> str:
        size = 0 if self.is_whole else self.comm_size
        return f"{self.collective}:{self.msize_bytes}:{size}:{self.nodes}"


@dataclass(frozen=True)
class FileSeen:
    """What one process made of one file: ``why`` it cannot read it, or its length and checksum."""

    rank: int
    host: str
    index: int
    why: str = ""
    size_bytes: int = 0
    crc: int = 0


@dataclass(frozen=True)
class Look:
    """What a launch without MPI found: each process's view of the files and of the settings."""

    files: tuple[FileSeen, ...]
    nprocs: int
    differing_ranks: tuple[int, ...]


@dataclass(frozen=True)
class CallSeen:
    """What became of a call, and the functions behind it where they can be traced.

    ``bits`` is a hash of what all ranks got where they reduced floating-point numbers, `VARYING` if
    they got something else when they did it again, empty if nothing was reduced.
    """

    ending: CallEnding
    why: str = ""
    functions: tuple[Function, ...] = ()
    bits: str = ""


@dataclass(frozen=True)
class CanaryRun:
    """What a launch with MPI told."""

    outcome: process.ProcessResult
    nprocs: int = 0  # 0: MPI_Init never came back
    starts: int = 0
    library: str = ""
    nodes: tuple[tuple[str, int], ...] = ()  # pairs of host and processes
    settings: Mapping[str, str] = field(default_factory=dict)
    # parameters, with their source, that the library itself showed
    shown: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    calls: Mapping[CanaryCall, CallSeen] = field(default_factory=dict)


@dataclass(frozen=True)
class Canary:
    """The compiled canary behind the user's launcher line.

    ``reduces`` are words for what reductions are called with beside sums.
    """

    line: UserLine
    program: Path
    limit_s: float
    reduces: tuple[str, ...] = ()

    def look(self, paths: Sequence[Path]) -> Look:
        """Return which processes can read `paths`, without starting MPI."""
        for _ in range(2):
            outcome = self._launch(["look", *map(str, paths)], {})
            seen = read_look(f"{outcome.stderr}\n{outcome.stdout}")
            heard = {file.rank for file in seen.files}
            # a launcher that does not notice the end has told everything all the same
            if heard and len(heard) >= max(1, seen.nprocs) and (outcome.ok or outcome.timed_out):
                return seen
            if not outcome.ok:
                raise self._failed(outcome)
        heard_of = f"{len(heard)} of {seen.nprocs or 'all'}"
        raise say("some-reported", heard=heard_of, told=outcome.explain())

    def run(
        self, calls: Sequence[CanaryCall], wanted: Mapping[str, str], tracer: Path | None = None
    ) -> CanaryRun:
        words = ["run"] if tracer is None else ["traced", str(tracer)]
        outcome = self._launch([*words, *self.reduces, *(call.word for call in calls)], wanted)
        return read_run(outcome, calls)

    def start(self, wanted: Mapping[str, str]) -> CanaryRun:
        """Start MPI without any call, and insist that it comes up as one job."""
        run = self.run([], wanted)
        if run.outcome.timed_out or not run.nprocs:
            raise self._failed(run.outcome)
        if run.starts > 1:
            mpi = run.library.partition(",")[0]
            raise say("several-jobs", line=self.line.text, jobs=run.starts, mpi=mpi)
        if run.nprocs == 1:
            raise say("job-of-one-process", line=self.line.text)
        return run

    def _launch(self, words: Sequence[str], wanted: Mapping[str, str]) -> process.ProcessResult:
        command = [*self.line.words, str(self.program), *words]
        environment = self.line.variables(wanted)
        mark = leftovers.new_mark()
        return process.run(command, timeout_s=self.limit_s, env=environment, mark=mark)

    def _failed(self, outcome: process.ProcessResult) -> ColltuneError:
        misled, mend = misplaced(Path(outcome.command[0]), self.line.user)
        why = f": {misled}; {mend}" if misled else ""
        folder, told = self.program.parent, outcome.explain()
        if outcome.timed_out:
            return say("job-stopped", limit_s=self.limit_s, why=why, folder=folder, told=told)
        return say("nothing-reported", why=why, folder=folder, told=told)


def read_look(text: str) -> Look:
    files, sums, nprocs = [], {}, 0
    for kind, words in _told(text):
        if kind in ("file", "unreadable") and len(words) >= 5:
            nprocs = max(nprocs, int(words[1]))
            files.append(_file_seen(kind, words))
        elif kind == "settings" and len(words) == 2:
            sums[int(words[0])] = words[1]
    differing = tuple(sorted(rank for rank, crc in sums.items() if crc != sums.get(0, crc)))
    unique = tuple(sorted(set(files), key=lambda seen: (seen.rank, seen.index)))
    return Look(unique, nprocs, differing)


def _file_seen(kind: str, words: Sequence[str]) -> FileSeen:
    rank, _, host, index = words[:4]
    if kind == "unreadable":
        return FileSeen(int(rank), host, int(index), why=words[4])
    return FileSeen(int(rank), host, int(index), size_bytes=int(words[4]), crc=int(words[5], 16))


def read_run(outcome: process.ProcessResult, calls: Sequence[CanaryCall]) -> CanaryRun:
    text = f"{outcome.stderr}\n{outcome.stdout}"
    told = list(_told(text))
    started = [int(words[0]) for kind, words in told if kind == "started" and words]
    first = {kind: words[0] for kind, words in reversed(told) if words}
    nodes = {int(words[0]): (words[2], int(words[1])) for k, words in told if k == "node"}
    pairs = [words[0].partition("=") for kind, words in told if kind == "set" and words]
    return CanaryRun(
        outcome,
        nprocs=started[0] if started else 0,
        starts=len(started),
        library=first.get("library", ""),
        nodes=tuple(nodes[index] for index in sorted(nodes)),
        settings={name: value for name, _, value in pairs},
        shown=_shown(text),
        calls=_calls(outcome, calls),
    )


def _told(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        if found := _TOLD.search(line):
            yield found["kind"], [unquote(word) for word in found["rest"].split()]


def _shown(text: str) -> dict[str, tuple[str, str]]:
    """Return the parameters that Open MPI was asked to show, but for those at their default."""
    found = (_SHOWN.match(line.strip()) for line in text.splitlines())
    return {
        match["name"]: (match["value"], match["source"])
        for match in found
        if match and match["source"] != "default"
    }


def _calls(
    outcome: process.ProcessResult, calls: Sequence[CanaryCall]
) -> dict[CanaryCall, CallSeen]:
    by_word = {call.word: call for call in calls}
    seen: dict[CanaryCall, CallSeen] = {}
    current: CanaryCall | None = None
    traced: list[str] = []
    bits = ""
    for line in outcome.stderr.splitlines():
        found = _TOLD.search(line)
        words = found["rest"].split() if found else []
        if found and words and found["kind"] == "begin":
            current, traced, bits = by_word.get(words[0]), [], ""
        elif found and len(words) > 1 and found["kind"] == "bits":
            bits = words[1]
        elif found and len(words) > 1 and found["kind"] == "done" and current:
            why = unquote(words[2]) if len(words) > 2 else ""
            seen[current] = CallSeen(CallEnding(words[1]), why, _functions(traced), bits)
            current = None
        else:
            traced.append(line)
    if current is not None:
        ending = CallEnding.HANG if outcome.timed_out else CallEnding.CRASH
        seen[current] = CallSeen(ending, _last_words(traced), _functions(traced))
    return seen | {call: CallSeen(CallEnding.NOT_RUN) for call in calls if call not in seen}


def _functions(lines: Sequence[str]) -> tuple[Function, ...]:
    marked = trace.marked("\n".join(lines))
    return marked[0].functions if marked else ()


def _last_words(lines: Sequence[str]) -> str:
    """Return the first line of what a library said in its last call."""
    said = (line.strip() for line in lines if "TRACE " not in line and "MARK " not in line)
    return next((line for line in said if any(map(str.isalnum, line))), "")


@dataclass(frozen=True)
class Executed:
    """What became of the calls; ``first`` is the first launch, None if there was nothing to do."""

    calls: Mapping[CanaryCall, CallSeen] = field(default_factory=dict)
    first: CanaryRun | None = None
    broken: str = ""


def execute(
    canary: Canary,
    calls: Sequence[CanaryCall],
    wanted: Mapping[str, str],
    tracer: Path | None,
) -> Executed:
    left = sorted(dict.fromkeys(calls), key=lambda call: (-call.comm_size, -call.nodes, call))
    seen: dict[CanaryCall, CallSeen] = {}
    first: CanaryRun | None = None
    broken = ""
    allowed = _MOST_LAUNCHES + len(left) // _CALLS_PER_LAUNCH
    hangs = 0
    while left and allowed and hangs <= _MOST_HANGS and not broken:
        allowed -= 1
        run = canary.run(left[:_CALLS_PER_LAUNCH], wanted, tracer)
        first = first or run
        made = {call: s for call, s in run.calls.items() if s.ending is not CallEnding.NOT_RUN}
        hangs += run.outcome.timed_out
        if not made:
            broken = _why_nothing(run)
        seen |= made
        left = [call for call in left if call not in made]
    return Executed(seen | dict.fromkeys(left, CallSeen(CallEnding.NOT_RUN)), first, broken)


def _why_nothing(run: CanaryRun) -> str:
    what = "MPI_Init does not return" if run.outcome.timed_out else "MPI_Init fails"
    if run.nprocs:
        what = "the program ends before its first call"
    return f"{what}\n{run.outcome.explain()}"


_COMPANIONS = (".dispatch", ".ch4", ".posix")


@dataclass(frozen=True)
class VerifyRequest:
    """What the user asked for; see `colltune verify`."""

    path: Path
    words: tuple[str, ...]
    release: str | None
    format: str | None
    mpi: str | None
    work: Path
    budget_s: float
    limit_s: float
    measure: bool
    programs: Programs = FOR_A_PROGRAM

    @property
    def results(self) -> Results:
        return self.programs.results

    @property
    def reduces(self) -> tuple[str, ...]:
        """What reductions are called with beside sums, for the canary."""
        if self.results is not Results.SAME_BITS:
            return ()
        return ("products",) if self.programs.builtin_operations else ("products", "own")


@dataclass(frozen=True)
class Readability:
    """Whether every process of the job reads the same bytes."""

    path: Path
    """the file"""
    nprocs: int
    """processes"""
    hosts: tuple[str, ...]
    """hosts"""
    problems: Mapping[str, str]
    """hosts that do not read the same, and why"""


def readability(request: VerifyRequest, canary: Canary) -> tuple[Readability, Look]:
    """Ask every process of the job for the file, without starting MPI."""
    paths = [request.path, *companions(request.path).values()]
    here = [_here(path) for path in paths]
    look = canary.look(paths)
    problems: dict[str, list[str]] = {}
    for seen in look.files:
        name = paths[seen.index].name
        if seen.why:
            problems.setdefault(seen.host, []).append(f"{name} cannot be read: {seen.why}")
        elif (seen.size_bytes, seen.crc) != here[seen.index]:
            problems.setdefault(seen.host, []).append(
                f"{name} has a different content there than here"
            )
    told = {host: "; ".join(dict.fromkeys(texts)) for host, texts in sorted(problems.items())}
    hosts = tuple(dict.fromkeys(seen.host for seen in look.files))
    ranks = {seen.rank for seen in look.files}
    return Readability(request.path, len(ranks), hosts, told), look


def canary_of(request: VerifyRequest) -> tuple[Canary, Installation]:
    """Return the canary, compiled for the MPI of the user's launcher."""
    check_line(request.words)
    installation = installation_of(request.words, request.mpi)
    program = build.canary(installation, request.work)
    line = UserLine(request.words, dict(os.environ) | installation.root_allowance())
    return Canary(line, program, request.limit_s, request.reduces), installation


def companions(path: Path) -> dict[str, Path]:
    """Return the files beside `path` that belong to it, by the ends of their names."""
    beside = {end: path.with_name(path.name + end) for end in _COMPANIONS}
    return {end: file for end, file in beside.items() if file.exists()}


def _here(path: Path) -> tuple[int, int]:
    formats.read_text(path)  # with the right complaint
    content = path.read_bytes()
    return len(content), zlib.crc32(content)
