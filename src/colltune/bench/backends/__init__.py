"""Benchmark backends: the Protocol, and the registry beside it."""

from collections.abc import MutableMapping

from colltune.bench.backends.protocol import Backend, Ending, LaunchPlan, LaunchResult, Means
from colltune.on_demand import OnDemand

BACKENDS: MutableMapping[str, type[Backend]] = OnDemand(
    {
        "native": "colltune.bench.backends.native:NativeBackend",
        "replay": "colltune.bench.backends.replay:ReplayBackend",
        "reprompi": "colltune.bench.backends.reprompi:ReproMpiBackend",
        "smpi": "colltune.bench.backends.smpi:SmpiBackend",
    }
)

__all__ = ["BACKENDS", "Backend", "Ending", "LaunchPlan", "LaunchResult", "Means"]
