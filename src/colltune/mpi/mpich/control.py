"""How MPICH is told: its control variables, for a whole launch or within a running program.

MPICH looks at them at every call, and so do the collectives that it uses inside of others and
inside MPI_Init and MPI_Comm_dup, with sizes of their own.
"""

from __future__ import annotations

from colltune.domain import Collective, Configuration, Portfolio
from colltune.mpi.catalogue import Limit
from colltune.mpi.mpich.releases import LIBRARY, TITLE, entry_of
from colltune.mpi.offer import Offer

_LEAST_RADIX = 2
OFFER = Offer(
    library=LIBRARY,
    title=TITLE,
    entry_of=entry_of,
    ranges={"fanout": (_LEAST_RADIX, 2**16), "segsize": (0, 2**31 - 1)},
    defaults={},
)
_FALLBACK = "MPIR_CVAR_COLLECTIVE_FALLBACK"
# items of the variable, which are plain numbers to MPI_T; the default is silent
_ERROR, _SILENT = 0, 2
_AUTO = 0


def force(release: str, configuration: Configuration) -> dict[str, int | str]:
    """Return the control variables (MPI_T) under which calls use `configuration`, or fail.

    The device's own collectives are switched off for this one collective: they would come first,
    and use the algorithm within their parts only.

    Raises
    ------
    LibraryError
        If the configuration is unknown in this release.
    """
    collective = configuration.collective
    spelled = OFFER.canonical(release, configuration)
    if spelled.is_default:
        entry_of(release, collective)
        return _choice(collective, _AUTO, device=1) | {_FALLBACK: _SILENT}
    algorithm = OFFER.algorithm_of(release, spelled)
    found = _choice(collective, algorithm.number, device=0) | {_FALLBACK: _ERROR}
    return found | _values(release, spelled)


def forced_environment(release: str, configuration: Configuration) -> dict[str, str]:
    """Return the environment of a launch in which `configuration` runs wherever it can.

    Where it cannot, MPICH decides: to let it fail instead would end the launch in MPI_Init, whose
    own calls are smaller or on other communicators.

    Raises
    ------
    LibraryError
        If the configuration is unknown in this release.
    """
    spelled = OFFER.canonical(release, configuration)
    if spelled.is_default:
        entry_of(release, configuration.collective)
        return {}
    algorithm = OFFER.algorithm_of(release, spelled)
    named = algorithm.value or algorithm.name
    variables: dict[str, int | str] = _choice(spelled.collective, named, device=0)
    variables |= _values(release, spelled)
    return {name: str(value) for name, value in variables.items()}


def settable_at_runtime(release: str, configuration: Configuration) -> bool:
    """Tell whether all of its variables are looked at when a collective is called.

    Texts, such as the type of a tree, are read once at the start.
    """
    spelled = OFFER.canonical(release, configuration)
    if spelled.is_default:
        return True
    settings = OFFER.algorithm_of(release, spelled).settings
    return all(isinstance(value, int) for _, value in settings)


def effective(
    release: str, configuration: Configuration, nprocs: int, msize_bytes: int
) -> Configuration:
    """Return the configuration with the smallest parameters that runs in the same way.

    A radix is at most the number of processes (``recexchalgo.c``), in a k-ary tree one less; a
    message that fits one chunk is not cut (``algo_common.h``). One that would not run as itself is
    returned as it is.
    """
    spelled = OFFER.canonical(release, configuration)
    if spelled.is_default or OFFER.why_not(release, spelled, nprocs, msize_bytes):
        return spelled
    parameters = spelled.numbers
    if "fanout" in parameters:
        most = nprocs - 1 if spelled.algorithm.endswith("_kary") else nprocs
        parameters["fanout"] = max(_LEAST_RADIX, min(parameters["fanout"], most))
    limits = OFFER.algorithm_of(release, spelled).limits
    if Limit.SEGMENTED not in limits and parameters.get("segsize", 0) >= max(1, msize_bytes):
        parameters["segsize"] = 0
    return Configuration(LIBRARY, spelled.collective, spelled.algorithm, tuple(parameters.items()))


def why_unsafe(release: str, configuration: Configuration) -> str:
    """Return which legal program `configuration` would break; empty if none.

    MPICH checks most limits itself at every call, and decides on its own outside of them.
    """
    if configuration.is_default:
        return ""
    algorithm = OFFER.algorithm_of(release, configuration)
    if algorithm.wrong:
        return f"{algorithm.name}: {algorithm.wrong}"
    if Limit.EQUAL_COUNTS in algorithm.limits:
        return f"{algorithm.name} ends the program unless all blocks are of one size"
    return ""


def portfolio(
    release: str, collective: Collective, segsizes_bytes: tuple[int, ...], fanouts: tuple[int, ...]
) -> Portfolio:
    """Return the default and every algorithm with every combination of its parameters."""
    radixes = [fanout for fanout in fanouts if fanout >= _LEAST_RADIX]
    return OFFER.portfolio(release, collective, segsizes_bytes, radixes)


def _choice(collective: Collective, value: int | str, device: int) -> dict[str, int | str]:
    stem = _stem(collective)
    return {f"{stem}_INTRA_ALGORITHM": value, f"{stem}_DEVICE_COLLECTIVE": device}


def _values(release: str, spelled: Configuration) -> dict[str, int | str]:
    """Return the variables of its parameters, and those that make its variant of the algorithm."""
    algorithm = OFFER.algorithm_of(release, spelled)
    variables, stem = dict(algorithm.variables), _stem(spelled.collective)
    found: dict[str, int | str] = {
        f"{stem}_{variables[name]}": value for name, value in spelled.parameters
    }
    return found | {f"{stem}_{name}": value for name, value in algorithm.settings}


def _stem(collective: Collective) -> str:
    return f"MPIR_CVAR_{collective.upper()}"
