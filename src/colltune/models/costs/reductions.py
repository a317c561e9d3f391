"""Collectives that add vectors of m bytes over p processes, and barriers.

Reduce-scatters, after which everyone has m / p reduced bytes:

* recursive halving: ``log2(p) alpha + (p - 1) / p m (beta + gamma)``; where p is no power of two,
  neighbours first fold their vectors (m bytes) and blocks are sent back in the end (m / p bytes)
  (Thakur et al., IJHPCA 19(1), 2005, sec. 4.4);
* ring: ``(p - 1) (alpha + m / p (beta + gamma))`` (Tran et al., sec. 2.2.2, with its slowest link);
* pairwise: the same, with everyone in turn, of which P - 1 are on the same node (Thakur et al.,
  sec. 4.4; the split as in Tran et al., sec. 2.2.6);
* recursive doubling: ``log2(p) alpha + (log2(p) - (p - 1) / p) m (beta + gamma)``: everything but
  what the partner needs no more (Thakur et al., sec. 4.4);
* butterfly: recursive halving for any p (Träff, "An improved algorithm for (non-commutative)
  reduce-scatter with an application", EuroPVM/MPI 2005);
* non-overlapping: a reduction to the root, then a scatter.

Reductions; trees are in `colltune.models.costs.trees`:

* Rabenseifner: a reduce-scatter by recursive halving and a binomial gather, ``2 log2(p) alpha +
  2 (p - 1) / p m beta + (p - 1) / p m gamma`` (Thakur et al., sec. 4.5; Tran et al., sec. 2.2.5).

Allreduces:

* recursive doubling: ``log2(p) (alpha + m beta + m gamma)`` (Thakur et al., sec. 4.5; Tran et al.,
  sec. 2.2.2, "binomial tree"); where p is no power of two, neighbours fold first and get the result
  last;
* Rabenseifner: a reduce-scatter by recursive halving and an allgather by recursive doubling,
  ``2 log2(p) alpha + 2 (p - 1) / p m beta + (p - 1) / p m gamma`` (Thakur et al., sec. 4.5);
* ring: a reduce-scatter and an allgather along a ring, ``2 (p - 1) alpha + 2 (p - 1) / p m beta +
  (p - 1) / p m gamma`` (Tran et al., sec. 2.2.2; Patarasuk and Yuan, JPDC 69(2), 2009);
* segmented ring: the same, with each block reduced in phases of at most a segment (Open MPI,
  ``coll_base_allreduce.c``, ``allreduce_intra_ring_segmented``);
* nonoverlapping: a reduction and a broadcast; linear: the same with flat trees;
* allgather and reduce: all vectors everywhere, ``p - 1`` of which each process adds up.

Scans: linear, a chain of all processes, ``(p - 1) (alpha + m beta + m gamma)``; recursive doubling,
``ceil(log2 p) (alpha + m beta + 2 m gamma)``.

Barriers are exchanges of no bytes: dissemination (``ceil(log2 p)`` rounds; Hensgen, Finkel and
Manber, Int. J. of Parallel Programming 17(1), 1988), recursive doubling, trees up and down, two
turns of a ring.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colltune.models.costs import blocks, trees
from colltune.models.costs.network import (
    Coefficient,
    CostFunction,
    Instances,
    Numbers,
    Parameters,
    Traffic,
    amounts,
    messages,
    with_arithmetic,
)
from colltune.models.costs.rounds import (
    exchange_rounds,
    neighbour_rounds,
    power_of_two_below,
    segments,
    shift_rounds,
    to_everyone,
)

_DEFAULT_SEGSIZE = 1 << 20


def _folding(instances: Instances, nbytes: Numbers) -> Numbers:
    """Return a message of `nbytes` between neighbours where p is no power of two."""
    folds = power_of_two_below(instances.nprocs) != instances.nprocs
    return neighbour_rounds(instances, folds * 1.0, folds * nbytes)


def _folded_and_halved(instances: Instances) -> Numbers:
    """Return recursive halving over the largest power of two, after the others have folded."""
    m = instances.msize_bytes
    counts = power_of_two_below(instances.nprocs)
    halving = exchange_rounds(instances, counts, lambda d: m * d / counts)
    return with_arithmetic(instances, _folding(instances, m)) + with_arithmetic(instances, halving)


def _vectors(instances: Instances, parameters: Parameters) -> Instances:
    """Return instances of whole vectors: ``per_block`` says that the message is a block of one."""
    scale = instances.nprocs if parameters.get("per_block") else 1.0
    return replace(instances, msize_bytes=np.asarray(instances.msize_bytes * scale))


def reduce_scatter_halving(instances: Instances, parameters: Parameters) -> Numbers:
    whole = _vectors(instances, parameters)
    return _folded_and_halved(whole) + _folding(whole, whole.msize_bytes / whole.nprocs)


def reduce_scatter_ring(instances: Instances, parameters: Parameters) -> Numbers:
    return _reduced_along_ring(_vectors(instances, parameters))


def _reduced_along_ring(instances: Instances, phases: Numbers | float = 1.0) -> Numbers:
    """Return a ring's reduce-scatter with each block cut into `phases`."""
    rounds = instances.nprocs - 1
    moved = rounds * instances.msize_bytes / instances.nprocs
    return with_arithmetic(instances, neighbour_rounds(instances, rounds * phases, moved))


def reduce_scatter_pairwise(instances: Instances, parameters: Parameters) -> Numbers:
    whole = _vectors(instances, parameters)
    return with_arithmetic(whole, blocks.spread(blocks.block_of_vector(whole), {}))


def reduce_scatter_doubling(instances: Instances, parameters: Parameters) -> Numbers:
    whole = _vectors(instances, parameters)
    p, m = whole.nprocs, whole.msize_bytes
    rounds = exchange_rounds(whole, p, lambda d: m * np.maximum(p - d, 0) / p)
    return with_arithmetic(whole, rounds)


def reduce_scatter_butterfly(instances: Instances, parameters: Parameters) -> Numbers:
    whole = _vectors(instances, parameters)
    p, m = whole.nprocs, whole.msize_bytes
    return with_arithmetic(whole, shift_rounds(whole, p, lambda d: m * np.minimum(d, p - d) / p))


def reduce_scatter_nonoverlapping(instances: Instances, parameters: Parameters) -> Numbers:
    """Reduce along a binomial tree, then scatter from the root."""
    whole = _vectors(instances, parameters)
    reduced = trees.reduction(trees.binomial_doubling)(whole, {})
    return reduced + trees.flat(blocks.block_of_vector(whole), {})


def reduce_rabenseifner(instances: Instances, parameters: Parameters) -> Numbers:
    gathered = blocks.gather_binomial(blocks.block_of_vector(instances), {})
    return _folded_and_halved(instances) + gathered


def allreduce_doubling(instances: Instances, parameters: Parameters) -> Numbers:
    m = instances.msize_bytes
    rounds = exchange_rounds(instances, power_of_two_below(instances.nprocs), lambda d: m)
    fold = _folding(instances, m)
    return with_arithmetic(instances, rounds + fold) + fold


def allreduce_rabenseifner(instances: Instances, parameters: Parameters) -> Numbers:
    m = instances.msize_bytes
    counts = power_of_two_below(instances.nprocs)
    gathered = exchange_rounds(instances, counts, lambda d: m * d / counts)
    return _folded_and_halved(instances) + gathered + _folding(instances, m)


def allreduce_ring(instances: Instances, parameters: Parameters) -> Numbers:
    return _ring(instances, 1.0)


def allreduce_segmented_ring(instances: Instances, parameters: Parameters) -> Numbers:
    """Reduce blocks in segments, of 1 MiB if not given."""
    segsize = parameters.get("segsize") or _DEFAULT_SEGSIZE
    return _ring(instances, segments(instances.msize_bytes / instances.nprocs, segsize))


def _ring(instances: Instances, phases: Numbers | float) -> Numbers:
    gathered = blocks.allgather_ring(blocks.block_of_vector(instances), {})
    return _reduced_along_ring(instances, phases) + gathered


def reduce_broadcast(tree: CostFunction) -> CostFunction:
    """Return the cost of a reduction and a broadcast along `tree` that follow each other."""
    up = trees.reduction(tree)
    return lambda instances, parameters: up(instances, parameters) + tree(instances, parameters)


def allgather_reduce(instances: Instances, parameters: Parameters) -> Numbers:
    reduced = np.maximum(instances.nprocs - 1, 0) * instances.msize_bytes
    gathered = blocks.allgather_doubling(instances, {})
    return gathered + amounts(instances, {Coefficient.REDUCTION: reduced})


def scan_linear(instances: Instances, parameters: Parameters) -> Numbers:
    return trees.reduction(trees.pipeline)(instances, {})


def scan_doubling(instances: Instances, parameters: Parameters) -> Numbers:
    rounds = exchange_rounds(instances, instances.nprocs, lambda d: instances.msize_bytes)
    return with_arithmetic(instances, rounds, 2)


def _silent(instances: Instances) -> Instances:
    return replace(instances, msize_bytes=np.zeros(len(instances)))


def barrier_linear(instances: Instances, parameters: Parameters) -> Numbers:
    """Send a word from and to everyone at the root."""
    return 2 * messages(instances, to_everyone(instances, np.zeros(len(instances))))


def barrier_double_ring(instances: Instances, parameters: Parameters) -> Numbers:
    """Pass a word around all processes twice."""
    rounds = np.where(instances.nprocs > 1, 2 * instances.nprocs, 0.0)
    remote = np.where(instances.several_nodes, 2 * instances.nodes, 0.0)
    return messages(instances, Traffic(rounds - remote, inter_messages=remote))


def barrier_doubling(instances: Instances, parameters: Parameters) -> Numbers:
    return allreduce_doubling(_silent(instances), {})


def barrier_dissemination(instances: Instances, parameters: Parameters) -> Numbers:
    """Disseminate with radix ``fanout`` (2 if not given)."""
    silent = _silent(instances)
    radix = float(max(parameters.get("fanout", 2), 2))
    return shift_rounds(silent, silent.nprocs, lambda d: silent.msize_bytes, radix)


def barrier_tree(instances: Instances, parameters: Parameters) -> Numbers:
    return 2 * trees.binomial_doubling(_silent(instances), {})
