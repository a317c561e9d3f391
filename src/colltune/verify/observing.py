"""What can be seen of a call: which function ran, with which parameters, and what libraries say."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from colltune.bench.backends import Ending, raw
from colltune.bench.backends.native import NativeBackend
from colltune.bench.backends.protocol import LaunchPlan
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES, trace
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.openmpi.library import TunedSpace
from colltune.mpi.trace import Function
from colltune.verify.canary import CallSeen, CanaryRun

_BASE, _HAN = "ompi_coll_base_", "mca_coll_han_"
_COMPONENT = re.compile(r"mca_coll_(?P<component>[a-z0-9]+)_(?P<what>\w+)")
UNTRACED = "this library does not show which algorithm ran"
_UNTRACEABLE = ("self", "libnbc", "adapt", "xhc")
# which of the words after the sixth argument are parameters of the algorithm
_PLACES: dict[str, dict[str, int]] = {
    "bcast_intra_chain": {"segsize": 0, "fanout": 1},
    "bcast_intra_pipeline": {"segsize": 0},
    "bcast_intra_split_bintree": {"segsize": 0},
    "bcast_intra_bintree": {"segsize": 0},
    "bcast_intra_binomial": {"segsize": 0},
    "bcast_intra_knomial": {"segsize": 0},
    "reduce_intra_chain": {"segsize": 2, "fanout": 3, "requests": 4},
    "reduce_intra_pipeline": {"segsize": 2, "requests": 3},
    "reduce_intra_binary": {"segsize": 2, "requests": 3},
    "reduce_intra_binomial": {"segsize": 2, "requests": 3},
    "reduce_intra_in_order_binary": {"segsize": 2, "requests": 3},
    "allreduce_intra_ring_segmented": {"segsize": 1},
    "gather_intra_linear_sync": {"segsize": 3},
    "alltoall_intra_linear_sync": {"requests": 2},
}
_TRACE_BUDGET_S = 10.0
_TAKEN = re.compile(r"^MPIR: (?P<what>\S+)$", re.MULTILINE)
_REFUSED = re.compile(r"Incorrect (?:algorithm|adjust value)\b.*")


@dataclass(frozen=True)
class Observer:
    """Reads what was seen of calls in one release of a library."""

    library: str
    release: str
    unavailable: str = ""

    def name(self, seen: CallSeen, *, handed_on: bool = False) -> str:
        """Return what ran, for people: an algorithm with its parameters, or a component."""
        functions = _behind(seen) if handed_on else seen.functions
        if not functions:
            return ""
        first = functions[0]
        if found := _COMPONENT.fullmatch(first.symbol):
            return f"coll/{found['component']} {found['what']}"
        name = self._names.get(first.symbol, first.symbol.removeprefix(_BASE))
        values = ",".join(f"{key}={value}" for key, value in sorted(parameters(first).items()))
        return f"{name}:{values}" if values else name

    def same(self, one: CallSeen, other: CallSeen, *, first_only: bool = False) -> bool:
        """Tell whether the same functions ran, with the same parameters."""
        end = 1 if first_only else None
        return _signature(one.functions[:end]) == _signature(other.functions[:end])

    def differing(
        self,
        wanted: Configuration,
        seen: CallSeen,
        *,
        inside: bool = False,
        handed_on: bool = False,
    ) -> str:
        """Return in what the call differs from `wanted`; empty if that is what ran."""
        functions = _behind(seen) if handed_on else seen.functions
        looked_at = functions if inside else functions[:1]
        ran = [function for function in looked_at if self._is_of(wanted, function.symbol)]
        if not ran:
            other = self.name(seen, handed_on=handed_on)
            if not other:
                return (
                    "none of the functions that can be traced ran; another component serves the "
                    "call"
                )
            return f"{other} ran"
        asked = dict(wanted.parameters)
        for function in ran:
            values = parameters(function)
            wrong = {key: value for key, value in values.items() if asked.get(key, value) != value}
            if not wrong:
                return ""
        text = ", ".join(f"{key}={value} instead of {asked[key]}" for key, value in wrong.items())
        return f"it ran with {text}"

    def untraceable(self, wanted: Configuration, seen: CallSeen) -> str:
        """Return why a call leaves no trace of `wanted`; empty if it would, or left another one."""
        if wanted.algorithm in _UNTRACEABLE and not seen.functions:
            return f"coll/{wanted.algorithm} cannot be traced; nothing else ran"
        return ""

    def _is_of(self, wanted: Configuration, symbol: str) -> bool:
        """Tell whether a function runs `wanted`, an algorithm or a component with one."""
        if symbol == wanted.id:
            return True
        if symbols := self.symbols(wanted):
            return symbol in symbols
        component, _, algorithm = wanted.algorithm.partition("_")
        if component == "tuned":
            return symbol.startswith(f"{_BASE}{wanted.collective}_")
        what = rf"(intra_)?{re.escape(algorithm)}" if algorithm else r"\w+"
        pattern = rf"mca_coll_{re.escape(component)}_{wanted.collective}_{what}"
        return re.fullmatch(pattern, symbol) is not None

    def symbols(self, configuration: Configuration) -> frozenset[str]:
        """Return the functions that can run `configuration`; none where it is unknown."""
        try:
            known = with_libcolltune(LIBRARIES[self.library]).at(self.release)
            return known.expected_symbols(configuration)
        except LibraryError:
            return frozenset()

    @cached_property
    def _names(self) -> dict[str, str]:
        release = LIBRARIES[self.library].at(self.release)
        return {
            symbol: configuration.algorithm
            for collective in Collective
            for configuration in release.portfolio(collective).configurations
            for symbol in release.expected_symbols(configuration)
        }


def _behind(seen: CallSeen) -> tuple[Function, ...]:
    """Return the functions behind those of coll/han that come first."""
    hans = [function.symbol.startswith(_HAN) for function in seen.functions]
    return seen.functions[hans.index(False) :] if False in hans else seen.functions


def _signature(functions: tuple[Function, ...]) -> list[tuple[str, dict[str, int]]]:
    return [(function.symbol, parameters(function)) for function in functions]


def parameters(function: Function) -> dict[str, int]:
    """Return those parameters of an algorithm that can be seen in its call, as it takes them.

    Open MPI hands on what it was told, and takes the nearest value that is allowed.
    """
    places = _PLACES.get(function.symbol.removeprefix(_BASE), {})
    found = {key: function.words[at] for key, at in places.items() if at < len(function.words)}
    ranges = ((key, value, *TunedSpace.ranges[key]) for key, value in found.items())
    return {key: min(max(low, value), high) for key, value, low, high in ranges}


def said(run: CanaryRun, file: Path) -> Iterator[str]:
    """Yield in sentences what the library said in a launch with `file`."""
    text = f"{run.outcome.stdout}\n{run.outcome.stderr}"
    for taken in dict.fromkeys(match["what"] for match in _TAKEN.finditer(text)):
        if taken == str(file):
            yield f"MPICH itself reports that it used {file.name}"
        else:
            yield f"MPICH itself reports that its selection comes from {taken}"
    for refused in dict.fromkeys(match[0].strip() for match in _REFUSED.finditer(text)):
        yield f"the library says: {refused}"


def watch_algorithms(
    backend: NativeBackend,
    shape: Shape,
    instances: Sequence[Instance],
    wanted: Mapping[str, str],
    tracer: Path,
) -> dict[Instance, str]:
    """Return the function that ran for each instance under the environment `wanted`."""
    library = backend.context("").library
    cells = tuple(Cell(Configuration.default(library, i.collective), i) for i in instances)
    steps = tuple(ScheduleStep(i, 0, 0.0) for i in range(len(cells)))
    plan = LaunchPlan(shape, cells, steps, _TRACE_BUDGET_S)
    options = [*trace.launch_options(tracer), "-x", "COLLBENCH_MARK=1"]
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        outcome = backend.launch(
            plan, [{}] * len(cells), "trace", Path(folder), wanted, options=options
        )
        if raw.read_raw(Path(folder) / "raw.txt").ended != Ending.PLAN:
            return {}
    seen = {
        Instance(o.collective, shape, o.msize_bytes): o.symbol
        for o in trace.observed(outcome.stderr)
        if o.comm_size == shape.nprocs and o.symbol
    }
    return {instance: seen[instance] for instance in instances if instance in seen}
