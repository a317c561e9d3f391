"""Presets as the configuration files of Intel MPI name them: numbers, 0 for none.

0 is the library's built-in logic. It does not look into the tuning data that the library ships, so
it is the library's own decision, but not the one that a program without any file gets.
"""

from __future__ import annotations

from colltune.domain import Collective, Configuration
from colltune.mpi.intelmpi.releases import LIBRARY, TITLE, entry_of
from colltune.mpi.offer import Offer

OFFER = Offer(library=LIBRARY, title=TITLE, entry_of=entry_of, ranges={}, defaults={})
BUILT_IN = 0
BUILT_IN_LOGIC = (
    "preset 0 is the library's built-in logic, which does not use the tuning data that it ships"
)
_TOO_HIGH = 1
"""What runs in place of a number that the release does not have."""
_WORD = 1 << 32


def variable(collective: Collective) -> str:
    """Return the environment variable of a collective, ``I_MPI_ADJUST_BCAST``."""
    return f"I_MPI_ADJUST_{collective.upper()}"


def highest(release: str, collective: Collective) -> int:
    """Return the highest preset of a release, 0 if it has none to choose from."""
    return max((a.number for a in entry_of(release, collective).algorithms), default=0)


def as_read(release: str, collective: Collective, number: int) -> int:
    """Return the preset that the library takes a number for."""
    return number if 0 <= number <= highest(release, collective) else _TOO_HIGH


def configuration_of(release: str, collective: Collective, preset: int) -> Configuration | None:
    """Return the configuration of a preset: the default for 0, None for one that there is not."""
    if preset == BUILT_IN:
        return Configuration.default(LIBRARY, collective)
    algorithm = entry_of(release, collective).numbered(preset)
    return None if algorithm is None else OFFER.configuration(collective, algorithm, {})


def preset_of(release: str, configuration: Configuration) -> int:
    """Return the number of a configuration's preset, 0 for the default."""
    spelled = OFFER.canonical(release, configuration)
    return BUILT_IN if spelled.is_default else OFFER.algorithm_of(release, spelled).number


def chosen(release: str, collective: Collective, number: int) -> Configuration:
    """Return the configuration that a rule with `number` stands for in the library's eyes."""
    preset = as_read(release, collective, number)
    found = configuration_of(release, collective, preset)
    return found or Configuration.default(LIBRARY, collective)


def running(
    release: str, configuration: Configuration, comm_size: int
) -> tuple[Configuration, str]:
    """Return what runs where `configuration` is chosen, and why if it is another one."""
    if configuration.is_default:
        return configuration, ""
    algorithm = OFFER.algorithm_of(release, configuration)
    if algorithm.wrong or not algorithm.fallback:
        return configuration, ""
    runs = OFFER.running_range(release, configuration, comm_size, 1)
    instead = entry_of(release, configuration.collective).named(algorithm.fallback)
    if runs.first_bytes is not None or instead is None:
        return configuration, ""
    fallen = OFFER.configuration(configuration.collective, instead, {})
    return fallen, f"{runs.reason}; {instead.name} runs instead"


def why_unsafe(
    release: str,
    configuration: Configuration,
    *,
    builtin_operations_only: bool,
    nprocs: int | None = None,
) -> str:
    """Return which legal program `configuration` would break; empty if none.

    Intel MPI falls back by itself wherever a preset cannot run.
    """
    if configuration.is_default:
        return ""
    algorithm = OFFER.algorithm_of(release, configuration)
    return f"{algorithm.name}: {algorithm.wrong}" if algorithm.wrong else ""


def shown(text: str) -> str:
    """Return words of a file as messages show them: quoted, and not too long."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def as_word(digits: str) -> int:
    """Return what the library makes of a number: limited to 64 bits, it keeps 32 of them."""
    # more digits than any number that is limited has
    number = int(digits[:40])
    limited = max(-(1 << 63), min((1 << 63) - 1, number))
    return (limited + _WORD // 2) % _WORD - _WORD // 2
