"""Configurations of coll/han's pipelined algorithm: modules, segment size, coll/adapt's trees.

Those of table II of Luo et al., CLUSTER 2020, by the paper's names: ``segsize`` (fs), the modules
``up`` (imod, between nodes) and ``low`` (smod, within one), and for coll/adapt between nodes the
algorithms ``ibalg`` and ``iralg`` with segment sizes ``ibs`` and ``irs`` of their own; reductions
alone have ``iralg`` and ``irs``. A segment size of 0 stands for no segments.

Segment sizes and algorithms are read at every call; the modules once, when MPI starts
(``coll_han_component.c``), and by number only: a module that is named by its component's name is
taken for another number, past the end of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import say
from colltune.mpi.catalogue import Catalogue
from colltune.mpi.configuration_space import (
    CatalogueSpace,
    ConfigurationSpace,
)
from colltune.mpi.openmpi.mca import environment
from colltune.mpi.openmpi.releases import LIBRARY
from colltune.mpi.running import EVERYWHERE, Refusal, RunningRange
from colltune.text import counted

ALGORITHM = "han_intra"
COLLECTIVES = (Collective.ALLREDUCE, Collective.BCAST)
"""Those whose tasks the paper tells."""
ADAPT = "adapt"
UP_MODULES = {"libnbc": 0, ADAPT: 1}
TREES = {
    "binomial": 1,
    "in_order_binomial": 2,
    "binary": 3,
    "pipeline": 4,
    "chain": 5,
    "linear": 6,
}
"""coll/adapt's algorithms by their numbers; a chain has four branches."""
MAX_SEGSIZE_BYTES = 2**31 - 1
_LOW_MODULES = {"5.0": {"tuned": 0, "sm": 1}, "6.0": {"tuned": 0, "xhc": 2}}
_SEGSIZES_BYTES = {"5.0": 65536, "6.0": 524288}
_LEAST_NODES, _LEAST_PPN = 2, 2
_DEFAULT_TREE, _DEFAULT_IRS_BYTES = "binomial", 163740


def is_setup(configuration: Configuration) -> bool:
    """Tell whether a configuration is one of coll/han's pipelined algorithm."""
    return (
        configuration.library == LIBRARY
        and configuration.algorithm == ALGORITHM
        and configuration.collective in COLLECTIVES
    )


def setup(collective: Collective, values: Mapping[str, int | str]) -> Configuration:
    return Configuration(LIBRARY, collective, ALGORITHM, tuple(values.items()))


def limit_on(shape: Shape) -> str:
    """Return why coll/han hands calls on a shape to coll/tuned; empty if it does not."""
    if shape.nodes < _LEAST_NODES:
        return "coll/han does not serve communicators on one node"
    if shape.ppn < _LEAST_PPN:
        return "coll/han passes calls on if no node has more than one process"
    return ""


class HanSetups(ConfigurationSpace):
    """The setups that a release has; `tuned` are its algorithms of coll/tuned."""

    def __init__(self, release: str, catalogue: Catalogue, tuned: CatalogueSpace) -> None:
        self.release, self._catalogue, self.tuned = release, catalogue, tuned

    def owns(self, configuration: Configuration) -> bool:
        return is_setup(configuration)

    def low_modules(self) -> dict[str, int]:
        """Return the modules within a node by their numbers."""
        if self._catalogue.series not in _LOW_MODULES:
            raise say("no-han", release=self.release)
        return dict(_LOW_MODULES[self._catalogue.series])

    def _has(self, collective: Collective) -> bool:
        """Tell whether coll/han has setups, and outranks coll/tuned across nodes."""
        serves = collective in COLLECTIVES and collective in self._catalogue.han_collectives
        return serves and self._catalogue.series in _LOW_MODULES

    @lru_cache(maxsize=8192)  # noqa: B019 (few releases are asked for)
    def canonical(self, configuration: Configuration) -> Configuration:
        if not is_setup(configuration) or not self._has(configuration.collective):
            raise say("no-such-setup", configuration=configuration.id, release=self.release)
        given = dict(configuration.parameters)
        up = _word(configuration, given.pop("up", "libnbc"), "up", UP_MODULES)
        low = _word(configuration, given.pop("low", "tuned"), "low", self.low_modules())
        usual = _SEGSIZES_BYTES[self._catalogue.series]
        segsize = _size(configuration, given.pop("segsize", usual), "segsize")
        values: dict[str, int | str] = {"up": up, "low": low, "segsize": segsize}
        if up == ADAPT:
            values |= _adapt(configuration, given)
        if given:
            raise say(
                "no-parameter-with-up", configuration=configuration.id, up=up, parameter=min(given)
            )
        return setup(configuration.collective, values)

    def effective(
        self, configuration: Configuration, nprocs: int, msize_bytes: int
    ) -> Configuration:
        """Return the setup with the smallest parameters that runs in the same way."""
        return self.cut(configuration, msize_bytes)

    def cut(self, configuration: Configuration, msize_bytes: int) -> Configuration:
        """Return the setup without segment sizes that make no difference."""
        spelled = self.canonical(configuration)
        values = dict(spelled.parameters)
        segsize = spelled.numbers["segsize"]
        if segsize >= msize_bytes:
            values["segsize"] = 0
        part = min(segsize, msize_bytes) or msize_bytes
        for name in ("ibs", "irs"):
            if spelled.numbers.get(name, 0) >= part:
                values[name] = 0
        return setup(spelled.collective, values)

    def running_range(
        self, configuration: Configuration, nprocs: int, element_bytes: int
    ) -> RunningRange:
        self.canonical(configuration)
        least = _LEAST_NODES * _LEAST_PPN
        if nprocs >= least:
            return EVERYWHERE
        why = (
            f"{ALGORITHM} needs {counted(least, 'process', 'es')} or more: several on each of "
            "several nodes"
        )
        return RunningRange(None, why, Refusal.NOT_AS_ITSELF)

    def limit_on(self, configuration: Configuration, shape: Shape) -> str:
        return limit_on(shape)

    def variables(self, configuration: Configuration) -> dict[str, int | str]:
        """Return the control variables that a running program may write, beside the modules'.

        They must hold during the calls; coll/adapt's are the same ones for all collectives.
        """
        spelled = self.canonical(configuration)
        collective = spelled.collective
        values = dict(spelled.parameters)
        found: dict[str, int | str] = {
            "coll_han_priority": self._catalogue.han_priority or 0,
            f"coll_han_use_{collective}_algorithm": "intra",
            f"coll_han_{collective}_segsize": values["segsize"],
        }
        for kind, tree, segsize in (("bcast", "ibalg", "ibs"), ("reduce", "iralg", "irs")):
            if tree in values:
                found[f"coll_adapt_{kind}_algorithm"] = TREES[str(values[tree])]
                found[f"coll_adapt_{kind}_segment_size"] = values[segsize]
        return found

    def launch_variables(self, configuration: Configuration) -> dict[str, str]:
        """Return the parameters that must be set before MPI starts: modules not the default."""
        spelled = self.canonical(configuration)
        values = dict(spelled.parameters)
        numbers = {
            "up": UP_MODULES[str(values["up"])],
            "low": self.low_modules()[str(values["low"])],
        }
        stem = f"coll_han_{spelled.collective}"
        return {f"{stem}_{level}_module": str(n) for level, n in numbers.items() if n}

    def parameters(self, configuration: Configuration) -> dict[str, str]:
        """Return all parameters that make a job's calls run a setup wherever coll/han does."""
        fixed = {name: str(value) for name, value in self.variables(configuration).items()}
        return fixed | self.launch_variables(configuration)

    def force(self, configuration: Configuration) -> dict[str, int | str]:
        """Return a setup's variables, and those that leave coll/tuned to itself."""
        default = Configuration.default(LIBRARY, configuration.collective)
        return self.tuned.force(default) | self.variables(configuration)

    def launch_environment(self, configuration: Configuration) -> dict[str, str] | None:
        """Return coll/han's modules, where those of a setup are not the usual ones."""
        return environment(self.launch_variables(configuration))

    def forced_environment(self, configuration: Configuration) -> dict[str, str]:
        return self.tuned.base_environment() | environment(self.parameters(configuration))

    def expected_symbols(self, configuration: Configuration) -> frozenset[str]:
        collective = self.canonical(configuration).collective
        return frozenset({f"mca_coll_han_{collective}_intra"})

    def job_wide(
        self, collective: Collective, segsizes_bytes: Sequence[int]
    ) -> tuple[Configuration, ...]:
        """Return the setups to be measured: all modules, coll/adapt with binomial trees."""
        if not self._has(collective):
            return ()
        found = []
        for up, low, segsize in product(UP_MODULES, self.low_modules(), segsizes_bytes):
            values: dict[str, int | str] = {"up": up, "low": low, "segsize": segsize}
            if up == ADAPT and collective is not Collective.BCAST:
                values["irs"] = 0
            found.append(self.canonical(setup(collective, values)))
        return tuple(found)


def _adapt(configuration: Configuration, given: dict[str, int | str]) -> dict[str, int | str]:
    """Take coll/adapt's parameters out of `given`."""
    parts = [("ibalg", "ibs", 0)]
    if configuration.collective is not Collective.BCAST:
        parts.append(("iralg", "irs", _DEFAULT_IRS_BYTES))
    found: dict[str, int | str] = {}
    for tree, segsize, default in parts:
        found[tree] = _word(configuration, given.pop(tree, _DEFAULT_TREE), tree, TREES)
        found[segsize] = _size(configuration, given.pop(segsize, default), segsize)
    return found


def _word(
    configuration: Configuration, value: int | str, name: str, known: Mapping[str, int]
) -> str:
    if value not in known:
        raise say(
            "not-one-of-known", configuration=configuration.id, name=name, known=", ".join(known)
        )
    return str(value)


def _size(configuration: Configuration, value: int | str, name: str) -> int:
    if not isinstance(value, int) or not 0 <= value <= MAX_SEGSIZE_BYTES:
        of, high = configuration.id, MAX_SEGSIZE_BYTES
        raise say("parameter-out-of-bounds", configuration=of, name=name, low=0, high=high)
    return value
