"""Datasets of the kinds that colltune makes and imports, as small as they come."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from colltune.dataset import PerformanceDataset
from colltune.dataset.parquet import append_dataset
from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)

_OPENMPI = Context("made-up", "openmpi", "4.1.6")
_NAN = float("nan")
_LATENCY_US = {"default": 4.0, "binomial": 3.0, "recursive_doubling": 5.0}


@dataclass(frozen=True)
class Kind:
    """What was measured, and how: with raw repetitions or, if there are none, summaries alone.

    ``is_launched_alone`` is that each configuration has a launch of its own on each shape.
    """

    context: Context = _OPENMPI
    collectives: tuple[Collective, ...] = (Collective.BCAST,)
    configurations: tuple[str, ...] = ("default", "binomial", "chain segsize=8192")
    shapes: tuple[tuple[int, int], ...] = ((2, 1), (2, 4), (4, 1), (4, 4), (8, 1), (8, 4))
    msizes: tuple[int, ...] = (8, 1024, 65536)
    repetitions: int = 10
    launches: int = 1
    is_launched_alone: bool = False

    def write(self, folder: Path) -> Path:
        """Write the measurements as `colltune measure` and `colltune data import` do."""
        append_dataset(folder, PerformanceDataset.of(self.context, list(self._measurements())), {})
        return folder

    def _measurements(self) -> Iterator[Measurement]:
        for collective in self.collectives:
            for name in self.configurations:
                configuration = self._configuration(collective, name)
                for shape in (Shape(*pair) for pair in self.shapes):
                    for k in range(self.launches):
                        launch = f"{name} on {shape}, {k}" if self.is_launched_alone else f"{k}"
                        for msize in self.msizes:
                            yield self._measured(
                                Instance(collective, shape, msize), configuration, launch
                            )

    def _configuration(self, collective: Collective, name: str) -> Configuration:
        if name == "default":
            return Configuration.default(self.context.library, collective)
        algorithm, _, parameters = name.partition(" ")
        return Configuration.stored(self.context.library, collective, algorithm, parameters)

    def _measured(
        self, instance: Instance, configuration: Configuration, launch: str
    ) -> Measurement:
        if configuration.algorithm == "chain" and instance.shape.nprocs > 16:
            return Measurement(instance, configuration, launch, RunStatus.TIMEOUT)
        latency_us = _LATENCY_US.get(configuration.algorithm, 6.0)
        rounds = np.log2(instance.shape.nprocs) + 1
        time_s = 1e-6 * latency_us * rounds + 1e-8 * instance.msize_bytes / latency_us
        seed = zlib.crc32(f"{instance} {configuration.id} {launch}".encode())
        scatter = np.random.default_rng(seed).lognormal(0, 0.05, self.repetitions or 5)
        measured = Measurement(
            instance, configuration, launch, times_s=tuple((time_s * scatter).tolist())
        )
        if self.repetitions:
            return measured
        assert measured.summary is not None
        told = replace(measured.summary, time_s=_NAN, time_p90_s=_NAN)
        told = replace(told, time_s=told.time_mean_s)
        return replace(measured, times_s=(), summary=told)


_INTEL = Context("made-up", "intelmpi", "2021.11")
_LONG = Context("gpu-partition-of-a-machine-with-a-very-long-name", "openmpi", "5.0.11")
KINDS = {
    "ReproMPI, one configuration a launch": Kind(is_launched_alone=True),
    "Intel MPI, one shape, three sizes": Kind(_INTEL, shapes=((2, 4),), launches=2),
    "summaries of one size": Kind(msizes=(1024,), repetitions=0),
    "one collective, no broadcast": Kind(
        collectives=(Collective.ALLREDUCE,),
        configurations=("default", "recursive_doubling"),
        shapes=((2, 1), (4, 1), (8, 1)),
    ),
    "no default": Kind(configurations=("binomial", "chain segsize=8192")),
    "the default alone": Kind(configurations=("default",), shapes=((2, 4), (4, 4))),
    "two collectives, one node, a long name": Kind(
        _LONG, (Collective.ALLGATHER, Collective.BCAST), shapes=((1, 2), (1, 4)), launches=3
    ),
    "one process": Kind(shapes=((1, 1),)),
}
"""By name."""
