"""What requests that write look like, and how endpoints hand them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from colltune.server import examples
from colltune.server.errors import PROBLEM
from colltune.server.offload import Offload
from colltune.server.schemas import ContextOf, ProblemOf, example
from colltune.server.serving import PROBLEMS
from colltune.server.writing import Writing

WRITE_PROBLEMS: dict[int | str, dict[str, Any]] = PROBLEMS | {
    status: {"description": what, "model": ProblemOf, "content": {PROBLEM: {}}}
    for status, what in {
        400: "The body did not come whole.",
        401: "Who asks is not proved.",
        403: "Who asks may not, or nobody may.",
        409: "It does not fit what is there now.",
        413: "The body is too large.",
        415: "The body is of another type.",
        429: "Too many requests; see Retry-After.",
        507: "No space is left.",
    }.items()
}
"""Answers that every endpoint may give that writes."""
Result = TypeVar("Result")


# no control character, and no other end of a line
_LINE = "^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]*$"
Note = Annotated[str, Field(pattern=_LINE, max_length=1000, description="Why.")]
Expected = Annotated[
    str,
    Field(
        pattern=r"^([0-9a-f]{64}|none)$",
        description="Id of the bundle that must be in force now; none: nothing may be.",
    ),
]
Launch = Annotated[
    str,
    Field(
        pattern=_LINE,
        max_length=200,
        description="Name of the launch (the allocation); goes before those of the rows if these"
        " are several.",
    ),
]


class PromoteQuery(BaseModel):
    """Of ``/v1/bundles/{id}/promote``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    note: Note = ""
    expected: Expected | None = None


class RollbackQuery(BaseModel):
    """Of ``/v1/bundles/{id}/rollback``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    note: Note = ""


class MeasurementsQuery(BaseModel):
    """Of ``/v1/measurements``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    launch: Launch = ""


class Stored(BaseModel):
    """What became of measurements that were sent; ``new`` is false where they were there."""

    model_config = example(examples.STORED)

    new: bool
    rows: int
    file: str
    sha256: str
    context: ContextOf


async def written(request: Request, write: Callable[[Writing], Result]) -> Result:
    """Return what `write` does; in threads of its own, so that answers do not wait for it."""
    writing: Writing = request.app.state.writing
    writes: Offload = request.app.state.writes
    return await writes.run(object(), lambda: write(writing))
