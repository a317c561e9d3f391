"""Which family an algorithm of an MPI library belongs to, and what it costs.

Names are those of the catalogues and of published data sets: Open MPI, MPICH (also Cray's, and
Intel MPI where its names say what it does), SimGrid's SMPI, and the parts of Fujitsu MPI that it
has from Open MPI. They are compared without case, hyphens, and the prefixes that data sets put
before them. Bine trees (De Sensi et al., SC 2025) take as many rounds and bytes as binomial ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from colltune.domain import INTERPOSED, Collective, Configuration
from colltune.models.costs import blocks, libcolltune, reductions, trees
from colltune.models.costs.network import (
    Coefficient,
    CostFunction,
    Instances,
    Numbers,
    Parameters,
    amounts,
)
from colltune.models.costs.rounds import ceil_log

GENERIC = "generic"
FORMULAS_VERSION = 1
"""To be raised whenever an amount of any family changes, since fitted parameters belong to them."""
_PREFIXES = ("over.", "default_", "ompi_")


class Family(NamedTuple):
    """A cost function, its name, and the parameters that hold where a configuration gives none."""

    name: str
    cost: CostFunction
    defaults: tuple[tuple[str, int], ...] = ()

    @property
    def is_generic(self) -> bool:
        """Whether the algorithm's rounds are not known."""
        return self.name == GENERIC


Families = dict[str, Family]


def _family(name: str, cost: CostFunction, algorithms: str, **defaults: int) -> Families:
    """Return the family for each of the `algorithms`, which are separated by spaces."""
    family = Family(name, cost, tuple(sorted(defaults.items())))
    return dict.fromkeys(algorithms.split(), family)


def _two_level(between: CostFunction, *within: CostFunction) -> CostFunction:
    """Return the cost of `between` for the leaders of nodes and of `within` for each node.

    The leaders are alone on their nodes (Tran et al., sec. 1.1, "two-level algorithms": data to the
    leaders, an exchange between them, and a broadcast within nodes). Nothing overlaps here;
    pipelines between the levels are cheaper than this by up to half.
    """

    def cost(instances: Instances, parameters: Parameters) -> Numbers:
        one = np.ones(len(instances))
        result = between(replace(instances, ppn=one), parameters)
        for part in within:
            result = result + part(replace(instances, nodes=one), parameters)
        return result

    return cost


_REDUCE_BINOMIAL = trees.reduction(trees.binomial)
_UP_AND_DOWN = reductions.reduce_broadcast(trees.binomial)


def _allreduce_in_levels(between: CostFunction) -> CostFunction:
    return _two_level(between, _REDUCE_BINOMIAL, trees.binomial)


_BCAST = (
    _family("flat", trees.flat, "flattree")
    | _family("flat, non-blocking", trees.flat_overlapping, "basic_linear linear")
    | _family("chain", trees.chain, "chain", fanout=4)
    | _family("pipeline", trees.pipeline, "pipeline pipelined_chain")
    | _family("pipeline", trees.pipeline, "ntsl", segsize=8192)
    | _family("binary", trees.binary, "binary binary_tree")
    | _family("binary", trees.binary, "ntsb", segsize=8192)
    | _family("k-ary", trees.k_ary, "tree_kary pipelined_tree_kary", fanout=2)
    | _family("split-binary", trees.split_binary, "split_binary split_binary_tree")
    | _family("split-binary", trees.split_binary, "split_bintree", segsize=8192)
    | _family(
        "binomial",
        trees.binomial,
        "binomial binomial_tree bine_lat bine_lat_new bine_lat_i_new bine_lat_reversed",
    )
    | _family(
        "k-nomial",
        trees.knomial,
        "knomial tree_knomial_1 tree_knomial_2 mvapich2_knomial_intra_node",
        fanout=4,
    )
    | _family(
        "scatter-recursive-doubling-allgather",
        blocks.scatter_doubling_allgather,
        "scatter_allgather scatter_rdb_allgather scatter_recursive_doubling_allgather"
        " bine_bdw_remap bine_bdw_static recursive_doubling",
    )
    | _family(
        "scatter-ring-allgather",
        blocks.scatter_ring_allgather,
        "scatter_allgather_ring scatter_lr_allgather scatter_ring_allgather ring",
    )
    | _family(
        "binomial in two levels",
        _two_level(trees.binomial, trees.binomial),
        "smp_binomial topology_binomial",
    )
    | _family(
        "scatter-recursive-doubling-allgather in two levels",
        _two_level(blocks.scatter_doubling_allgather, trees.binomial),
        "topology_recursive_doubling",
    )
    | _family(
        "scatter-ring-allgather in two levels",
        _two_level(blocks.scatter_ring_allgather, trees.binomial),
        "topology_ring",
    )
    | _family(
        "binary in two levels", _two_level(trees.binary, trees.binary), "smp_binary", segsize=8192
    )
    | _family(
        "pipeline in two levels",
        _two_level(trees.pipeline, trees.pipeline),
        "smp_linear",
        segsize=8192,
    )
)

_REDUCE = (
    _family("flat", trees.reduction(trees.flat_overlapping), "linear")
    | _family("chain", trees.reduction(trees.chain), "chain", fanout=4)
    | _family("pipeline", trees.reduction(trees.pipeline), "pipeline")
    | _family("binary", trees.reduction(trees.binary), "binary in_order_binary in_order")
    | _family("binomial", _REDUCE_BINOMIAL, "binomial bine_lat")
    | _family("k-nomial", trees.reduction(trees.knomial), "knomial", fanout=4)
    | _family(
        "Rabenseifner",
        reductions.reduce_rabenseifner,
        "rabenseifner reduce_scatter_gather bine_bdw",
    )
    | _family(
        "binomial in two levels",
        _two_level(_REDUCE_BINOMIAL, _REDUCE_BINOMIAL),
        "topology_binomial",
    )
    | _family(
        "Rabenseifner in two levels",
        _two_level(reductions.reduce_rabenseifner, _REDUCE_BINOMIAL),
        "topology_rabenseifner",
    )
)

_ALLREDUCE = (
    _family("linear", reductions.reduce_broadcast(trees.flat_overlapping), "basic_linear")
    | _family("reduce and broadcast", _UP_AND_DOWN, "nonoverlapping redbcast reduce_bcast rdbc")
    | _family(
        "reduce and broadcast",
        reductions.reduce_broadcast(trees.knomial),
        "tree_knomial_1 tree_knomial_2 knomial",
        fanout=4,
    )
    | _family(
        "reduce and broadcast", reductions.reduce_broadcast(trees.k_ary), "tree_kary", fanout=2
    )
    | _family(
        "recursive doubling", reductions.allreduce_doubling, "recursive_doubling rdb bine_lat"
    )
    | _family("ring", reductions.allreduce_ring, "ring lr")
    | _family(
        "segmented ring", reductions.allreduce_segmented_ring, "segmented_ring ring_segmented"
    )
    | _family(
        "Rabenseifner",
        reductions.allreduce_rabenseifner,
        "rabenseifner rab_rdb mvapich2_rs reduce_scatter_allgather bine_bdw_remap bine_bdw_static",
    )
    | _family("allgather and reduce", reductions.allgather_reduce, "allgather_reduce")
    | _family(
        "reduce and broadcast in two levels",
        _allreduce_in_levels(_UP_AND_DOWN),
        "smp_binomial topology_reduce_bcast",
    )
    | _family(
        "recursive doubling in two levels",
        _allreduce_in_levels(reductions.allreduce_doubling),
        "smp_rdb",
    )
    | _family("ring in two levels", _allreduce_in_levels(reductions.allreduce_ring), "smp_rsag_lr")
    | _family(
        "Rabenseifner in two levels",
        _allreduce_in_levels(reductions.allreduce_rabenseifner),
        "mvapich2_two_level",
    )
)

_ALLGATHER = (
    _family("gather and broadcast", blocks.gather_broadcast, "linear basic_default")
    | _family("ring", blocks.allgather_ring, "ring")
    | _family(
        "Bruck",
        blocks.allgather_bruck,
        "bruck brucks k_bruck k_brucks bruck_k_fanout recexch_doubling recexch_halving"
        " bine_permute_remap bine_permute_static",
    )
    | _family(
        "recursive doubling",
        blocks.allgather_doubling,
        "recursive_doubling bine_send_remap bine_send_static",
    )
    | _family("neighbour exchange", blocks.allgather_neighbours, "neighbor")
    | _family("sparbit", blocks.allgather_sparbit, "sparbit")
    | _family("direct spread", blocks.spread, "two_proc")
    | _family("direct spread", blocks.spread_overlapping, "direct_messaging")
)

_ALLTOALL = (
    _family("linear", blocks.alltoall_linear, "linear basic_linear isend_irecv_waitall")
    | _family("linear", blocks.alltoall_linear, "scattered", requests=32)
    | _family("linear", blocks.alltoall_linear, "linear_sync", requests=1)
    | _family("pairwise", blocks.spread, "pairwise pairwise_sendrecv_replace two_proc")
    | _family("Bruck", blocks.alltoall_bruck, "bruck brucks k_brucks modified_bruck bine")
)

_GATHER = (
    _family("linear", trees.flat_overlapping, "basic_linear linear linear_nb")
    | _family("linear, synchronised", blocks.gather_linear_synchronised, "linear_sync linear_synch")
    | _family("binomial", blocks.gather_binomial, "binomial bine topology_binomial")
)


def _reduce_scatter(per_block: int) -> Families:
    algorithms = {
        "reduce and scatter": (
            reductions.reduce_scatter_nonoverlapping,
            "non_overlapping basic_linear reduce_scatterv",
        ),
        "recursive halving": (
            reductions.reduce_scatter_halving,
            "recursive_halving recursive_distance_doubling bine_send_remap bine_permute_remap",
        ),
        "recursive doubling": (
            reductions.reduce_scatter_doubling,
            "recursive_doubling noncommutative",
        ),
        "butterfly": (reductions.reduce_scatter_butterfly, "butterfly"),
        "ring": (reductions.reduce_scatter_ring, "ring"),
        "pairwise": (reductions.reduce_scatter_pairwise, "pairwise"),
    }
    families: Families = {}
    for name, (cost, names) in algorithms.items():
        families |= _family(name, cost, names, per_block=per_block)
    return families


_SCAN = _family("linear", reductions.scan_linear, "linear") | _family(
    "recursive doubling", reductions.scan_doubling, "recursive_doubling"
)

_BARRIER = (
    _family("linear", reductions.barrier_linear, "linear")
    | _family("double ring", reductions.barrier_double_ring, "double_ring")
    | _family("recursive doubling", reductions.barrier_doubling, "recursive_doubling recexch")
    | _family(
        "dissemination",
        reductions.barrier_dissemination,
        "bruck dissemination k_dissemination two_proc",
    )
    | _family("tree", reductions.barrier_tree, "tree")
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
    Collective.REDUCE_SCATTER: _reduce_scatter(0),
    Collective.REDUCE_SCATTER_BLOCK: _reduce_scatter(1),
    Collective.SCAN: _SCAN,
    Collective.EXSCAN: _SCAN,
    Collective.BARRIER: _BARRIER,
}

_DOUBLING = {
    Collective.BCAST: _family("binomial", trees.binomial_doubling, "binomial"),
    Collective.REDUCE: _family("binomial", trees.reduction(trees.binomial_doubling), "binomial"),
}
_OF_LIBRARY: dict[str, dict[Collective, Families]] = {
    "openmpi": _DOUBLING,
    "fjmpi": _DOUBLING,
    "smpi": {Collective.BCAST: _family("pipeline", trees.pipeline, "pipeline", segsize=131072)},
}
"""Where a name means something else in one library: Open MPI's binomial trees double distances."""


def family_of(configuration: Configuration) -> Family:
    """Return the family of a configuration; a generic basis where its rounds are not known."""
    collective = configuration.collective
    generic = Family(GENERIC, _per_block if collective.has_block_per_rank else _per_vector)
    if configuration.library == INTERPOSED:
        found = libcolltune.cost_of(configuration)
        return generic if found is None else Family(*found)
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
    found = family.cost(instances, {**dict(family.defaults), **given})
    return amounts(instances, {Coefficient.SETUP: 1.0}) + found


def _per_vector(instances: Instances, parameters: Parameters) -> Numbers:
    return _basis(instances, instances.msize_bytes)


def _per_block(instances: Instances, parameters: Parameters) -> Numbers:
    return _basis(instances, np.maximum(instances.nprocs - 1, 0.0) * instances.msize_bytes)


def _basis(instances: Instances, moved: Numbers) -> Numbers:
    """Return what stands for an algorithm whose rounds are not known: what most costs are made of.

    It is no published formula. Its amounts are latencies per call, per round of a tree and per
    process, and bytes per call, per round of a tree and per process, so that any non-negative
    combination grows with nodes, processes and bytes as some algorithm would: the library's own
    decision, which is one algorithm here and another there, is fitted with it.
    """
    m, local, remote = instances.msize_bytes, instances.ppn - 1, instances.nodes - 1
    rounds, inside = ceil_log(instances.nodes), ceil_log(instances.ppn)
    return amounts(
        instances,
        {
            Coefficient.INTRA_LATENCY: inside,
            Coefficient.INTER_LATENCY: rounds,
            Coefficient.INTRA_GAP: local,
            Coefficient.INTER_GAP: remote,
            Coefficient.INTRA_BYTES: inside * m,
            Coefficient.INTER_BYTES: rounds * m,
            Coefficient.COPY: moved,
            Coefficient.INTER_CONTENDED: moved * local * (remote > 0),
        },
    )
