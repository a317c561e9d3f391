"""Answers of `library.INTEL_MPI` for formats that do not hold the release they are read by."""

from __future__ import annotations

from colltune.domain import Collective, Configuration
from colltune.mpi.configuration_space import RunningRange
from colltune.mpi.intelmpi.library import (
    BUILT_IN,
    BUILT_IN_LOGIC,
    INTEL_MPI,
    variable,
)

__all__ = ["BUILT_IN", "BUILT_IN_LOGIC", "variable"]
_WORD = 1 << 32


def highest(release: str, collective: Collective) -> int:
    """Return the highest preset of a release, 0 if it has none to choose from."""
    return INTEL_MPI.presets(release).highest(collective)


def as_read(release: str, collective: Collective, number: int) -> int:
    """Return the preset that the library takes a number for."""
    return INTEL_MPI.presets(release).as_read(collective, number)


def configuration_of(release: str, collective: Collective, preset: int) -> Configuration | None:
    """Return the configuration of a preset: the default for 0, None for one that there is not."""
    return INTEL_MPI.presets(release).preset(collective, preset)


def preset_of(release: str, configuration: Configuration) -> int:
    """Return the number of a configuration's preset, 0 for the default."""
    return INTEL_MPI.presets(release).preset_of(configuration)


def chosen(release: str, collective: Collective, number: int) -> Configuration:
    """Return the configuration that a rule with `number` stands for in the library's eyes."""
    return INTEL_MPI.presets(release).chosen(collective, number)


def running(
    release: str, configuration: Configuration, comm_size: int
) -> tuple[Configuration, str]:
    """Return what runs where `configuration` is chosen, and why if it is another one."""
    return INTEL_MPI.presets(release).running(configuration, comm_size)


def running_range(release: str, configuration: Configuration, comm_size: int) -> RunningRange:
    """Return from which message size on `configuration` runs as itself."""
    return INTEL_MPI.presets(release).running_range(configuration, comm_size, 1)


def why_unsafe(
    release: str,
    configuration: Configuration,
    *,
    builtin_operations_only: bool,
    nprocs: int | None = None,
) -> str:
    """Return which legal program `configuration` would break; empty if none."""
    return INTEL_MPI.presets(release).why_unsafe(
        configuration, builtin_operations_only=builtin_operations_only, nprocs=nprocs
    )


def shown(text: str) -> str:
    """Return words of a file as messages show them: quoted, and not too long."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def as_word(digits: str) -> int:
    """Return what the library makes of a number: limited to 64 bits, it keeps 32 of them."""
    # more digits than any number that is limited has
    number = int(digits[:40])
    limited = max(-(1 << 63), min((1 << 63) - 1, number))
    return (limited + _WORD // 2) % _WORD - _WORD // 2
