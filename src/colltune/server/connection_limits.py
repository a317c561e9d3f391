"""How long and how much a connection may ask of the service before it is cut off."""

from __future__ import annotations

import resource
from dataclasses import dataclass


@dataclass(frozen=True)
class ConnectionLimits:
    """The bounds of one connection.

    ``head_timeout_s`` is how long a request's head may take, from the connection's beginning or
    the head's first byte; ``body_timeout_s`` how long a body may take beside a second per
    ``body_rate_bytes`` received; ``answer_timeout_s`` how long a client may be slower than that in
    reading an answer. ``connections`` is how many there may be in one process.
    """

    head_timeout_s: float = 10.0
    head_bytes: int = 1 << 16
    body_timeout_s: float = 20.0
    body_rate_bytes: int = 1 << 10
    answer_timeout_s: float = 60.0
    connections: int = 4096


STATE_KEY = "connection_limits"
"""Where the application's lifespan state holds the `ConnectionLimits` for the protocol."""
_FILES_FOR_OTHERS = 128
_FEWEST = 64


def connection_limits(head_timeout_s: float) -> ConnectionLimits:
    """Return limits that leave this process some open files for other things."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    usual = ConnectionLimits().connections
    room = usual if files == resource.RLIM_INFINITY else files - _FILES_FOR_OTHERS
    return ConnectionLimits(head_timeout_s, connections=max(_FEWEST, min(usual, room)))
