"""The configurations of one release: their spelling, where they run, and how they are chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import ClassVar

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.catalogue import NO_ID, Algorithm, Catalogue, CollectiveEntry, Limit, SizeUnit
from colltune.mpi.programs import MODES, Harm, Harms, ProgramOutcome, Programs, harms_of
from colltune.mpi.running import EVERYWHERE, Refusal, RunningRange
from colltune.text import counted

NON_COMMUTATIVE = MODES["non_commutative"]


class ConfigurationSpace(ABC):
    """All configurations of one kind: a catalogue's algorithms, coll/han's setups, libcolltune's.

    `colltune.mpi.release.Release` tells what is asked. The base answers for configurations that run
    on all communicators as they are, are right for every program, and need a launch of their own.
    """

    release: str

    @abstractmethod
    def owns(self, configuration: Configuration) -> bool: ...

    @abstractmethod
    def canonical(self, configuration: Configuration) -> Configuration: ...

    @abstractmethod
    def forced_environment(self, configuration: Configuration) -> dict[str, str]: ...

    def offered(
        self, collective: Collective, segsizes_bytes: Sequence[int], fanouts: Sequence[int]
    ) -> tuple[Configuration, ...]:
        """Return what a portfolio has of this kind."""
        return ()

    def job_wide(
        self, collective: Collective, segsizes_bytes: Sequence[int]
    ) -> tuple[Configuration, ...]:
        return ()

    def effective(
        self, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        return self.canonical(configuration)

    def running_range(
        self, configuration: Configuration, nprocs: int, element_bytes: int
    ) -> RunningRange:
        """Return from which message size on it runs as itself on `nprocs` processes."""
        self.canonical(configuration)
        return EVERYWHERE

    def limit_on(self, configuration: Configuration, shape: Shape) -> str:
        """Return why it would not run as itself on `shape`; empty if nothing speaks against it."""
        return ""

    def harm(self, configuration: Configuration, programs: Programs) -> str:
        """Return which of `programs` it breaks wherever it runs; empty if none."""
        return self.harms(configuration).sentence(programs)

    def harms(self, configuration: Configuration) -> Harms:
        """Return what it does to legal programs."""
        spelled = self.canonical(configuration)
        return Harms() if spelled.is_default else harms_of(spelled, self.release)

    def force(self, configuration: Configuration) -> dict[str, int | str]:
        self.canonical(configuration)
        return {}

    def settable_at_runtime(self, configuration: Configuration) -> bool:
        self.canonical(configuration)
        return False

    def launch_environment(self, configuration: Configuration) -> dict[str, str] | None:
        return {} if self.settable_at_runtime(configuration) else None

    def expected_symbols(self, configuration: Configuration) -> frozenset[str]:
        self.canonical(configuration)
        return frozenset()


class CatalogueSpace(ConfigurationSpace):
    """The algorithms of a release's catalogue, with all their parameters.

    ``ranges`` are the lowest and highest value of each parameter; an algorithm's own entry may ask
    for more. ``defaults`` are the values of parameters that are not given, where the algorithm's
    own entry does not tell. A parameter without one is left out where it is not given, or is 0, and
    is never offered. ``otherwise`` tells what happens outside of a limit, where it is not the
    algorithm's fallback; ``breaks`` are those limits outside of which programs break.

    A library has to say `chosen_by` and `forced_environment`; whatever it can do beyond that, it
    overrides.
    """

    ranges: ClassVar[Mapping[str, tuple[int, int]]] = {}
    defaults: ClassVar[Mapping[str, int]] = {}
    breaks: ClassVar[frozenset[Limit]] = frozenset()
    otherwise: ClassVar[Mapping[Limit, str]] = {}

    def __init__(self, library: str, title: str, release: str, catalogue: Catalogue) -> None:
        self.library, self.title, self.release, self.catalogue = library, title, release, catalogue

    def owns(self, configuration: Configuration) -> bool:
        return configuration.library == self.library

    @abstractmethod
    def chosen_by(self, collective: Collective) -> str:
        """Return the variable of the library by which the algorithm of a collective is chosen."""

    def variable(self, collective: Collective, name: str) -> str:
        """Return the library's variable that the catalogue calls `name`."""
        return name

    def parameter_variables(self, collective: Collective, algorithm: Algorithm) -> dict[str, str]:
        """Return by which variable of the library each parameter is set for a launch."""
        return {name: self.variable(collective, told) for name, told in algorithm.variables}

    def deciding(self, collective: Collective) -> tuple[str, str]:
        """Return who decides by default on one node, and across nodes, in words."""
        whole = f"{self.title}'s own decision, or that of a variable or file"
        return whole, whole

    def base_environment(self) -> dict[str, str]:
        return {}

    def entry_of(self, collective: Collective) -> CollectiveEntry:
        return self.catalogue.collectives.get(collective) or CollectiveEntry(
            collective, NO_ID, SizeUnit.MSIZE, (), runtime=False
        )

    def offered(
        self, collective: Collective, segsizes_bytes: Sequence[int], fanouts: Sequence[int]
    ) -> tuple[Configuration, ...]:
        grids = {"fanout": fanouts, "segsize": segsizes_bytes}
        found = [Configuration.default(self.library, collective)]
        for algorithm in self.entry_of(collective).algorithms:
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
        return tuple(found)

    def configuration(
        self, collective: Collective, algorithm: Algorithm, parameters: Mapping[str, int]
    ) -> Configuration:
        return Configuration(self.library, collective, algorithm.name, tuple(parameters.items()))

    def numbered(self, collective: Collective, number: int) -> Configuration:
        """Return the algorithm of that number with its default parameters, 0 for the default."""
        if not number:
            return Configuration.default(self.library, collective)
        algorithm = self.entry_of(collective).numbered(number)
        if algorithm is None:
            of = f"{self.title} {self.release}"
            raise say("no-algorithm-number", library=of, collective=collective, number=number)
        return Configuration(self.library, collective, algorithm.name)

    def algorithm_of(self, configuration: Configuration) -> Algorithm:
        """Return the algorithm of a configuration that is not the default."""
        self._check_library(configuration)
        entry = self.entry_of(configuration.collective)
        algorithm = entry.named(configuration.algorithm)
        if algorithm is None:
            known = ", ".join(a.name for a in entry.algorithms)
            of = f"{self.title} {self.release}"
            what, name = configuration.collective, configuration.algorithm
            raise say("no-algorithm", library=of, collective=what, algorithm=name, known=known)
        return algorithm

    @lru_cache(maxsize=4096)  # noqa: B019 (few releases are asked for)
    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the spelling with the library's name and every honoured parameter written out.

        A parameter that is not given gets the value that the library uses then; a segment size that
        the algorithm ignores is dropped.
        """
        if configuration.is_default:
            return Configuration.default(self.library, configuration.collective)
        algorithm = self.algorithm_of(configuration)
        given = configuration.numbers
        words = [name for name, value in configuration.parameters if isinstance(value, str)]
        if words:
            raise say("not-a-number", configuration=configuration.id, word=words[0])
        unknown = [name for name in given if name not in (*algorithm.parameters, "segsize")]
        if unknown:
            known = ", ".join(algorithm.parameters) or "none"
            of, name = configuration.id, unknown[0]
            raise say("no-parameter", configuration=of, parameter=name, known=known)
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
                of = configuration.id
                raise say(
                    "parameter-out-of-bounds", configuration=of, name=name, low=low, high=high
                )
        return self.configuration(configuration.collective, algorithm, parameters)

    @lru_cache(maxsize=8192)  # noqa: B019
    def running_range(
        self, configuration: Configuration, nprocs: int, element_bytes: int
    ) -> RunningRange:
        if configuration.is_default:
            self._check_library(configuration)
            return EVERYWHERE
        algorithm = self.algorithm_of(configuration)
        if algorithm.wrong:
            why = f"{algorithm.name}: {algorithm.wrong}"
            return RunningRange(None, why, Refusal.HARMS_PROGRAMS)
        segsize = self.canonical(configuration).numbers.get("segsize", 0)
        first, reason = 0, ""
        for limit in sorted(algorithm.limits):
            if limit in _PROCESS_LIMITS:
                fits, need = _PROCESS_LIMITS[limit]
                if fits(nprocs):
                    continue
                if limit in self.breaks:
                    why = f"{algorithm.name} ends the program unless there are {need}"
                    return RunningRange(None, why, Refusal.HARMS_PROGRAMS)
                why = f"{algorithm.name} needs {need}, not {nprocs}"
                return RunningRange(None, why, Refusal.NOT_AS_ITSELF)
            if limit is Limit.SEGMENTED and not segsize:
                why = f"{algorithm.name} needs a segment size above 0"
                return RunningRange(None, why, Refusal.NOT_AS_ITSELF)
            if limit in _SIZE_LIMITS:
                smallest = _SIZE_LIMITS[limit](nprocs, element_bytes, segsize)
                if smallest > first:
                    other = f"; {algorithm.fallback} runs instead" if algorithm.fallback else ""
                    first = smallest
                    reason = (
                        f"{algorithm.name} on {counted(nprocs, 'process', 'es')} needs "
                        f"{counted(smallest, 'byte')} or more{other}"
                    )
        return RunningRange(first, reason)

    def harm(self, configuration: Configuration, programs: Programs) -> str:
        if configuration.is_default:
            return ""
        algorithm = self.algorithm_of(configuration)
        if algorithm.wrong:
            return f"{algorithm.name}: {algorithm.wrong}"
        if Limit.EQUAL_COUNTS in algorithm.limits & self.breaks:
            return f"{algorithm.name} ends the program unless all blocks are of one size"
        return super().harm(configuration, programs)

    def harms(self, configuration: Configuration) -> Harms:
        found = super().harms(configuration)
        if configuration.is_default or any(h.mode is NON_COMMUTATIVE for h in found.found):
            return found
        if Limit.COMMUTATIVE not in self.algorithm_of(configuration).limits & self.breaks:
            return found
        return replace(found, found=(*found.found, Harm(NON_COMMUTATIVE, ProgramOutcome.WRONG)))

    def _check_library(self, configuration: Configuration) -> None:
        if configuration.library != self.library:
            of, library = configuration.id, self.library
            raise say("of-another-library", configuration=of, library=library)


def _power_of_two_below(nprocs: int) -> int:
    return 1 << (nprocs.bit_length() - 1)


_PROCESS_LIMITS: dict[Limit, tuple[Callable[[int], bool], str]] = {
    Limit.TWO_PROCESSES: (lambda n: n == 2, "2 processes"),
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
