"""Benchmark backends: the Protocol, and the registry beside it."""

from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.protocol import (
    Backend,
    Ending,
    LaunchPlan,
    LaunchResult,
    Means,
)
from colltune.bench.backends.replay import ReplayBackend
from colltune.bench.backends.reprompi import ReproMpiBackend
from colltune.bench.backends.smpi import SmpiBackend

BACKENDS: dict[str, type[Backend]] = {
    "native": NativeBackend,
    "replay": ReplayBackend,
    "reprompi": ReproMpiBackend,
    "smpi": SmpiBackend,
}

__all__ = [
    "BACKENDS",
    "Backend",
    "Ending",
    "LaunchPlan",
    "LaunchResult",
    "Means",
    "NativeBackend",
    "ReplayBackend",
    "ReproMpiBackend",
    "SmpiBackend",
]
