"""Parameters of requests, checked; one class per endpoint."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from colltune.domain import LARGEST_NUMBER, Collective, parse_collective
from colltune.errors import DataError

_DECIMAL = re.compile(r"[0-9]{1,19}")


def _decimal(value: Any) -> Any:
    """Refuse what Python takes for a number, but nobody else does: ``1_0``, `` 1``, ``+1``."""
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
Nodes = Annotated[int, Field(ge=1, le=1 << 20, description="Nodes of the job."), Whole]
Ppn = Annotated[int, Field(ge=1, le=1 << 12, description="Processes per node."), Whole]
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
_BUNDLE = r"^[0-9a-f]{4,64}$"
BundlePath = Annotated[
    str, Path(pattern=_BUNDLE, description="The first characters of a bundle's id.")
]
BundleId = Annotated[
    str,
    Field(
        pattern=_BUNDLE,
        description="The first characters of a bundle's id; default: the bundle in force.",
    ),
]
Against = Annotated[
    str, Field(pattern=_BUNDLE, description="The bundle that it is compared with, likewise.")
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
Promise = Annotated[
    str,
    Field(
        pattern=r"^(any-legal|same-types(,builtin-operations)?|builtin-operations(,same-types)?)$",
        description="any-legal, same-types, builtin-operations, or the last two with a comma: "
        "which programs it is for; default: the service's.",
        examples=["same-types"],
    ),
]
ResultsPromise = Annotated[
    str,
    Field(
        pattern=r"^(any|ranks-agree|same-bits)$",
        description="any, ranks-agree or same-bits: what is promised of the numbers that reductions"
        " give; default: the service's.",
        examples=["same-bits"],
    ),
]
Part = Annotated[
    str,
    Field(
        pattern=r"^\.[a-z0-9]{1,20}$",
        description="An additional file, by the end of its name: .dispatch, .params.",
    ),
]
# no control character, and no other end of a line
_LINE = "^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]*$"
Note = Annotated[str, Field(pattern=_LINE, max_length=1000, description="Why.")]
Expected = Annotated[
    str,
    Field(
        pattern=r"^([0-9a-f]{64}|none)$",
        description="Id of the bundle that must be in force now; none: no bundle may be.",
    ),
]
Month = Annotated[
    str,
    Field(
        pattern=r"^(20[0-9]{2}-(0[1-9]|1[0-2]))?$",
        description="Month of the report, 2026-11; by default the latest.",
    ),
]


class Query(BaseModel):
    """Parameters of a request that reads; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bundle: BundleId | None = None


class PromisedQuery(Query):
    programs: Promise | None = None
    results: ResultsPromise | None = None


# of a query on decisions the repr is part of the ETag
class SelectQuery(PromisedQuery):
    nodes: Nodes
    ppn: Ppn
    collective: CollectiveName | None = None
    msize: Msize | None = None
    library: LibraryName | None = None
    release: ReleaseName | None = None


class ConfigQuery(PromisedQuery):
    nodes: Nodes
    ppn: Ppn
    format: FormatName | None = None
    part: Part | None = None
    folder: Folder | None = None


JobId = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{1,18}(_[0-9]{1,9})?$",
        description="Number of the job, whose arm it decides; default: the job has no arm.",
        examples=["4711"],
    ),
]


class JobQuery(PromisedQuery):
    nodes: Nodes
    ppn: Annotated[tuple[Ppn, ...], Field(min_length=1, max_length=8)]
    folder: Folder
    format: FormatName | None = None
    job: JobId | None = Field(None, repr=False)


class PageQuery(Query):
    library: LibraryName | None = None
    release: ReleaseName | None = None


class MapQuery(PageQuery):
    collective: CollectiveName
    against: Against | None = None


class ChangesQuery(Query):
    bundle: BundleId
    against: Against


class PredictionsQuery(PageQuery):
    collective: CollectiveName
    nodes: Nodes
    ppn: Ppn
    msize: Msize


class JobViewQuery(PageQuery, PromisedQuery):
    nodes: Nodes
    ppn: Ppn
    format: FormatName | None = None


class MonthQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    month: Month = ""


class RollbackQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    note: Note = ""


class PromoteQuery(RollbackQuery):
    expected: Expected | None = None
