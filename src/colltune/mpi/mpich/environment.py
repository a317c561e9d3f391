"""What MPICH's environment variables decide: single algorithms, and whether the device goes first.

A control variable can be set by three names; ``MPIR_CVAR_…`` goes before ``MPIR_PARAM_…`` and that
before ``MPICH_…``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from colltune.domain import Collective, Configuration
from colltune.mpi.file_format import Call
from colltune.mpi.mpich import builtin
from colltune.mpi.mpich.facts import Facts, search
from colltune.mpi.mpich.functions import DATA, configuration_of, function_of, functions_of
from colltune.mpi.mpich.releases import TITLE, catalogue_of, entry_of
from colltune.mpi.mpich.tree import Leaf, Test, Tree, as_c_int

PREFIXES = ("MPIR_CVAR_", "MPIR_PARAM_", "MPICH_")
TREE_FILE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
DEVICE_FILE = "MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE"
DEVICE = "MPIR_CVAR_DEVICE_COLLECTIVES"
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
# what the library looks at only inside of the algorithm, where it aborts
_UNCHECKED = frozenset({"MPIR_Reduce_scatter_intra_noncommutative"})


@dataclass(frozen=True)
class Forced:
    """What a variable asks for; `error` tells why MPI_Init would fail with it."""

    variable: str
    value: str
    configuration: Configuration | None
    function: str = ""
    error: str = ""


def value_of(environment: Mapping[str, str], name: str) -> str | None:
    """Return the value of a control variable (``MPIR_CVAR_…``) by any of its names."""
    stem = name.removeprefix(PREFIXES[0])
    return next((environment[p + stem] for p in PREFIXES if p + stem in environment), None)


@cache
def names(release: str) -> frozenset[str]:
    """Return the names of a release's control variables, without prefix.

    Of series between those whose names are known it is taken to have what either has.
    """
    series = catalogue_of(release).series
    text = (DATA / "variables.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    known = {one for _, *those in lines for one in those}
    near = {series} if series in known else {"4.0", "4.3"}
    return frozenset(name for name, *those in lines if near & set(those))


def bare(variable: str) -> str:
    """Return a variable's name without its prefix; empty if it is none of MPICH's."""
    found = next((p for p in PREFIXES if variable.startswith(p)), None)
    return variable.removeprefix(found) if found else ""


def forced(release: str, collective: Collective, environment: Mapping[str, str]) -> Forced | None:
    """Return what the variables choose for all calls of a collective; None if nothing."""
    variable = f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM"
    value = value_of(environment, variable)
    if value is None or value == "auto":
        return None
    kind = "allcomm" if value == "nb" else "intra"
    function = f"MPIR_{collective.capitalize()}_{kind}_{value}"
    if function not in functions_of(release).by_collective[str(collective)]:
        error = f"{variable}={value}: {TITLE} {release} has no such algorithm and ends in MPI_Init"
        return Forced(variable, value, None, error=error)
    leaf = Leaf(function, tuple(_parameters(release, collective, function, environment).items()))
    return Forced(variable, value, configuration_of(release, collective, leaf), function)


def _parameters(
    release: str, collective: Collective, function: str, environment: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    stem = f"MPIR_CVAR_{collective.upper()}_"
    for algorithm in entry_of(release, collective).algorithms:
        if function_of(collective, algorithm) != function:
            continue
        for name, variable in algorithm.variables:
            said = value_of(environment, stem + variable)
            key = "k" if name == "fanout" else "chunk_size"
            default = dict(algorithm.defaults).get(name, 0)
            found.setdefault(key, str(default if said is None else as_c_int(said)))
    wanted = functions_of(release).parameters.get(function, ())
    if "tree_type" in wanted:
        own = "knomial_1" if collective is Collective.ALLREDUCE else "kary"
        found["tree_type"] = value_of(environment, f"{stem}TREE_TYPE") or own
    return {name: value for name, value in found.items() if name in wanted}


def why_unusable(release: str, function: str, call: Call) -> str:
    """Return why MPICH would not take an algorithm for a call, by its own checks."""
    facts = Facts(call)
    needs = functions_of(release).needs.get(function, ())
    if function.startswith("MPIR_Scan_intra_smp"):
        needs = ("commutative", "node-consecutive")
    for need in needs if function not in _UNCHECKED else ():
        if need == "size-ge-pof2":
            if facts.holds(Test("count", "<", "pow2"), release, at_call=True):
                return "there are fewer elements than the largest power of two of processes"
        elif need in _CHECKED:
            name, _, value = _CHECKED[need].partition("=")
            if not facts.holds(Test(name, "=", value), release, at_call=True):
                return f"{_CHECKED[need]} does not hold"
    return ""


def ends_inside(function: str, call: Call) -> str:
    """Return why a call ends the program in an algorithm whose limits are checked nowhere else."""
    if function in _UNCHECKED and call.comm_size & (call.comm_size - 1):
        return f"{function} aborts on other than a power of two of processes"
    return ""


def fallback(environment: Mapping[str, str]) -> str:
    """Return what happens where a chosen algorithm cannot run: silent, print or error."""
    return value_of(environment, FALLBACK) or "silent"


def device_is_asked(collective: Collective, environment: Mapping[str, str]) -> bool:
    """Tell whether the device's compositions go first."""
    which = value_of(environment, DEVICE) or "percoll"
    if which != "percoll":
        return which == "all"
    own = value_of(environment, f"MPIR_CVAR_{collective.upper()}_DEVICE_COLLECTIVE")
    return own is None or own.strip().lower() not in _NO


def unknown_choice(release: str, environment: Mapping[str, str]) -> str:
    """Return why MPI_Init fails with the variables: one names no algorithm; empty if none does."""
    chosen = (forced(release, collective, environment) for collective in Collective)
    return next((found.error for found in chosen if found is not None and found.error), "")


def device_tree_is_asked(release: str, call: Call, environment: Mapping[str, str]) -> bool:
    """Tell whether the device goes first, by its tree and not by the number of a composition."""
    number, _ = composition(release, call.collective, environment)
    return device_is_asked(call.collective, environment) and not number


def device_goes_first(
    release: str, call: Call, environment: Mapping[str, str], tree: Tree | None = None
) -> str:
    """Return which composition of the device takes a call apart by nodes; empty if none.

    `tree` is the device's own, in place of the built-in one.
    """
    if not device_tree_is_asked(release, call, environment):
        number, flat = composition(release, call.collective, environment)
        asked_first = device_is_asked(call.collective, environment)
        return f"composition {number}" if asked_first and not flat else ""
    asked = tree or builtin.compositions_of(release)[str(call.collective)]
    found = search(asked, Facts(call), release)
    if found.leaf is None or builtin.is_flat(release, found.leaf.function):
        return ""
    return found.leaf.function.removeprefix("MPIDI_")


def composition(
    release: str, collective: Collective, environment: Mapping[str, str]
) -> tuple[int, bool]:
    """Return the number of the composition that a variable chooses, 0 for none, and if it is flat.

    4.0 has no such variables.
    """
    value = value_of(environment, f"MPIR_CVAR_{collective.upper()}_COMPOSITION")
    number = 0 if value is None or catalogue_of(release).series == "4.0" else as_c_int(value)
    flat = _FLAT_BY_NUMBER.get(collective)
    if flat is None or not 0 < number <= flat:
        return 0, False
    return number, number == flat
