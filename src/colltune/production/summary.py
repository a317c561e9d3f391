"""What a job tells the service when it has ended: one text of at most 64 KiB, sent by the epilog.

Format history
--------------
1. Lines of words in this order: ``colltune-summary 1``; ``job ID``; ``started EPOCH`` and ``ended
   EPOCH``, whole seconds; ``nodes N``; ``state completed|failed|timeout|unknown``; ``user HEX`` or
   ``user -``; one ``given LIBRARY RELEASE ARM BUNDLE`` per release that the job was prepared for;
   ``left_out FILES``, the profiles that had no room; for each profile ``profile BYTES`` and so many
   bytes verbatim; ``end``, without which the text is not whole.

As JSON, a summary is an object of the same names: ``runs`` has a list for each run, of its job as
an object and of its uses as lists of values in the order of `Use`; ``format`` is 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from colltune.dataset.profile import CallKind, ProfiledRun, Use, parse_profile
from colltune.domain import Collective, Shape
from colltune.errors import ColltuneError, DataError, say
from colltune.production.arms import Arm

VERSION = 1
MOST_BYTES = 65536
MOST_RUNS = 500
MOST_PARTS = 64
STATES = ("completed", "failed", "timeout", "unknown")
_FIRST = f"colltune-summary {VERSION}"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,11}")
_JOB = re.compile(r"[0-9]{1,18}(_[0-9]{1,9})?")
_USER = re.compile(r"-|[0-9a-f]{8,64}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_BUNDLE = re.compile(r"[0-9a-f]{64}")
_SHOWN = 40


@dataclass(frozen=True)
class Given:
    """The arm and bundle that a job was given for one release of a library."""

    library: str
    release: str
    arm: Arm
    bundle_id: str


@dataclass(frozen=True)
class MpiRun:
    """One MPI run of a job: its profile."""

    job: ProfiledRun
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class Summary:
    """What one job tells; ``started`` and ``ended`` are UTC in seconds since 1970."""

    job: str
    started: int
    ended: int
    nodes: int
    state: str
    user: str
    given: tuple[Given, ...]
    runs: tuple[MpiRun, ...]
    left_out: int


def text_of(head: Summary, profiles: Iterable[bytes]) -> bytes:
    """Return the text of `head`, whose own runs do not count, with `profiles` as they are."""
    lines = [_FIRST, f"job {head.job}", f"started {head.started}", f"ended {head.ended}"]
    lines += [f"nodes {head.nodes}", f"state {head.state}", f"user {head.user or '-'}"]
    lines += [f"given {g.library} {g.release} {g.arm} {g.bundle_id}" for g in head.given]
    lines += [f"left_out {head.left_out}", ""]
    parts = [b"profile %d\n%b" % (len(profile), profile) for profile in profiles]
    return b"".join([*("\n".join(lines).encode("ascii", "replace"),), *parts, b"end\n"])


def text_without_slurm(profiles: Iterable[bytes]) -> bytes:
    """Return the text that an epilog would send with these profiles, those that fit, in order.

    What only Slurm knows is ``-`` or 0, so that the text is no summary of a job.
    """
    sent: list[bytes] = []
    left_out = 0
    for profile in profiles:
        head = Summary("-", 0, 0, 0, "unknown", "", (), (), left_out + 1)
        fits = len(sent) < MOST_RUNS and len(text_of(head, [*sent, profile])) <= MOST_BYTES
        left_out += not fits
        sent += [profile] * fits
    return text_of(Summary("-", 0, 0, 0, "unknown", "", (), (), left_out), sent)


def parse_summary(content: bytes) -> Summary:
    """Return what the text of an epilog says; a `DataError` if it is anything else."""
    return _SummaryReader(content).summary()


class _SummaryReader:
    """One text, line by line; ``number`` is that of the line read last."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at, self.number = content, 0, 0

    def summary(self) -> Summary:
        if len(self._content) > MOST_BYTES:
            raise self._wrong(say("too-many", most=MOST_BYTES, what="bytes"))
        if self._line() != _FIRST:
            raise self._wrong(say("not-a-summary", version=VERSION))
        job = self._word("job", _JOB)
        started, ended, nodes = map(self._count, ("started", "ended", "nodes"))
        if not nodes:
            raise self._wrong(say("job-without-nodes"))
        state = self._word("state", re.compile("|".join(STATES)))
        user = self._word("user", _USER)
        given, line = self._given()
        left_out = self._count("left_out", line)
        runs = self._runs()
        kept = "" if user == "-" else user
        return Summary(job, started, ended, nodes, state, kept, given, runs, left_out)

    def _given(self) -> tuple[tuple[Given, ...], str]:
        """Return what the job was given, and the line that follows."""
        found: dict[tuple[str, str], Given] = {}
        while (line := self._line()).startswith("given "):
            match line.split(" "):
                case [_, library, release, arm, bundle] if (
                    _WORD.fullmatch(library)
                    and _WORD.fullmatch(release)
                    and arm in tuple(Arm)
                    and _BUNDLE.fullmatch(bundle)
                ):
                    given = Given(library, release, Arm(arm), bundle)
                case _:
                    raise self._wrong(say("wrong-line", line=line[:_SHOWN], name="given"))
            if (library, release) in found:
                raise self._wrong(say("second-line", name="given", value=f"{library} {release}"))
            if len(found) == MOST_PARTS:
                raise self._wrong(say("too-many", most=MOST_PARTS, what="releases"))
            found[library, release] = given
        return tuple(found.values()), line

    def _runs(self) -> tuple[MpiRun, ...]:
        runs: list[MpiRun] = []
        while (line := self._line()) != "end":
            if len(runs) == MOST_RUNS:
                raise self._wrong(say("too-many", most=MOST_RUNS, what="profiles"))
            length = self._count("profile", line)
            content = self._content[self._at : self._at + length]
            if len(content) < length:
                raise self._wrong(say("incomplete"))
            job, uses = self._profile(content)
            runs.append(MpiRun(job, tuple(uses)))
            self._at += length
            self.number += content.count(b"\n")
        if self._at != len(self._content):
            raise self._wrong(say("text-after-end"))
        return tuple(runs)

    def _profile(self, content: bytes) -> tuple[ProfiledRun, list[Use]]:
        try:
            return parse_profile(content, f"the profile after line {self.number}")
        except DataError as error:
            raise error.of("the summary") from None

    def _line(self) -> str:
        end = self._content.find(b"\n", self._at)
        self.number += 1
        if end < 0:
            raise self._wrong(say("incomplete"))
        line, self._at = self._content[self._at : end], end + 1
        return line.decode("ascii", "replace")

    def _word(self, name: str, pattern: re.Pattern[str], line: str | None = None) -> str:
        line = self._line() if line is None else line
        found, _, word = line.partition(" ")
        if found != name or not pattern.fullmatch(word):
            raise self._wrong(say("wrong-line", line=line[:_SHOWN], name=name))
        return word

    def _count(self, name: str, line: str | None = None) -> int:
        return int(self._word(name, _NUMBER, line))

    def _wrong(self, why: ColltuneError) -> ColltuneError:
        return why.of(f"the summary, line {self.number}", at=self.number)


def as_json(summary: Summary) -> dict[str, Any]:
    """Return a summary as JSON values, small enough to be kept by the hundred thousand."""
    runs = [[asdict(run.job), [_values(use) for use in run.uses]] for run in summary.runs]
    named = {f.name: getattr(summary, f.name) for f in fields(summary)}
    return named | {"format": VERSION, "given": [asdict(g) for g in summary.given], "runs": runs}


def from_json(values: Mapping[str, Any]) -> Summary:
    """Return the summary that `as_json` has turned into `values`."""
    if (version := values["format"]) != VERSION:
        raise say("format-version", place="a stored summary", version=version, known=VERSION)
    named = {f.name: values[f.name] for f in fields(Summary)}
    given = tuple(Given(**g | {"arm": Arm(g["arm"])}) for g in values["given"])
    runs = tuple(MpiRun(_job(job), tuple(map(_use, uses))) for job, uses in values["runs"])
    return Summary(**named | {"given": given, "runs": runs})


def _job(values: Mapping[str, Any]) -> ProfiledRun:
    named: dict[str, Any] = dict(values)
    named |= {n: tuple(each) for n, each in values.items() if isinstance(each, list)}
    return ProfiledRun(**named | {"shape": _shape(values["shape"])})


def _values(use: Use) -> list[Any]:
    # what `from_json` gives to `_use`; asdict copies deeply, which takes ten times as long
    collective, nprocs, shape, first_bytes = use.kind
    named = {f.name: getattr(use, f.name) for f in fields(use)}
    named["kind"] = collective, nprocs, shape and asdict(shape), first_bytes
    return list(named.values())


def _use(values: Iterable[Any]) -> Use:
    named = dict(zip((f.name for f in fields(Use)), values, strict=True))
    collective, nprocs, shape, first_bytes = named["kind"]
    named["kind"] = CallKind(Collective(collective), nprocs, _shape(shape), first_bytes)
    named["times"] = {int(key): count for key, count in named["times"].items()}
    return Use(**named)


def _shape(values: Mapping[str, Any] | None) -> Shape | None:
    return None if values is None else Shape(**values)
