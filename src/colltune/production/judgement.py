"""What production proved: gains and harm of decisions, how trials go, drift, and what was saved.

docs/explanation/production.md tells the method and its sources.

Format history of what is kept under the key ``judgement``
----------------------------------------------------------
1. JSON with ``format`` and the fields of `Judgement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.production.arms import Arm

FORMAT_VERSION = 1
KEY = "judgement"


class Verdict(StrEnum):
    """Whether a decision proved faster than the default, slower (harm), or neither so far."""

    PROVEN = "proven"
    REFUTED = "refuted"
    OPEN = "open"


class Range(NamedTuple):
    """Calls that are judged together.

    They are of one collective, on communicators that lie on ``nodes_first`` to ``nodes_last`` nodes
    (a power of two, up to below the next) with ``ppn`` processes each, with messages of
    ``first_bytes`` to ``last_bytes``.
    """

    collective: Collective
    nodes_first: int
    nodes_last: int
    ppn: int
    first_bytes: int
    last_bytes: int

    def __str__(self) -> str:
        nodes = str(self.nodes_first)
        if self.nodes_last > self.nodes_first:
            nodes += f" to {self.nodes_last}"
        size = str(self.first_bytes)
        if self.last_bytes > self.first_bytes:
            size += f" to {self.last_bytes}"
        return f"{self.collective} on {nodes} nodes x {self.ppn}, {size} bytes"


@dataclass(frozen=True)
class Finding:
    """What production says of one decision.

    ``configuration`` is its id; ``arm`` and ``bundle_id`` are those by which jobs last got it.
    ``jobs`` used the range, by their arm. ``gain`` is the time of the control group over that of
    jobs with the decision, ``lower`` to ``upper`` its interval (95 %, at every look), all None
    where there is no estimate yet. ``saved_node_hours`` is what the decision saved since
    production is recorded. ``shapes`` are layouts of communicators that used it; ``since_utc`` is
    when the verdict fell, or the first job came.
    """

    slot: str
    range: Range
    configuration: str
    arm: Arm
    bundle_id: str
    jobs: Mapping[Arm, int]
    gain: float | None
    lower: float | None
    upper: float | None
    verdict: Verdict
    saved_node_hours: float
    saved_lower: float
    saved_upper: float
    shapes: tuple[Shape, ...]
    since_utc: str


@dataclass(frozen=True)
class Drift:
    """Calls that the library decides itself take ``ratio`` times as long as before ``since_utc``.

    ``text`` says so for people.
    """

    slot: str
    ratio: float
    since_utc: str
    text: str


@dataclass(frozen=True)
class Step:
    """How the trial of a bundle goes at a ``share`` of the jobs.

    ``jobs`` had it since the step began. ``lower`` to ``upper`` is the interval (95 %, at every
    look) of its time over that of the bundle in force, or of the control group where none is; None
    while there is none. ``harmed``: it is slower, or more of its jobs tell nothing; ``enough``: the
    next step can be taken if it is not.
    """

    slot: str
    bundle_id: str
    share: float
    jobs: int
    lower: float | None
    upper: float | None
    harmed: bool
    enough: bool


class Saved(NamedTuple):
    """Node-hours, with the 95 % interval."""

    expected: float
    lower: float
    upper: float


class ArmJobs(NamedTuple):
    """Jobs of an arm: given it, reported, ``silent`` (reported no MPI run), on their ``own``.

    ``asked`` is of the last 30 days, the others since production is recorded.
    """

    slot: str
    arm: Arm
    bundle_id: str
    asked: int
    reported: int
    silent: int
    own: int


@dataclass(frozen=True)
class Judgement:
    """Everything that production tells at ``at_utc`` (ISO).

    ``saved`` is since production is recorded, ``months`` the same by month (``2026-11``) of when
    the jobs ended, ``collectives`` the gain of all decisions on a collective with its 95 %
    interval. ``set_aside`` are summaries that were not judged in the last 30 days, by reason;
    ``left_out`` what could not be compared in those that were. ``proven``, ``refuted`` and
    ``undecided`` count decisions. ``waiting``: reports came in that are not judged yet.
    """

    at_utc: str
    findings: tuple[Finding, ...]
    drifts: tuple[Drift, ...]
    steps: tuple[Step, ...]
    saved: Saved
    months: Mapping[str, Saved]
    collectives: Mapping[str, Saved]
    arms: tuple[ArmJobs, ...]
    set_aside: Mapping[str, int]
    left_out: Mapping[str, int]
    proven: int
    refuted: int
    undecided: int
    jobs: int
    waiting: bool = False


class Store(Protocol):
    def read(self, prefix: str) -> dict[str, Any]: ...


def latest(store: Store) -> Judgement | None:
    """Return the latest judgement of a site, None if there was none yet."""
    found = store.read(KEY).get(KEY)
    return None if found is None else from_json(found)


def as_json(judgement: Judgement) -> dict[str, Any]:
    return {"format": FORMAT_VERSION, **asdict(judgement)}


def from_json(values: Mapping[str, Any]) -> Judgement:
    """Return the judgement that `as_json` has turned into `values`."""
    values = dict(values)
    version = values.pop("format")
    if version != FORMAT_VERSION:
        raise DataError(
            f"the stored judgement has format {version}, but this colltune reads "
            f"{FORMAT_VERSION}. Upgrade colltune."
        )
    return Judgement(
        **values
        | {
            "findings": tuple(map(_finding, values["findings"])),
            "drifts": tuple(Drift(**drift) for drift in values["drifts"]),
            "steps": tuple(Step(**step) for step in values["steps"]),
            "saved": Saved(*values["saved"]),
            "months": {month: Saved(*saved) for month, saved in values["months"].items()},
            "collectives": {name: Saved(*gain) for name, gain in values["collectives"].items()},
            "arms": tuple(ArmJobs(row[0], Arm(row[1]), *row[2:]) for row in values["arms"]),
        }
    )


def _finding(values: Mapping[str, Any]) -> Finding:
    collective, *numbers = values["range"]
    return Finding(
        **{
            **values,
            "range": Range(Collective(collective), *numbers),
            "arm": Arm(values["arm"]),
            "jobs": {Arm(arm): jobs for arm, jobs in values["jobs"].items()},
            "verdict": Verdict(values["verdict"]),
            "shapes": tuple(Shape(s["nodes"], s["ppn"]) for s in values["shapes"]),
        }
    )
