"""Why a caller is turned away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from colltune.server.errors import ServiceError


class AccessError(ServiceError):
    """A request to write that is turned away."""

    status: ClassVar[int] = 403


class UnauthenticatedError(AccessError):
    """Nobody is named, or the proof is missing, malformed, unknown, expired or used before."""

    status = 401
    headers: ClassVar[Mapping[str, str]] = {
        "WWW-Authenticate": 'Bearer realm="colltune", MUNGE realm="colltune"'
    }


class ForbiddenError(AccessError):
    """The caller is known and may not, or nobody may."""

    status = 403


class CannotTellError(AccessError):
    """Who asks cannot be found out now: the token file or the munge daemon is unusable."""

    status = 503
    headers: ClassVar[Mapping[str, str]] = {"Retry-After": "30"}
