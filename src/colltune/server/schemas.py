"""What requests and answers look like."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from colltune.domain import LARGEST_NUMBER, Collective, parse_collective
from colltune.errors import DataError
from colltune.server import examples

MOST_NODES = 1 << 20
MOST_PPN = 1 << 12
_DECIMAL = re.compile(r"[0-9]{1,19}")


def _decimal(value: Any) -> Any:
    """Refuse what Python takes for a number, but nobody else does: ``1_0``, `` 1``, ``+1``.

    Raises
    ------
    ValueError
        If it is such a text.
    """
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        raise ValueError("a whole number in digits is needed, such as 32")
    return value


def _collective(name: str) -> str:
    try:
        return parse_collective(name).value
    except DataError:
        raise ValueError(f"unknown collective; known: {', '.join(Collective)}") from None


def _folder(path: str) -> str:
    if any(part in (".", "..") for part in path.split("/")):
        raise ValueError("the folder must be named without . and ..")
    return path.rstrip("/") or "/"


Whole = BeforeValidator(_decimal)
# bounds stand in the interface's description only where they come before a validator
Nodes = Annotated[int, Field(ge=1, le=MOST_NODES, description="Nodes of the job."), Whole]
Ppn = Annotated[int, Field(ge=1, le=MOST_PPN, description="Processes per node."), Whole]
Msize = Annotated[int, Field(ge=0, le=LARGEST_NUMBER, description="Message size in bytes."), Whole]
CollectiveName = Annotated[
    str,
    Field(
        max_length=40,
        description="bcast, allreduce, …; default: all.",
        examples=["bcast"],
        json_schema_extra={"enum": [collective.value for collective in Collective]},
    ),
    AfterValidator(_collective),
]
_LIBRARY = r"^[a-z0-9_+-]{1,40}$"
_RELEASE = r"^[0-9A-Za-z][0-9A-Za-z._+-]{0,63}$"
LibraryName = Annotated[str, Field(pattern=_LIBRARY, description="MPI library.")]
ReleaseName = Annotated[str, Field(pattern=_RELEASE, description="Its release, 4.1.4.")]
LibraryPath = Annotated[
    str, Path(pattern=_LIBRARY, description="MPI library.", examples=["openmpi"])
]
ReleasePath = Annotated[str, Path(pattern=_RELEASE, description="Its release.", examples=["4.1.4"])]
BundlePath = Annotated[
    str, Path(pattern=r"^[0-9a-f]{4,64}$", description="Id of a bundle, or how it begins.")
]
BundleId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{4,64}$",
        description="Id of a bundle, or how it begins; default: the one in force.",
    ),
]
Folder = Annotated[
    str,
    Field(
        pattern=r"^/[A-Za-z0-9._/+@%:=,~-]*$",
        max_length=1024,
        description="Absolute path of the folder that the files will be in.",
        examples=["/shared/colltune/1234"],
    ),
    AfterValidator(_folder),
]
FormatName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9-]{1,40}$",
        description="openmpi-json, mpich-cvars, …; default: the best that the release reads.",
    ),
]
Part = Annotated[
    str,
    Field(
        pattern=r"^\.[a-z0-9]{1,20}$",
        description="A file beside the main one, by the end of its name: .dispatch, .params.",
    ),
]


class Query(BaseModel):
    """Parameters of a request; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bundle: BundleId | None = None


class SelectQuery(Query):
    """Of ``/v1/select``."""

    nodes: Nodes
    ppn: Ppn
    collective: CollectiveName | None = None
    msize: Msize | None = None
    library: LibraryName | None = None
    release: ReleaseName | None = None


class ConfigQuery(Query):
    """Of ``/v1/config``."""

    nodes: Nodes
    ppn: Ppn
    format: FormatName | None = None
    part: Part | None = None
    folder: Folder | None = None


class JobQuery(Query):
    """Of ``/v1/job``."""

    nodes: Nodes
    ppn: Annotated[tuple[Ppn, ...], Field(min_length=1, max_length=8)]
    folder: Folder
    format: FormatName | None = None


def example(content: dict[str, Any]) -> ConfigDict:
    """Return the configuration of a model that is shown by an example."""
    return ConfigDict(json_schema_extra={"examples": [content]})


class RunnerUp(BaseModel):
    """A candidate that was not chosen."""

    configuration: str
    time_s: float


class Decision(BaseModel):
    """What to use for one instance, and why."""

    model_config = example(examples.DECISION)

    collective: str
    nodes: int
    ppn: int
    msize_bytes: int
    algorithm: str
    parameters: str | None
    segsize_bytes: int | None
    time_s: float | None
    lower_s: float | None
    upper_s: float | None
    default_time_s: float | None
    reason: str
    status: str
    configuration: str
    gain: float
    gain_bound: float | None
    extrapolated: bool
    runners_up: list[RunnerUp]


class ShapeOf(BaseModel):
    """A job's shape."""

    nodes: int
    ppn: int


class IntervalOf(BaseModel):
    """What to use for message sizes from ``first_bytes`` to ``last_bytes`` (null: no end)."""

    collective: str
    first_bytes: int
    last_bytes: int | None
    configuration: str
    time_s: float | None
    default_time_s: float | None
    gain: float | None
    reason: str
    status: str


class Table(BaseModel):
    """What to use on a shape, over all message sizes."""

    model_config = example(examples.TABLE)

    bundle: str
    objective: str
    shape: ShapeOf
    intervals: list[IntervalOf]


class ContextOf(BaseModel):
    """Where measurements come from."""

    machine: str
    library: str
    library_version: str
    fabric: str


class BundleOf(BaseModel):
    """A bundle of the registry."""

    id: str
    context: ContextOf
    collectives: list[str]
    objective: str
    created_utc: str
    size_bytes: int
    slot: str
    in_force: bool


class EventOf(BaseModel):
    """A promotion or a rollback."""

    model_config = example(examples.BUNDLES["history"][0])

    sequence: int
    slot: str
    bundle_id: str
    previous_id: str | None
    action: str
    at_utc: str
    by: str
    note: str


class Bundles(BaseModel):
    """All bundles; ``in_force`` names the one of each MPI release that this service answers from.

    A registry's history can be ahead of that for a second.
    """

    model_config = example(examples.BUNDLES)

    in_force: dict[str, str]
    bundles: list[BundleOf]
    history: list[EventOf]


class Liveness(BaseModel):
    """That the process lives."""

    model_config = example({"status": "live"})

    status: str


class ProblemOf(BaseModel):
    """Why a request was not answered (RFC 9457)."""

    model_config = example(examples.PROBLEM)

    type: str
    title: str
    status: int
    detail: str


class Readiness(BaseModel):
    """Whether requests are answered, and why not."""

    model_config = example(examples.READY)

    ready: bool
    bundles: dict[str, str]
    problems: list[str]
