"""Which family an algorithm of an MPI library belongs to.

Names are those of the catalogues and of published data sets: Open MPI, MPICH (also Cray's, and
Intel MPI where its names say what it does), SimGrid's SMPI, and the parts of Fujitsu MPI that it
has from Open MPI. They are compared without case, hyphens, and the prefixes that data sets put
before them. Bine trees (De Sensi et al., SC 2025) take as many rounds and bytes as binomial ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from colltune.domain import INTERPOSED, Collective, Configuration
from colltune.models.cost_model import (
    ONE_RAIL,
    CostFunction,
    CostTerm,
    Instances,
    Rails,
)
from colltune.models.costs import (
    allgather,
    allreduce,
    alltoall,
    gather,
    generic,
    interposed,
    ordered,
    reduce,
    reduce_scatter,
    scatter_allgather,
    trees,
)
from colltune.models.costs.two_level import two_level

_REDUCE_BINOMIAL = trees.reduction(trees.binomial)
_REDUCE_DOUBLING = trees.reduction(trees.binomial_doubling)
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


GENERIC = "generic"
FORMULAS_VERSION = 1
"""To be raised whenever a term of any family changes, since fitted parameters belong to them."""


def _family(name: str, cost: CostFunction, **defaults: int) -> Family:
    return Family(name, cost, tuple(sorted(defaults.items())))


_FLAT = _family("flat", trees.flat)
_FLAT_NB = _family("flat, non-blocking", trees.flat_overlapping)
_CHAIN = _family("chain", trees.chain, fanout=4)
_PIPELINE = _family("pipeline", trees.pipeline)
_BINARY = _family("binary", trees.binary)
_SPLIT_BINARY = _family("split-binary", trees.split_binary)
_BINOMIAL = _family("binomial", trees.binomial)
_DOUBLING = _family("binomial", trees.binomial_doubling)
_KNOMIAL = _family("k-nomial", trees.knomial, fanout=4)
_K_ARY = _family("k-ary", trees.k_ary, fanout=2)
_SCATTER_RING = _family("scatter-ring-allgather", scatter_allgather.scatter_ring_allgather)
_SCATTER_RD = _family(
    "scatter-recursive-doubling-allgather", scatter_allgather.scatter_doubling_allgather
)
_TWO_BINOMIAL = _family("binomial in two levels", two_level([trees.binomial], [trees.binomial]))

_BCAST: dict[str, Family] = {
    "basic_linear": _FLAT_NB,
    "flattree": _FLAT,
    "linear": _FLAT_NB,
    "chain": _CHAIN,
    "pipeline": _PIPELINE,
    "pipelined_chain": _PIPELINE,
    "ntsl": _family("pipeline", trees.pipeline, segsize=8192),
    "binary": _BINARY,
    "binary_tree": _BINARY,
    "ntsb": _family("binary", trees.binary, segsize=8192),
    "tree_kary": _K_ARY,
    "pipelined_tree_kary": _K_ARY,
    "split_binary": _SPLIT_BINARY,
    "split_binary_tree": _SPLIT_BINARY,
    "split_bintree": _family("split-binary", trees.split_binary, segsize=8192),
    "binomial": _BINOMIAL,
    "binomial_tree": _BINOMIAL,
    "bine_lat": _BINOMIAL,
    "bine_lat_new": _BINOMIAL,
    "bine_lat_i_new": _BINOMIAL,
    "bine_lat_reversed": _BINOMIAL,
    "knomial": _KNOMIAL,
    "tree_knomial_1": _KNOMIAL,
    "tree_knomial_2": _KNOMIAL,
    "mvapich2_knomial_intra_node": _KNOMIAL,
    "scatter_allgather": _SCATTER_RD,
    "scatter_rdb_allgather": _SCATTER_RD,
    "scatter_recursive_doubling_allgather": _SCATTER_RD,
    "bine_bdw_remap": _SCATTER_RD,
    "bine_bdw_static": _SCATTER_RD,
    "recursive_doubling": _SCATTER_RD,
    "scatter_allgather_ring": _SCATTER_RING,
    "scatter_lr_allgather": _SCATTER_RING,
    "scatter_ring_allgather": _SCATTER_RING,
    "ring": _SCATTER_RING,
    "smp_binomial": _TWO_BINOMIAL,
    "topology_binomial": _TWO_BINOMIAL,
    "topology_recursive_doubling": _family(
        "scatter-recursive-doubling-allgather in two levels",
        two_level([scatter_allgather.scatter_doubling_allgather], [trees.binomial]),
    ),
    "topology_ring": _family(
        "scatter-ring-allgather in two levels",
        two_level([scatter_allgather.scatter_ring_allgather], [trees.binomial]),
    ),
    "smp_binary": _family(
        "binary in two levels", two_level([trees.binary], [trees.binary]), segsize=8192
    ),
    "smp_linear": _family(
        "pipeline in two levels", two_level([trees.pipeline], [trees.pipeline]), segsize=8192
    ),
}

_REDUCE: dict[str, Family] = {
    "linear": _family("flat", trees.reduction(trees.flat_overlapping)),
    "chain": _family("chain", trees.reduction(trees.chain), fanout=4),
    "pipeline": _family("pipeline", trees.reduction(trees.pipeline)),
    "binary": _family("binary", trees.reduction(trees.binary)),
    "in_order_binary": _family("binary", trees.reduction(trees.binary)),
    "in_order": _family("binary", trees.reduction(trees.binary)),
    "binomial": _family("binomial", _REDUCE_BINOMIAL),
    "bine_lat": _family("binomial", _REDUCE_BINOMIAL),
    "knomial": _family("k-nomial", trees.reduction(trees.knomial), fanout=4),
    "rabenseifner": _family("Rabenseifner", reduce.rabenseifner),
    "reduce_scatter_gather": _family("Rabenseifner", reduce.rabenseifner),
    "bine_bdw": _family("Rabenseifner", reduce.rabenseifner),
    "topology_binomial": _family(
        "binomial in two levels", two_level([_REDUCE_BINOMIAL], [_REDUCE_BINOMIAL])
    ),
    "topology_rabenseifner": _family(
        "Rabenseifner in two levels", two_level([reduce.rabenseifner], [_REDUCE_BINOMIAL])
    ),
}

_RING = _family("ring", allreduce.ring)
_SEGMENTED_RING = _family("segmented ring", allreduce.segmented_ring)
_ALLREDUCE_RD = _family("recursive doubling", allreduce.recursive_doubling)
_RABENSEIFNER = _family("Rabenseifner", allreduce.rabenseifner)
_REDUCE_BCAST = _family(
    "reduce and broadcast", allreduce.reduce_broadcast(trees.binomial, trees.binomial)
)
_KNOMIAL_UP_DOWN = _family(
    "reduce and broadcast", allreduce.reduce_broadcast(trees.knomial, trees.knomial), fanout=4
)


def _allreduce_in_levels(between: CostFunction) -> CostFunction:
    return two_level([between], [_REDUCE_BINOMIAL, trees.binomial])


_ALLREDUCE: dict[str, Family] = {
    "basic_linear": _family(
        "linear", allreduce.reduce_broadcast(trees.flat_overlapping, trees.flat_overlapping)
    ),
    "nonoverlapping": _REDUCE_BCAST,
    "redbcast": _REDUCE_BCAST,
    "reduce_bcast": _REDUCE_BCAST,
    "rdbc": _REDUCE_BCAST,
    "tree_knomial_1": _KNOMIAL_UP_DOWN,
    "tree_knomial_2": _KNOMIAL_UP_DOWN,
    "knomial": _KNOMIAL_UP_DOWN,
    "tree_kary": _family(
        "reduce and broadcast", allreduce.reduce_broadcast(trees.k_ary, trees.k_ary), fanout=2
    ),
    "recursive_doubling": _ALLREDUCE_RD,
    "rdb": _ALLREDUCE_RD,
    "bine_lat": _ALLREDUCE_RD,
    "ring": _RING,
    "lr": _RING,
    "segmented_ring": _SEGMENTED_RING,
    "ring_segmented": _SEGMENTED_RING,
    "rabenseifner": _RABENSEIFNER,
    "rab_rdb": _RABENSEIFNER,
    "mvapich2_rs": _RABENSEIFNER,
    "reduce_scatter_allgather": _RABENSEIFNER,
    "bine_bdw_remap": _RABENSEIFNER,
    "bine_bdw_static": _RABENSEIFNER,
    "allgather_reduce": _family("allgather and reduce", allreduce.allgather_reduce),
    "smp_binomial": _family(
        "reduce and broadcast in two levels", _allreduce_in_levels(_REDUCE_BCAST.cost)
    ),
    "topology_reduce_bcast": _family(
        "reduce and broadcast in two levels", _allreduce_in_levels(_REDUCE_BCAST.cost)
    ),
    "smp_rdb": _family(
        "recursive doubling in two levels", _allreduce_in_levels(allreduce.recursive_doubling)
    ),
    "smp_rsag_lr": _family("ring in two levels", _allreduce_in_levels(allreduce.ring)),
    "mvapich2_two_level": _family(
        "Rabenseifner in two levels", _allreduce_in_levels(allreduce.rabenseifner)
    ),
}

_BRUCK = _family("Bruck", allgather.bruck)
_SPREAD = _family("direct spread", allgather.direct_overlapping)


def _gather_broadcast(instances: Instances, parameters: Mapping[str, int]) -> list[CostTerm]:
    whole = Instances(
        instances.nodes,
        instances.ppn,
        np.asarray(instances.nprocs * instances.msize_bytes),
        instances.rails,
    )
    return [*gather.linear(instances, {}), *trees.flat_overlapping(whole, {})]


_ALLGATHER: dict[str, Family] = {
    "linear": _family("gather and broadcast", _gather_broadcast),
    "basic_default": _family("gather and broadcast", _gather_broadcast),
    "ring": _family("ring", allgather.ring),
    "bruck": _BRUCK,
    "brucks": _BRUCK,
    "k_bruck": _BRUCK,
    "k_brucks": _BRUCK,
    "bruck_k_fanout": _BRUCK,
    "recursive_doubling": _family("recursive doubling", allgather.recursive_doubling),
    "recexch_doubling": _BRUCK,
    "recexch_halving": _BRUCK,
    "bine_send_remap": _family("recursive doubling", allgather.recursive_doubling),
    "bine_send_static": _family("recursive doubling", allgather.recursive_doubling),
    "bine_permute_remap": _BRUCK,
    "bine_permute_static": _BRUCK,
    "neighbor": _family("neighbour exchange", allgather.neighbour_exchange),
    "sparbit": _family("sparbit", allgather.sparbit),
    "two_proc": _family("direct spread", allgather.direct_spread),
    "direct_messaging": _SPREAD,
}

_ALLTOALL: dict[str, Family] = {
    "linear": _family("linear", alltoall.linear),
    "basic_linear": _family("linear", alltoall.linear),
    "isend_irecv_waitall": _family("linear", alltoall.linear),
    "scattered": _family("linear", alltoall.linear, requests=32),
    "linear_sync": _family("linear", alltoall.linear, requests=1),
    "pairwise": _family("pairwise", alltoall.pairwise),
    "pairwise_sendrecv_replace": _family("pairwise", alltoall.pairwise),
    "two_proc": _family("pairwise", alltoall.pairwise),
    "bruck": _family("Bruck", alltoall.bruck),
    "brucks": _family("Bruck", alltoall.bruck),
    "k_brucks": _family("Bruck", alltoall.bruck),
    "modified_bruck": _family("Bruck", alltoall.bruck),
    "bine": _family("Bruck", alltoall.bruck),
}

_GATHER: dict[str, Family] = {
    "basic_linear": _family("linear", gather.linear_overlapping),
    "linear": _family("linear", gather.linear_overlapping),
    "linear_nb": _family("linear", gather.linear_overlapping),
    "linear_sync": _family("linear, synchronised", gather.linear_synchronised),
    "linear_synch": _family("linear, synchronised", gather.linear_synchronised),
    "binomial": _family("binomial", gather.binomial),
    "bine": _family("binomial", gather.binomial),
    "topology_binomial": _family("binomial", gather.binomial),
}


def _reduce_scatter(per_block: int) -> dict[str, Family]:
    make = partial(_family, per_block=per_block)
    halving = make("recursive halving", reduce_scatter.recursive_halving)
    doubling = make("recursive doubling", reduce_scatter.recursive_doubling)
    butterfly = make("butterfly", reduce_scatter.butterfly)
    nonoverlapping = make("reduce and scatter", reduce_scatter.nonoverlapping)
    return {
        "non_overlapping": nonoverlapping,
        "basic_linear": nonoverlapping,
        "reduce_scatterv": nonoverlapping,
        "recursive_halving": halving,
        "recursive_distance_doubling": halving,
        "bine_send_remap": halving,
        "bine_permute_remap": halving,
        "recursive_doubling": doubling,
        "noncommutative": doubling,
        "butterfly": butterfly,
        "ring": make("ring", reduce_scatter.ring),
        "pairwise": make("pairwise", reduce_scatter.pairwise),
    }


_SCAN: dict[str, Family] = {
    "linear": _family("linear", ordered.scan_linear),
    "recursive_doubling": _family("recursive doubling", ordered.scan_doubling),
}

_BARRIER: dict[str, Family] = {
    "linear": _family("linear", ordered.barrier_linear),
    "double_ring": _family("double ring", ordered.barrier_double_ring),
    "recursive_doubling": _family("recursive doubling", ordered.barrier_doubling),
    "recexch": _family("recursive doubling", ordered.barrier_doubling),
    "bruck": _family("dissemination", ordered.barrier_dissemination),
    "dissemination": _family("dissemination", ordered.barrier_dissemination),
    "k_dissemination": _family("dissemination", ordered.barrier_dissemination),
    "two_proc": _family("dissemination", ordered.barrier_dissemination),
    "tree": _family("tree", ordered.barrier_tree),
}

FAMILIES: dict[Collective, dict[str, Family]] = {
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

_OF_LIBRARY: dict[tuple[str, Collective, str], Family] = (
    {(library, Collective.BCAST, "binomial"): _DOUBLING for library in ("openmpi", "fjmpi")}
    | {
        (library, Collective.REDUCE, "binomial"): _family("binomial", _REDUCE_DOUBLING)
        for library in ("openmpi", "fjmpi")
    }
    | {
        ("smpi", Collective.BCAST, "pipeline"): _family("pipeline", trees.pipeline, segsize=131072),
    }
)
"""Where a name means something else in one library: Open MPI's binomial trees double distances."""


def family_of(configuration: Configuration) -> Family:
    """Return the family of a configuration; a generic basis where its rounds are not known."""
    if configuration.library == INTERPOSED:
        own = interposed.cost_of(configuration)
        return _generic(configuration.collective) if own is None else Family(*own)
    name = configuration.algorithm.lower().replace("-", "_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    collective = configuration.collective
    special = _OF_LIBRARY.get((configuration.library, collective, name))
    known = special or FAMILIES.get(collective, {}).get(name)
    return known or _generic(collective)


def _generic(collective: Collective) -> Family:
    basis = generic.per_block if collective.has_block_per_rank else generic.per_vector
    return Family(GENERIC, basis)


def terms_of(configuration: Configuration, instances: Instances) -> list[CostTerm]:
    """Return the terms of a configuration's cost; its parameters go before its family's."""
    family = family_of(configuration)
    told_by_0 = configuration.library == INTERPOSED
    given = {n: v for n, v in configuration.numbers.items() if v > 0 or told_by_0}
    return list(family.cost(instances, {**dict(family.defaults), **given}))


def cost_terms(
    configuration: Configuration,
    nodes: ArrayLike,
    ppn: ArrayLike,
    msize_bytes: ArrayLike,
    rails: Rails = ONE_RAIL,
) -> tuple[Instances, list[CostTerm]]:
    """Return n instances and the terms of a configuration's cost on them.

    Parameters
    ----------
    configuration
        Its parameters (segsize, fanout, requests) go into the terms.
    nodes, ppn, msize_bytes
        Scalars or vectors of one length.
    rails
        Adapters per node and how they are used.
    """
    instances = Instances.of(nodes, ppn, msize_bytes, rails)
    return instances, terms_of(configuration, instances)
