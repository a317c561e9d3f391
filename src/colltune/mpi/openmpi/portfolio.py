"""Configurations of coll/tuned: their names, where they run as themselves, which are safe."""

from __future__ import annotations

from colltune.domain import Collective, Configuration
from colltune.mpi.catalogue import Limit
from colltune.mpi.offer import Offer, Range
from colltune.mpi.openmpi.releases import LIBRARY, TITLE, entry_of

MAX_FANOUT = 32
MAX_SEGSIZE_BYTES = 2**31 - 1
MAX_REQUESTS = 2**31 - 1
OFFER = Offer(
    library=LIBRARY,
    title=TITLE,
    entry_of=entry_of,
    ranges={
        "fanout": (1, MAX_FANOUT),
        "segsize": (0, MAX_SEGSIZE_BYTES),
        "requests": (0, MAX_REQUESTS),
    },
    # what coll/tuned uses for a parameter that is not set; 0 requests stand for any number
    defaults={"fanout": 4, "segsize": 0},
)
portfolio, algorithm_of, canonical = OFFER.portfolio, OFFER.algorithm_of, OFFER.canonical
running_range, why_not = OFFER.running_range, OFFER.why_not


def effective(
    release: str, configuration: Configuration, nprocs: int, msize_bytes: int
) -> Configuration:
    """Return the configuration with the smallest parameters that runs in the same way.

    A message that fits one segment is not segmented, and there are no more chains than other
    processes (``coll_base_functions.h``, COLL_BASE_COMPUTED_SEGCOUNT; ``coll_base_topo.c``), nor a
    larger radix than processes. One that would not run as itself is returned as it is.
    """
    spelled = canonical(release, configuration)
    if why_not(release, spelled, nprocs, msize_bytes):
        return spelled
    parameters = spelled.numbers
    if "fanout" in parameters:
        radix = dict(algorithm_of(release, spelled).minimums).get("fanout")
        most = max(1, nprocs - 1) if radix is None else max(radix, nprocs)
        parameters["fanout"] = min(parameters["fanout"], most)
    segmented = configuration.collective in (Collective.BCAST, Collective.REDUCE)
    if segmented and "segsize" in parameters and parameters["segsize"] >= msize_bytes:
        parameters["segsize"] = 0
    return Configuration(LIBRARY, spelled.collective, spelled.algorithm, tuple(parameters.items()))


def why_unsafe(
    release: str,
    configuration: Configuration,
    *,
    builtin_operations_only: bool,
    nprocs: int | None = None,
) -> str:
    """Return which legal program `configuration` would break; empty if none.

    Without `nprocs` an algorithm for two processes only counts as safe.
    """
    if configuration.is_default:
        return ""
    algorithm = algorithm_of(release, configuration)
    if algorithm.wrong:
        return f"{algorithm.name}: {algorithm.wrong}"
    if Limit.COMMUTATIVE in algorithm.limits and not builtin_operations_only:
        return f"{algorithm.name} gives wrong results with operations that do not commute"
    if Limit.TWO_PROCESSES in algorithm.limits and nprocs not in (None, 2):
        return f"{algorithm.name} ends the program unless there are 2 processes"
    return ""


__all__ = [
    "OFFER",
    "Range",
    "algorithm_of",
    "canonical",
    "effective",
    "portfolio",
    "running_range",
    "why_not",
    "why_unsafe",
]
