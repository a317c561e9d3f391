"""What a run leaves so that it can be resumed: its journal, and the folders of its launches.

A run appends lines to ``campaigns/<run>.jsonl`` in the dataset; a launch keeps its raw output in
``raw/<launch>``. Each owns its file or folder by a lock, which the system releases when the process
ends in whatever way. A journal that nobody owns and that does not say ``done``, or a folder without
a file ``done``, was left by a killed run.

Line formats of the journal, all JSON objects
---------------------------------------------
1. first line ``{"version": 1, "identity", "job", "campaign", "time_utc"}``; then
   ``{"begin": launch, "visit", "what", "shape", "at_s"}``, ``{"end": launch, "at_s"}``,
   ``{"at_s"}`` once a second, ``{"done": true, "at_s"}``; ``at_s`` are the seconds that the run has
   spent, ``visit`` numbers what the strategy asked for: one launch or several. The
   first line may have ``launcher``, what starts programs, and an ``end`` ``launch_s``, what the
   launch cost beside its steps, with ``cut`` where it did not come to them.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from colltune.bench.backends.protocol import Backend
from colltune.bench.campaign import Campaign
from colltune.bench.launch_costs import LaunchCost
from colltune.bench.strategies.protocol import Visited
from colltune.dataset import append
from colltune.domain import Context, Shape
from colltune.errors import DataError
from colltune.files import writing
from colltune.files.reading import json_of

_VERSION = 1
_BEAT_S = 1.0
_JOB_VARIABLES = ("SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
_DONE, _LOCK, _FACTS = "done", "lock", "launch.json"


@dataclass
class Journal:
    """An open journal; one without a file is not kept."""

    name: str
    spent_s: float = 0.0
    launches: frozenset[str] = frozenset()
    visits: tuple[Visited, ...] = ()
    done: bool = False
    _file: IO[str] | None = None
    _last_beat_s: float = 0.0

    def begin(self, launch: str, visit: int, what: str, shape: Shape, at_s: float) -> None:
        self._write(begin=launch, visit=visit, what=what, shape=str(shape), at_s=at_s)

    def end(self, launch: str, at_s: float, cost: LaunchCost | None = None) -> None:
        """Note that a launch has ended, what it cost, and that its measurements are stored."""
        facts = {} if cost is None else {"launch_s": cost.seconds, "cut": cost.cut}
        self._write(end=launch, at_s=at_s, **facts)

    def beat(self, at_s: float) -> None:
        """Note what is spent, at most once a second."""
        if at_s - self._last_beat_s >= _BEAT_S:
            self._write(at_s=at_s)
            self._last_beat_s = at_s

    def finish(self, at_s: float) -> None:
        """Note that the run ended by itself: the next one starts anew."""
        self._write(done=True, at_s=at_s)

    def _write(self, **line: Any) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def job() -> str:
    """Return the batch job that this process belongs to, or an empty text."""
    return next((os.environ[name] for name in _JOB_VARIABLES if os.environ.get(name)), "")


@contextmanager
def opened(dataset: Path, campaign: Campaign, *, resume: bool = True) -> Iterator[Journal]:
    """Yield the journal of a killed run of `campaign`, or a new one."""
    folder = dataset / "campaigns"
    with _writing(dataset):
        folder.mkdir(parents=True, exist_ok=True)
        journal = (_left_behind(folder, campaign) if resume else None) or _new(folder, campaign)
    try:
        yield journal
    finally:
        if journal._file is not None:
            journal._file.close()


def _writing(dataset: Path) -> AbstractContextManager[None]:
    return writing(f"the dataset {dataset}", "Name a writable folder.")


def _new_name() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def _new(folder: Path, campaign: Campaign) -> Journal:
    name = _new_name()
    stream = (folder / f"{name}.jsonl").open("x", encoding="utf-8")
    fcntl.flock(stream, fcntl.LOCK_EX)
    journal = Journal(name, _file=stream)
    journal._write(
        version=_VERSION,
        identity=campaign.identity,
        launcher=campaign.started_by,
        job=job(),
        campaign=f"{campaign.machine} {campaign.library}, part {campaign.part}",
        time_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return journal


def _owned(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _left_behind(folder: Path, campaign: Campaign) -> Journal | None:
    """Return the newest run of `campaign` that was killed, or that this batch job has ended."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        stream = path.open("r+", encoding="utf-8")
        lines = _lines(stream) if _owned(stream) else []
        header = lines[0] if lines else {}
        if header.get("version") == _VERSION and header.get("identity") == campaign.identity:
            journal = _read(path.stem, lines, stream)
            if not journal.done or (job() and header.get("job") == job()):
                return journal
        stream.close()
    return None


def launch_costs(dataset: Path, campaign: Campaign) -> tuple[LaunchCost, ...]:
    """Return what launches into `dataset` cost that were started as those of `campaign` are."""
    found: list[LaunchCost] = []
    for path in sorted((dataset / "campaigns").glob("*.jsonl")):
        header, *lines = _whole_lines(path.read_text(encoding="utf-8", errors="replace")) or [{}]
        if header.get("version") != _VERSION or header.get("launcher") != campaign.started_by:
            continue
        shapes = {line["begin"]: Shape.parse(line["shape"]) for line in lines if "begin" in line}
        found += [
            LaunchCost(shapes[line["end"]].nodes, float(line["launch_s"]), bool(line.get("cut")))
            for line in lines
            if "launch_s" in line and line.get("end") in shapes
        ]
    return tuple(found)


def _lines(stream: IO[str]) -> list[dict[str, Any]]:
    """Return the whole lines; a last one that was cut off is ended, so that one can append."""
    text = stream.read()
    if text and not text.endswith("\n"):
        stream.write("\n")
    return _whole_lines(text)


def _whole_lines(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        with suppress(ValueError):
            value = json_of(line)
            if isinstance(value, dict):
                found.append(value)
    return found


def _read(name: str, lines: list[dict[str, Any]], stream: IO[str]) -> Journal:
    began = {line["begin"]: line for line in lines if "begin" in line}
    ended = {line["end"]: float(line["at_s"]) for line in lines if "end" in line}
    spent_s = max((float(line.get("at_s", 0.0)) for line in lines), default=0.0)
    visits: dict[int, Visited] = {}
    for launch, line in began.items():
        wall_s = ended.get(launch, spent_s) - float(line["at_s"])
        earlier = visits.get(line["visit"])
        wall_s += earlier.wall_s if earlier else 0.0
        visits[line["visit"]] = Visited(str(line["what"]), Shape.parse(line["shape"]), wall_s)
    done = any(line.get("done") for line in lines)
    return Journal(name, spent_s, frozenset(began), tuple(visits.values()), done, stream)


@contextmanager
def new_launch(
    dataset: Path, context: Context, provenance: Mapping[str, str]
) -> Iterator[tuple[str, Path]]:
    """Make and own a new launch folder; yield the launch's name and the folder."""
    launch = _new_name()
    folder = dataset / "raw" / launch
    with _writing(dataset):
        folder.mkdir(parents=True)
        facts = {"context": context.as_json(), "provenance": dict(provenance)}
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / _FACTS).write_text(json.dumps(facts))
            yield launch, folder


def mark_done(folder: Path, file: Path | None) -> None:
    (folder / _DONE).write_text(file.name if file else "nothing measured")


def salvage_all(dataset: Path, backend: Backend) -> int:
    """Add to the dataset what killed runs left in it; return the number of measurements."""
    folders = sorted((dataset / "raw").glob("*"))
    return sum(_salvage(dataset, f, backend) for f in folders if (f / _FACTS).exists())


def _salvage(dataset: Path, folder: Path, backend: Backend) -> int:
    if (folder / _DONE).exists():
        return 0
    with (folder / _LOCK).open("w") as lock:
        # it may have been ended since
        if not _owned(lock) or (folder / _DONE).exists():
            return 0
        with suppress(DataError, ValueError, KeyError):
            facts = json_of((folder / _FACTS).read_text())
            made_by = facts["provenance"].get("backend")
            if made_by is not None and made_by != backend.provenance().get("backend"):
                return 0
            measurements = backend.salvage(folder)
            provenance = facts["provenance"] | {"salvaged": "the run was killed"}
            file = None
            if measurements:
                file = append(dataset, Context(**facts["context"]), measurements, provenance)
            mark_done(folder, file)
            return len(measurements)
    return 0
