"""What the catalogues of a library offer: configurations, their spelling, where they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from colltune.domain import Collective, Configuration, Portfolio
from colltune.errors import LibraryError
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit


@dataclass(frozen=True)
class Range:
    """Where a configuration runs as itself: from ``first_bytes`` on, or never (None)."""

    first_bytes: int | None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Offer:
    """All configurations of one library.

    Parameters
    ----------
    library, title
        First word of the configurations' ids, and what people call the library.
    entry_of
        Returns the algorithms of a collective in a release.
    ranges
        Lowest and highest value of each parameter; an algorithm's own entry may ask for more.
    defaults
        Value of a parameter that is not given, where the algorithm's own entry does not tell. A
        parameter without one is left out where it is not given, or is 0, and is never offered.
    """

    library: str
    title: str
    entry_of: Callable[[str, Collective], CollectiveEntry]
    ranges: Mapping[str, tuple[int, int]]
    defaults: Mapping[str, int]

    def portfolio(
        self,
        release: str,
        collective: Collective,
        segsizes_bytes: Sequence[int],
        fanouts: Sequence[int],
    ) -> Portfolio:
        """Return the default and every algorithm with every combination of its parameters."""
        grids = {"fanout": fanouts, "segsize": segsizes_bytes}
        found = [Configuration.default(self.library, collective)]
        for algorithm in self.entry_of(release, collective).algorithms:
            if algorithm.wrong:
                continue
            least = dict(algorithm.minimums)
            offered = [name for name in algorithm.parameters if name in grids]
            values = [[v for v in grids[name] if v >= least.get(name, 0)] for name in offered]
            for combination in product(*values):
                parameters = dict(zip(offered, combination, strict=True))
                if Limit.SEGMENTED in algorithm.limits and not parameters["segsize"]:
                    continue
                found.append(self.configuration(collective, algorithm, parameters))
        return Portfolio(self.library, release, collective, tuple(found))

    def configuration(
        self, collective: Collective, algorithm: Algorithm, parameters: Mapping[str, int]
    ) -> Configuration:
        """Return the configuration of an algorithm of the catalogue."""
        return Configuration(self.library, collective, algorithm.name, tuple(parameters.items()))

    def numbered(self, release: str, collective: Collective, number: int) -> Configuration:
        """Return the algorithm of that number with its default parameters, 0 for the default.

        Raises
        ------
        LibraryError
            If the release has none of that number.
        """
        if not number:
            return Configuration.default(self.library, collective)
        algorithm = self.entry_of(release, collective).numbered(number)
        if algorithm is None:
            raise LibraryError(
                f"{self.title} {release} has no {collective} algorithm number {number}"
            )
        return Configuration(self.library, collective, algorithm.name)

    def algorithm_of(self, release: str, configuration: Configuration) -> Algorithm:
        """Return the algorithm of a configuration that is not the default.

        Raises
        ------
        LibraryError
            If it is another library's, or unknown in this release.
        """
        self._check_library(configuration)
        entry = self.entry_of(release, configuration.collective)
        algorithm = entry.named(configuration.algorithm)
        if algorithm is None:
            known = ", ".join(a.name for a in entry.algorithms)
            raise LibraryError(
                f"{configuration.id}: {self.title} {release} has no {configuration.collective}"
                f" algorithm {configuration.algorithm!r}; known: {known}"
            )
        return algorithm

    @lru_cache(maxsize=4096)  # noqa: B019 (an offer lives as long as the program)
    def canonical(self, release: str, configuration: Configuration) -> Configuration:
        """Return the spelling with the library's name and every honoured parameter written out.

        A parameter that is not given gets the value that the library uses then; a segment size that
        the algorithm ignores is dropped.

        Raises
        ------
        LibraryError
            If algorithm or parameter are unknown or a value is out of range.
        """
        if configuration.is_default:
            return Configuration.default(self.library, configuration.collective)
        algorithm = self.algorithm_of(release, configuration)
        given = configuration.numbers
        words = [name for name, value in configuration.parameters if isinstance(value, str)]
        if words:
            raise LibraryError(f"{configuration.id}: {words[0]} must be a number")
        unknown = [name for name in given if name not in (*algorithm.parameters, "segsize")]
        if unknown:
            known = ", ".join(algorithm.parameters) or "none"
            raise LibraryError(
                f"{configuration.id}: {algorithm.name} has no parameter {unknown[0]!r};"
                f" known: {known}"
            )
        unsaid = dict(self.defaults) | dict(algorithm.defaults)
        parameters = {
            name: given.get(name, unsaid.get(name, 0))
            for name in algorithm.parameters
            if name in unsaid or given.get(name)
        }
        for name, value in parameters.items():
            low, high = self.ranges[name]
            low = dict(algorithm.minimums).get(name, low)
            if not low <= value <= high:
                raise LibraryError(f"{configuration.id}: {name} must be from {low} to {high}")
        return self.configuration(configuration.collective, algorithm, parameters)

    @lru_cache(maxsize=8192)  # noqa: B019
    def running_range(
        self, release: str, configuration: Configuration, nprocs: int, element_bytes: int
    ) -> Range:
        """Return from which message size on `configuration` runs as itself on `nprocs` processes.

        `element_bytes` is the size of the datatype of the calls: some algorithms need an element
        per process.
        """
        if configuration.is_default:
            self._check_library(configuration)
            self.entry_of(release, configuration.collective)
            return Range(0)
        algorithm = self.algorithm_of(release, configuration)
        if algorithm.wrong:
            return Range(None, f"{algorithm.name}: {algorithm.wrong}")
        segsize = self.canonical(release, configuration).numbers.get("segsize", 0)
        first, reason = 0, ""
        for limit in sorted(algorithm.limits):
            if limit in _PROCESS_LIMITS:
                fits, need = _PROCESS_LIMITS[limit]
                if not fits(nprocs):
                    return Range(None, f"{algorithm.name} needs {need}, not {nprocs}")
            elif limit is Limit.SEGMENTED and not segsize:
                return Range(None, f"{algorithm.name} needs a segment size above 0")
            elif limit in _SIZE_LIMITS:
                smallest = _SIZE_LIMITS[limit](nprocs, element_bytes, segsize)
                if smallest > first:
                    other = f"; {algorithm.fallback} runs instead" if algorithm.fallback else ""
                    first = smallest
                    reason = (
                        f"{algorithm.name} on {nprocs} processes needs {smallest} bytes or more"
                        f"{other}"
                    )
        return Range(first, reason)

    def why_not(
        self,
        release: str,
        configuration: Configuration,
        nprocs: int,
        msize_bytes: int,
        *,
        element_bytes: int = 1,
    ) -> str:
        """Return why `configuration` would not run as itself there; empty if it would."""
        runs = self.running_range(release, configuration, nprocs, element_bytes)
        return runs.reason if runs.first_bytes is None or msize_bytes < runs.first_bytes else ""

    def _check_library(self, configuration: Configuration) -> None:
        if configuration.library != self.library:
            raise LibraryError(
                f"{configuration.id} is a configuration of {configuration.library}, not of"
                f" {self.library}"
            )


def _power_of_two_below(nprocs: int) -> int:
    return 1 << (nprocs.bit_length() - 1)


_PROCESS_LIMITS: dict[Limit, tuple[Callable[[int], bool], str]] = {
    Limit.TWO_PROCESSES: (lambda n: n == 2, "exactly 2 processes"),
    Limit.EVEN_PROCESSES: (lambda n: n % 2 == 0, "an even number of processes"),
    Limit.POWER_OF_TWO_PROCESSES: (
        lambda n: n == _power_of_two_below(n),
        "a power of two of processes",
    ),
}
# smallest message in bytes, from processes, element size and segment size
_SIZE_LIMITS: dict[Limit, Callable[[int, int, int], int]] = {
    Limit.ELEMENT_PER_PROCESS: lambda n, element, _: n * element,
    Limit.ELEMENT_PER_POWER_OF_TWO: lambda n, element, _: _power_of_two_below(n) * element,
    Limit.SEGMENT_PER_PROCESS: lambda n, element, segsize: n * max(segsize, element),
    Limit.TWO_SEGMENTS: lambda _, element, segsize: 2 * max(segsize, element),
}
