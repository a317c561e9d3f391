"""Which family an algorithm of an MPI library belongs to, and what it costs.

Names are those of the catalogues and of published data sets: Open MPI, MPICH (also Cray's, and
Intel MPI where its names say what it does), SimGrid's SMPI, and the parts of Fujitsu MPI that it
has from Open MPI. They are compared without case, hyphens, and the prefixes that data sets put
before them. Bine trees (De Sensi et al., SC 2025) take as many rounds and bytes as binomial ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from colltune.domain import INTERPOSED, Collective, Configuration
from colltune.models.costs import formulas as f
from colltune.models.costs.network import Coefficient, CostFunction, Instances, Numbers, ceil_log
from colltune.mpi import DOUBLING_BINOMIAL_TREES


def _whole(cost: CostFunction) -> CostFunction:
    """Return the cost without segments."""
    return lambda at: cost(replace(at, parameters={}))


_BROADCASTS: dict[str, CostFunction] = {
    "flat": f.flat,
    "chain": _whole(f.pipeline),
    "pipeline": f.pipeline,
    "binary": _whole(f.binary),
    "binomial": _whole(f.binomial),
    "scatter_ring_allgather": f.scatter_ring_allgather,
}


def cost_of(configuration: Configuration) -> tuple[str, CostFunction] | None:
    """Return the name and cost of a configuration of libcolltune; None if its rounds are unknown.

    Those of the MPI library's own broadcast in groups are, and those of an adaptive algorithm.
    """
    words = dict(configuration.parameters)
    doubling = words.get("exchange") == "recursive_doubling"
    match configuration.collective, configuration.algorithm:
        case Collective.BCAST, "hierarchical":
            inner, outer = str(words.get("inner", "binomial")), str(words.get("outer", "same"))
            outer = inner if outer == "same" else outer
            if inner not in _BROADCASTS or outer not in _BROADCASTS:
                return None
            name = inner if inner == outer else f"{outer}, then {inner},"
            return f"{name} in groups", _in_groups(_BROADCASTS[outer], _BROADCASTS[inner])
        case Collective.ALLGATHER, "hierarchical":
            return "allgather in two levels", lambda at: _allgather(at, doubling=doubling)
        case Collective.ALLREDUCE, "ring" | "doubling" as name:
            told = "ring allreduce in two levels" if name == "ring" else "allreduce on one node"
            return told, lambda at: _allreduce(at, doubling=doubling)
        case Collective.ALLTOALLV, "eager_pairwise":
            return "at once up to a threshold", _eager_pairwise
    return None


def _in_groups(outer: CostFunction, inner: CostFunction) -> CostFunction:
    """Return the cost of `outer` among the leaders of groups and of `inner` in the largest."""

    def cost(at: Instances) -> Numbers:
        p, asked = at.nprocs, float(at.parameters.get("groups", 0))
        groups = np.clip(asked if asked else np.floor(np.sqrt(p) + 0.5), 1.0, p)
        led = np.minimum(groups, at.nodes)
        size = np.ceil(p / groups)
        nodes = np.maximum(np.ceil(size / at.ppn), 1.0)
        within = replace(at, nodes=nodes, ppn=np.where(nodes > 1, size / nodes, size))
        return outer(replace(at, nodes=led, ppn=groups / led)) + inner(within)

    return cost


def _allgather(at: Instances, *, doubling: bool) -> Numbers:
    m = at.msize_bytes
    exchanged = _exchange(at, at.ppn * m, doubling=doubling)
    return exchanged + _through_shared_memory(at, m, at.nprocs * m)


def _allreduce(at: Instances, *, doubling: bool) -> Numbers:
    m, nodes, ppn = at.msize_bytes, at.nodes, at.ppn
    share = m / nodes
    reduced = m * (ppn - 1) / ppn + share * (nodes - 1) / _leaders(at)
    return (
        at.amounts({Coefficient.REDUCTION: reduced})
        + _exchange(at, share, doubling=False)
        + _exchange(at, share, doubling=doubling)
        + _through_shared_memory(at, m, m)
    )


def _leaders(at: Instances) -> Numbers:
    asked = float(max(at.parameters.get("leaders", 1), 1))
    return np.asarray(np.clip(asked, 1.0, at.ppn))


def _exchange(at: Instances, block: Numbers, *, doubling: bool) -> Numbers:
    """Return what leaders pay that exchange blocks of nodes, each leader its share of them."""
    leaders = _leaders(at)
    steps = ceil_log(at.nodes) if doubling else at.nodes - 1
    nbytes = (at.nodes - 1) * block / leaders
    return at.messages(between=steps, bytes_between=nbytes, senders=leaders)


def _through_shared_memory(at: Instances, copied_in: Numbers, copied_out: Numbers) -> Numbers:
    """Return what each process pays to copy its data in, to see that all are there, and out."""
    waits = np.where(at.ppn > 1, at.nodes, 0.0)
    return at.amounts({Coefficient.INTRA_LATENCY: waits, Coefficient.COPY: copied_in + copied_out})


def _eager_pairwise(at: Instances) -> Numbers:
    eager = (at.msize_bytes <= at.parameters.get("threshold", 32768))[:, None]
    return np.where(eager, f.spread_overlapping(at), f.spread(at))


FORMULAS_VERSION = 1
"""To be raised whenever an amount of any family changes, since fitted parameters belong to them."""
_GENERIC = "generic"
_PREFIXES = ("over.", "default_", "ompi_")


class Family(NamedTuple):
    """A cost function, its name, and the parameters that hold where a configuration gives none."""

    name: str
    cost: CostFunction
    defaults: Mapping[str, int]

    @property
    def is_generic(self) -> bool:
        """Whether the algorithm's rounds are not known."""
        return self.name == _GENERIC


Families = dict[str, Family]


def _families(
    *rows: tuple[str, CostFunction, str] | tuple[str, CostFunction, str, Mapping[str, int]],
) -> Families:
    """Return rows (family, cost, algorithms separated by spaces, its parameters) by algorithm."""
    families: Families = {}
    for name, cost, algorithms, *defaults in rows:
        family = Family(name, cost, defaults[0] if defaults else {})
        families |= dict.fromkeys(algorithms.split(), family)
    return families


_REDUCE_BINOMIAL = f.reduction(f.binomial)
_UP_AND_DOWN = f.reduce_broadcast(f.binomial)
_KNOMIAL, _8K = {"fanout": 4}, {"segsize": 8192}


def _allreduce_in_levels(between: CostFunction) -> CostFunction:
    return f.two_level(between, _REDUCE_BINOMIAL, f.binomial)


_BCAST = _families(
    ("flat", f.flat, "flattree"),
    ("flat, non-blocking", f.flat_overlapping, "basic_linear linear"),
    ("chain", f.chain, "chain", {"fanout": 4}),
    ("pipeline", f.pipeline, "pipeline pipelined_chain"),
    ("pipeline", f.pipeline, "ntsl", _8K),
    ("binary", f.binary, "binary binary_tree"),
    ("binary", f.binary, "ntsb", _8K),
    ("k-ary", f.k_ary, "tree_kary pipelined_tree_kary", {"fanout": 2}),
    ("split-binary", f.split_binary, "split_binary split_binary_tree"),
    ("split-binary", f.split_binary, "split_bintree", _8K),
    (
        "binomial",
        f.binomial,
        "binomial binomial_tree bine_lat bine_lat_new bine_lat_i_new bine_lat_reversed",
    ),
    (
        "k-nomial",
        f.knomial,
        "knomial tree_knomial_1 tree_knomial_2 mvapich2_knomial_intra_node",
        _KNOMIAL,
    ),
    (
        "scatter-recursive-doubling-allgather",
        f.scatter_doubling_allgather,
        "scatter_allgather scatter_rdb_allgather scatter_recursive_doubling_allgather"
        " bine_bdw_remap bine_bdw_static recursive_doubling",
    ),
    (
        "scatter-ring-allgather",
        f.scatter_ring_allgather,
        "scatter_allgather_ring scatter_lr_allgather scatter_ring_allgather ring",
    ),
    (
        "binomial in two levels",
        f.two_level(f.binomial, f.binomial),
        "smp_binomial topology_binomial",
    ),
    (
        "scatter-recursive-doubling-allgather in two levels",
        f.two_level(f.scatter_doubling_allgather, f.binomial),
        "topology_recursive_doubling",
    ),
    (
        "scatter-ring-allgather in two levels",
        f.two_level(f.scatter_ring_allgather, f.binomial),
        "topology_ring",
    ),
    ("binary in two levels", f.two_level(f.binary, f.binary), "smp_binary", _8K),
    ("pipeline in two levels", f.two_level(f.pipeline, f.pipeline), "smp_linear", _8K),
)
_REDUCE = _families(
    ("flat", f.reduction(f.flat_overlapping), "linear"),
    ("chain", f.reduction(f.chain), "chain", {"fanout": 4}),
    ("pipeline", f.reduction(f.pipeline), "pipeline"),
    ("binary", f.reduction(f.binary), "binary in_order_binary in_order"),
    ("binomial", _REDUCE_BINOMIAL, "binomial bine_lat"),
    ("k-nomial", f.reduction(f.knomial), "knomial", _KNOMIAL),
    ("Rabenseifner", f.reduce_rabenseifner, "rabenseifner reduce_scatter_gather bine_bdw"),
    (
        "binomial in two levels",
        f.two_level(_REDUCE_BINOMIAL, _REDUCE_BINOMIAL),
        "topology_binomial",
    ),
    (
        "Rabenseifner in two levels",
        f.two_level(f.reduce_rabenseifner, _REDUCE_BINOMIAL),
        "topology_rabenseifner",
    ),
)
_ALLREDUCE = _families(
    ("linear", f.reduce_broadcast(f.flat_overlapping), "basic_linear"),
    ("reduce and broadcast", _UP_AND_DOWN, "nonoverlapping redbcast reduce_bcast rdbc"),
    (
        "reduce and broadcast",
        f.reduce_broadcast(f.knomial),
        "tree_knomial_1 tree_knomial_2 knomial",
        _KNOMIAL,
    ),
    ("reduce and broadcast", f.reduce_broadcast(f.k_ary), "tree_kary", {"fanout": 2}),
    ("recursive doubling", f.allreduce_doubling, "recursive_doubling rdb bine_lat"),
    ("ring", f.allreduce_ring, "ring lr"),
    ("segmented ring", f.allreduce_segmented_ring, "segmented_ring ring_segmented"),
    (
        "Rabenseifner",
        f.allreduce_rabenseifner,
        "rabenseifner rab_rdb mvapich2_rs reduce_scatter_allgather bine_bdw_remap bine_bdw_static",
    ),
    ("allgather and reduce", f.allgather_reduce, "allgather_reduce"),
    (
        "reduce and broadcast in two levels",
        _allreduce_in_levels(_UP_AND_DOWN),
        "smp_binomial topology_reduce_bcast",
    ),
    ("recursive doubling in two levels", _allreduce_in_levels(f.allreduce_doubling), "smp_rdb"),
    ("ring in two levels", _allreduce_in_levels(f.allreduce_ring), "smp_rsag_lr"),
    (
        "Rabenseifner in two levels",
        _allreduce_in_levels(f.allreduce_rabenseifner),
        "mvapich2_two_level",
    ),
)
_ALLGATHER = _families(
    ("gather and broadcast", f.gather_broadcast, "linear basic_default"),
    ("ring", f.allgather_ring, "ring"),
    (
        "Bruck",
        f.allgather_bruck,
        "bruck brucks k_bruck k_brucks bruck_k_fanout recexch_doubling recexch_halving"
        " bine_permute_remap bine_permute_static",
    ),
    (
        "recursive doubling",
        f.allgather_doubling,
        "recursive_doubling bine_send_remap bine_send_static",
    ),
    ("neighbour exchange", f.allgather_neighbours, "neighbor"),
    ("sparbit", f.allgather_sparbit, "sparbit"),
    ("direct spread", f.spread, "two_proc"),
    ("direct spread", f.spread_overlapping, "direct_messaging"),
)
_ALLTOALL = _families(
    ("linear", f.alltoall_linear, "linear basic_linear isend_irecv_waitall"),
    ("linear", f.alltoall_linear, "scattered", {"requests": 32}),
    ("linear", f.alltoall_linear, "linear_sync", {"requests": 1}),
    ("pairwise", f.spread, "pairwise pairwise_sendrecv_replace two_proc"),
    ("Bruck", f.alltoall_bruck, "bruck brucks k_brucks modified_bruck bine"),
)
_GATHER = _families(
    ("linear", f.flat_overlapping, "basic_linear linear linear_nb"),
    ("linear, synchronised", f.gather_linear_synchronised, "linear_sync linear_synch"),
    ("binomial", f.gather_binomial, "binomial bine topology_binomial"),
)
_REDUCE_SCATTER = _families(
    (
        "reduce and scatter",
        f.reduce_scatter_nonoverlapping,
        "non_overlapping basic_linear reduce_scatterv",
    ),
    (
        "recursive halving",
        f.reduce_scatter_halving,
        "recursive_halving recursive_distance_doubling bine_send_remap bine_permute_remap",
    ),
    ("recursive doubling", f.reduce_scatter_doubling, "recursive_doubling noncommutative"),
    ("butterfly", f.reduce_scatter_butterfly, "butterfly"),
    ("ring", f.reduce_scatter_ring, "ring"),
    ("pairwise", f.reduce_scatter_pairwise, "pairwise"),
)
_SCAN = _families(
    ("linear", f.scan_linear, "linear"),
    ("recursive doubling", f.scan_doubling, "recursive_doubling"),
)
_BARRIER = _families(
    ("linear", f.barrier_linear, "linear"),
    ("double ring", f.barrier_double_ring, "double_ring"),
    ("recursive doubling", f.barrier_doubling, "recursive_doubling recexch"),
    ("dissemination", f.barrier_dissemination, "bruck dissemination k_dissemination two_proc"),
    ("tree", f.barrier_tree, "tree"),
)
FAMILIES: dict[Collective, Families] = {
    Collective.BCAST: _BCAST,
    Collective.REDUCE: _REDUCE,
    Collective.ALLREDUCE: _ALLREDUCE,
    Collective.ALLGATHER: _ALLGATHER,
    Collective.ALLGATHERV: _ALLGATHER,
    Collective.ALLTOALL: _ALLTOALL,
    Collective.ALLTOALLV: _ALLTOALL,
    Collective.GATHER: _GATHER,
    Collective.SCATTER: _GATHER,
    Collective.REDUCE_SCATTER: _REDUCE_SCATTER,
    Collective.REDUCE_SCATTER_BLOCK: {
        name: family._replace(defaults={"per_block": 1}) for name, family in _REDUCE_SCATTER.items()
    },
    Collective.SCAN: _SCAN,
    Collective.EXSCAN: _SCAN,
    Collective.BARRIER: _BARRIER,
}
_DOUBLING = {
    Collective.BCAST: _families(("binomial", f.binomial_doubling, "binomial")),
    Collective.REDUCE: _families(("binomial", f.reduction(f.binomial_doubling), "binomial")),
}
_OF_LIBRARY: dict[str, dict[Collective, Families]] = {
    **dict.fromkeys(DOUBLING_BINOMIAL_TREES, _DOUBLING),
    "smpi": {
        Collective.BCAST: _families(("pipeline", f.pipeline, "pipeline", {"segsize": 131072}))
    },
}
"""Where a name means something else in one library."""


def family_of(configuration: Configuration) -> Family:
    """Return the family of a configuration; a generic basis where its rounds are not known."""
    collective = configuration.collective
    generic = Family(_GENERIC, _per_block if collective.has_block_per_rank else _per_vector, {})
    if configuration.library == INTERPOSED:
        found = cost_of(configuration)
        return generic if found is None else Family(*found, {})
    name = configuration.algorithm.lower().replace("-", "_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    special = _OF_LIBRARY.get(configuration.library, {}).get(collective, {})
    return special.get(name) or FAMILIES.get(collective, {}).get(name) or generic


def configuration_amounts(configuration: Configuration, instances: Instances) -> Numbers:
    """Return the amounts of a configuration's cost, one setup each, (n, k).

    Its parameters (segsize, fanout, …) go before its family's.
    """
    family = family_of(configuration)
    told_by_0 = configuration.library == INTERPOSED
    given = {n: v for n, v in configuration.numbers.items() if v > 0 or told_by_0}
    at = replace(instances, parameters={**family.defaults, **given})
    return at.amounts({Coefficient.SETUP: 1.0}) + family.cost(at)


def _per_vector(at: Instances) -> Numbers:
    return _basis(at, at.msize_bytes)


def _per_block(at: Instances) -> Numbers:
    return _basis(at, np.maximum(at.nprocs - 1, 0.0) * at.msize_bytes)


def _basis(at: Instances, moved: Numbers) -> Numbers:
    """Return what stands for an algorithm whose rounds are not known: what most costs are made of.

    It is no published formula. Its amounts are latencies per call, per round of a tree and per
    process, and bytes per call, per round of a tree and per process, so that any non-negative
    combination grows with nodes, processes and bytes as some algorithm would: the library's own
    decision, which is one algorithm here and another there, is fitted with it.
    """
    m, local, remote = at.msize_bytes, at.ppn - 1, at.nodes - 1
    rounds, inside = ceil_log(at.nodes), ceil_log(at.ppn)
    return at.amounts(
        {
            Coefficient.INTRA_LATENCY: inside,
            Coefficient.INTER_LATENCY: rounds,
            Coefficient.INTRA_GAP: local,
            Coefficient.INTER_GAP: remote,
            Coefficient.INTRA_BYTES: inside * m,
            Coefficient.INTER_BYTES: rounds * m,
            Coefficient.COPY: moved,
            Coefficient.INTER_CONTENDED: moved * local * (remote > 0),
        }
    )
