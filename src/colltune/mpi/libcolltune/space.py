"""Configurations of libcolltune's own algorithms; they are the same with every MPI library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.configuration_space import ConfigurationSpace
from colltune.mpi.libcolltune import is_libcolltune
from colltune.mpi.libcolltune.algorithms import ALGORITHMS, OwnAlgorithm, algorithm_of

TITLE = "libcolltune"
FORCE = "COLLTUNE_FORCE"
FORCED_PREFIX = "colltune."
"""Begins the name by which `Release.force` tells the benchmark to call ``colltune_force``."""


class LibcolltuneSpace(ConfigurationSpace):
    """The algorithms of libcolltune."""

    def owns(self, configuration: Configuration) -> bool:
        return is_libcolltune(configuration)

    def offered(
        self,
        collective: Collective,
        segsizes_bytes: Sequence[int] = (),
        fanouts: Sequence[int] = (),
    ) -> tuple[Configuration, ...]:
        """Return the configurations of a collective that are worth measuring."""
        own = (algorithm for algorithm in ALGORITHMS if algorithm.collective is collective)
        return tuple(configuration for algorithm in own for configuration in algorithm.offered())

    @lru_cache(maxsize=4096)  # noqa: B019 (there is one)
    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the spelling with every parameter written out."""
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

    def effective(
        self, configuration: Configuration, nprocs: int, msize_bytes: int = 0
    ) -> Configuration:
        """Return the configuration with the plainest parameters that runs in the same way."""
        values = dict(self.canonical(configuration).parameters)
        algorithm = _algorithm(configuration)
        return algorithm.configuration(algorithm.reduced(values, nprocs))

    def why_not_on(self, configuration: Configuration, shape: Shape) -> str:
        """Return why it runs as another one would on `shape`; empty if it does not."""
        values = dict(self.canonical(configuration).parameters)
        return _algorithm(configuration).limit_on(values, shape)

    def force(self, configuration: Configuration) -> dict[str, int | str]:
        """Return what the benchmark hands to colltune_force: collective and configuration's id."""
        spelled = self.canonical(configuration)
        return {f"{FORCED_PREFIX}{spelled.collective}": spelled.id}

    def settable_at_runtime(self, configuration: Configuration) -> bool:
        """Return True: `force` works for all of them."""
        self.canonical(configuration)
        return True

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        """Return ``COLLTUNE_FORCE``; libcolltune must be preloaded besides."""
        return {FORCE: self.canonical(configuration).id}

    def expected_symbols(self, configuration: Configuration) -> frozenset[str]:
        """Return the id, by which libcolltune tells what it ran."""
        return frozenset({self.canonical(configuration).id})


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


LIBCOLLTUNE = LibcolltuneSpace()
