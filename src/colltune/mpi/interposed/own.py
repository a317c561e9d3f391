"""Configurations of libcolltune's own algorithms: their spelling, where they run, what is offered.

They are the same beside every MPI library.
"""

from __future__ import annotations

from functools import lru_cache

from colltune.domain import INTERPOSED, Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.interposed.algorithms import ALGORITHMS, OwnAlgorithm, algorithm_of

TITLE = "libcolltune"


def offered(collective: Collective) -> tuple[Configuration, ...]:
    """Return the configurations of a collective that are worth measuring."""
    own = (algorithm for algorithm in ALGORITHMS if algorithm.collective is collective)
    return tuple(configuration for algorithm in own for configuration in algorithm.offered())


def is_own(configuration: Configuration) -> bool:
    """Tell whether a configuration is one of libcolltune."""
    return configuration.library == INTERPOSED


@lru_cache(maxsize=4096)
def canonical(configuration: Configuration) -> Configuration:
    """Return the spelling with every parameter written out.

    Raises
    ------
    LibraryError
        If algorithm or parameter are unknown or a value is none that it can have.
    """
    algorithm = _algorithm(configuration)
    given = dict(configuration.parameters)
    known = [parameter.name for parameter in algorithm.parameters]
    for name in given:
        if name not in known:
            raise LibraryError(
                f"{configuration.id}: {algorithm.name} has no parameter {name!r}; known:"
                f" {', '.join(known)}"
            )
    values = {p.name: given.get(p.name, p.usual) for p in algorithm.parameters}
    for parameter in algorithm.parameters:
        wrong = parameter.why_not(values[parameter.name])
        if wrong:
            raise LibraryError(f"{configuration.id}: {wrong}")
    return algorithm.configuration(values)


def effective(configuration: Configuration, nprocs: int) -> Configuration:
    """Return the configuration with the plainest parameters that runs in the same way.

    Raises
    ------
    LibraryError
        As `canonical`.
    """
    values = dict(canonical(configuration).parameters)
    algorithm = _algorithm(configuration)
    return algorithm.configuration(algorithm.reduced(values, nprocs))


def why_not_on(configuration: Configuration, shape: Shape) -> str:
    """Return why it runs as another one would on processes that lie so; empty if it does not.

    Raises
    ------
    LibraryError
        As `canonical`.
    """
    values = dict(canonical(configuration).parameters)
    return _algorithm(configuration).limit_on(values, shape)


def _algorithm(configuration: Configuration) -> OwnAlgorithm:
    found = algorithm_of(configuration.collective, configuration.algorithm)
    if found is None:
        names = [a.name for a in ALGORITHMS if a.collective is configuration.collective]
        known = ", ".join(names) or "none"
        raise LibraryError(
            f"{configuration.id}: {TITLE} has no {configuration.collective} algorithm"
            f" {configuration.algorithm!r}; known: {known}"
        )
    return found
