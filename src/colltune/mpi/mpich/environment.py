"""What MPICH's variables decide: single algorithms, and whether the device goes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from colltune.domain import Collective, Configuration
from colltune.mpi.mpich.functions import Functions, function_of
from colltune.mpi.mpich.library import PREFIXES, TITLE
from colltune.mpi.mpich.tree import Facts, Leaf, Test, Tree, as_c_int, search, test
from colltune.mpi.rules import Call

TREE_FILE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
DEVICE_FILE = "MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE"
DEVICE = "MPIR_CVAR_DEVICE_COLLECTIVES"
POSIX_FILE = "MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE"
FALLBACK = "MPIR_CVAR_COLLECTIVE_FALLBACK"
_NO = frozenset({"0", "no", "false", "off"})
_FLAT_BY_NUMBER = {
    Collective.BARRIER: 2,
    Collective.BCAST: 3,
    Collective.ALLREDUCE: 2,
    Collective.ALLGATHER: 2,
    Collective.ALLTOALL: 2,
    Collective.REDUCE: 3,
}
_CHECKED = {
    "commutative": "is_commutative=yes",
    "builtin-op": "is_op_built_in=yes",
    "power-of-two": "comm_size=pow2",
    "inplace": "is_sendbuf_inplace=yes",
    "noinplace": "is_sendbuf_inplace=no",
    "parent-comm": "comm_hierarchy=parent",
    "node-consecutive": "is_node_consecutive=yes",
}
ABORTS_INSIDE = "MPIR_Reduce_scatter_intra_noncommutative"
"""The algorithm whose limits are looked at only inside of it, where it aborts."""


@dataclass(frozen=True)
class Forced:
    """What a variable asks for; `error` tells why MPI_Init would fail with it."""

    variable: str
    value: str
    configuration: Configuration | None
    function: str = ""
    error: str = ""

    @property
    def text(self) -> str:
        return f"{self.variable}={self.value}"

    def ends_inside(self, call: Call) -> str:
        """Return why a call ends the program in an algorithm; empty if it does not."""
        if self.function == ABORTS_INSIDE and call.comm_size & (call.comm_size - 1):
            return f"{self.function} aborts on other than a power of two of processes"
        return ""


def bare(variable: str) -> str:
    """Return a variable's name without its prefix; empty if it is none of MPICH's."""
    found = next((p for p in PREFIXES if variable.startswith(p)), None)
    return variable.removeprefix(found) if found else ""


@dataclass(frozen=True)
class JobVariables:
    """The variables of a job, as one release takes them."""

    functions: Functions
    environment: Mapping[str, str]

    def value(self, name: str) -> str | None:
        """Return the value of a control variable (``MPIR_CVAR_…``) by any of its names."""
        stem, given = name.removeprefix(PREFIXES[0]), self.environment
        return next((given[p + stem] for p in PREFIXES if p + stem in given), None)

    def forced(self, collective: Collective) -> Forced | None:
        """Return what is chosen for all calls of a collective; None if nothing."""
        variable = f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM"
        value = self.value(variable)
        if value is None or value == "auto":
            return None
        kind = "allcomm" if value == "nb" else "intra"
        function = f"MPIR_{collective.capitalize()}_{kind}_{value}"
        if function not in self.functions.by_collective[collective]:
            what = f"{TITLE} {self.functions.release} has no such algorithm and ends in MPI_Init"
            return Forced(variable, value, None, error=f"{variable}={value}: {what}")
        leaf = Leaf(function, tuple(self._parameters(collective, function).items()))
        configuration = self.functions.configuration_of(collective, leaf)
        return Forced(variable, value, configuration, function)

    def _parameters(self, collective: Collective, function: str) -> dict[str, str]:
        found: dict[str, str] = {}
        stem = f"MPIR_CVAR_{collective.upper()}_"
        for algorithm in self.functions.space.entry_of(collective).algorithms:
            if function_of(collective, algorithm) != function:
                continue
            for name, variable in algorithm.variables:
                said = self.value(stem + variable)
                default = dict(algorithm.defaults).get(name, 0)
                number = default if said is None else as_c_int(said)
                found.setdefault("k" if name == "fanout" else "chunk_size", str(number))
        wanted = self.functions.parameters.get(function, ())
        if "tree_type" in wanted:
            own = "knomial_1" if collective is Collective.ALLREDUCE else "kary"
            found["tree_type"] = self.value(f"{stem}TREE_TYPE") or own
        return {name: value for name, value in found.items() if name in wanted}

    def unknown_choice(self) -> str:
        """Return why MPI_Init fails: a variable names no algorithm; empty if none does."""
        chosen = (self.forced(collective) for collective in Collective)
        return next((found.error for found in chosen if found is not None and found.error), "")

    def why_unusable(self, function: str, call: Call) -> str:
        """Return why MPICH would not take an algorithm for a call, by its own checks."""
        facts = Facts(call, self.functions.knows_parts)
        needs = self.functions.needs.get(function, [])
        if function.startswith("MPIR_Scan_intra_smp"):
            needs = ["commutative", "node-consecutive"]
        for need in needs if function != ABORTS_INSIDE else ():
            if need == "size-ge-pof2":
                if facts.holds(Test("count", "<", "pow2"), at_call=True):
                    return "there are fewer elements than the largest power of two of processes"
            elif need in _CHECKED and not facts.holds(test(_CHECKED[need]), at_call=True):
                return f"{_CHECKED[need]} does not hold"
        return ""

    @property
    def fallback(self) -> str:
        """What happens where a chosen algorithm cannot run: silent, print or error."""
        return self.value(FALLBACK) or "silent"

    def device_is_asked(self, collective: Collective) -> bool:
        """Tell whether the device's compositions go first."""
        which = self.value(DEVICE) or "percoll"
        if which != "percoll":
            return which == "all"
        own = self.value(f"MPIR_CVAR_{collective.upper()}_DEVICE_COLLECTIVE")
        return own is None or own.strip().lower() not in _NO

    def composition(self, collective: Collective) -> tuple[int, bool]:
        """Return the number of the composition that is chosen, 0 for none, and if it is flat.

        4.0 has no such variables.
        """
        value = self.value(f"MPIR_CVAR_{collective.upper()}_COMPOSITION")
        number = 0 if value is None or self.functions.series == "4.0" else as_c_int(value)
        flat = _FLAT_BY_NUMBER.get(collective)
        if flat is None or not 0 < number <= flat:
            return 0, False
        return number, number == flat

    def device_tree_is_asked(self, collective: Collective) -> bool:
        """Tell whether the device goes first, by its tree and not by a composition's number."""
        return self.device_is_asked(collective) and not self.composition(collective)[0]

    def device_goes_first(self, call: Call, tree: Tree | None = None) -> str:
        """Return which composition of the device takes a call apart by nodes; empty if none.

        `tree` is the device's own, in place of the built-in one.
        """
        if not self.device_is_asked(call.collective):
            return ""
        number, flat = self.composition(call.collective)
        if number:
            return "" if flat else f"composition {number}"
        asked = tree or self.functions.compositions[call.collective]
        found = search(asked, Facts(call, self.functions.knows_parts))
        if found.leaf is None or self.functions.is_flat(found.leaf.function):
            return ""
        return found.leaf.function.removeprefix("MPIDI_")
