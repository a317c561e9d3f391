"""What the algorithms of MPI libraries cost: p processes, m bytes, alpha and beta of Hockney.

Each function gives the paper whose formula it is; gamma is the time that arithmetic takes per byte.
The split into parts within and between nodes is this module's own; with equal links both add up to
the formulas. For other p than those of full trees, or powers of two, rounds are counted as the
libraries make them. Hasanov: Hasanov et al., Simulation Modelling Practice and Theory 2015; Thakur:
Thakur et al., "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005;
Tran: Tran et al., Concurrency Computat. Pract. Exper. 2023.

A broadcast of m bytes in X segments goes down a tree of height h and fan-out F in ``F (h + X - 1)``
messages (Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations", Cluster
Computing 10, 2007, sec. 4). A reduction along the same tree costs the same and works on every
received byte (Tran, sec. 2.2.5). Allgathers, alltoalls, gathers and scatters move blocks of m
bytes, reductions add vectors of m bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from colltune.models.costs.network import (
    COEFFICIENTS,
    Coefficient,
    CostFunction,
    Instances,
    Numbers,
    ceil_log,
    power_of_two_below,
    powers,
    segments,
)

_RING_SEGSIZE = 1 << 20


def flat(at: Instances) -> Numbers:
    """Send from the root to all others in turn: (p - 1) (alpha + m beta) (Hasanov, 2.1.1)."""
    return at.from_root()


def flat_overlapping(at: Instances) -> Numbers:
    """Do the same with non-blocking messages: a gap for each, and one latency."""
    return at.from_root(overlapping=True)


def chain(at: Instances) -> Numbers:
    """Send segments along ``fanout`` chains through all processes (Hasanov, 2.1.2, 2.1.3).

    The root feeds every chain, so that it sends each segment ``fanout`` times; the first segment
    then travels to the end of the longest chain.
    """
    p = at.nprocs
    fanout = np.clip(float(max(at.parameters.get("fanout", 1), 1)), 1.0, np.maximum(p - 1, 1.0))
    x, segment = _segmented(at)
    sent_by_root = np.where(p > 1, fanout * x, 0.0)
    hops = np.maximum(np.ceil((p - 1) / fanout) - 1, 0.0)
    remote = np.clip(np.ceil((at.nodes - 1) / fanout) - 1, 0.0, hops)
    local = hops - remote
    travelled = at.messages(local, local * segment, remote, remote * segment)
    return at.neighbours(sent_by_root, sent_by_root * segment) + travelled


def _segmented(at: Instances) -> tuple[Numbers, Numbers]:
    """Return the number of segments, and the bytes of each."""
    x = segments(at.msize_bytes, at.parameters.get("segsize"))
    return x, at.msize_bytes / x


def pipeline(at: Instances) -> Numbers:
    """Send along one chain: (X + p - 2) (alpha + m / X beta) (Hasanov, 2.1.3)."""
    return chain(at.given(fanout=1))


def k_ary(at: Instances) -> Numbers:
    """Send down a full tree of ``fanout`` children (Hasanov, 2.1.4, for 2 of them).

    Ranks are laid out level by level, so that the upper levels are on the root's node.
    """
    fanout = max(at.parameters.get("fanout", 2), 1)
    if fanout == 1:
        return pipeline(at)
    return _tree(at, _height(at.nprocs, fanout), fanout, *_segmented(at))


def binary(at: Instances) -> Numbers:
    """Send down a full tree: 2 (log2(p + 1) - 1) (alpha + m beta) (Hasanov, 2.1.4)."""
    return k_ary(at.given(fanout=2))


def _tree(at: Instances, height: Numbers, fanout: int, x: Numbers, segment: Numbers) -> Numbers:
    local = np.minimum(height, _height(at.ppn, fanout))
    remote = height - local
    more = np.where(height > 0, x - 1, 0.0)
    local = fanout * (local + more * (remote == 0))
    remote = fanout * (remote + more * (remote > 0))
    return at.messages(local, local * segment, remote, remote * segment, at.ppn)


def _height(counts: Numbers, fanout: int) -> Numbers:
    """Return the height of the smallest full tree with so many members: 0 for 1 member."""
    height, members, level = np.zeros(counts.shape), np.ones(counts.shape), 1.0
    while (short := members < counts).any():
        level *= fanout
        members += level
        height += short
    return height


def split_binary(at: Instances) -> Numbers:
    """Send halves down the two subtrees, then exchange them (Hasanov, 2.1.5).

    As printed there every forwarded message has all m bytes. Only one half goes down either
    subtree, so that ``2 (h + X - 1)`` messages of ``m / (2 X)`` bytes down a tree of height h are
    counted here, and the exchange of a half with a process of the other subtree: with one segment
    ``2 h (alpha + m / 2 beta) + alpha + m / 2 beta``.
    """
    p, half = at.nprocs, at.msize_bytes / 2
    x = segments(half, at.parameters.get("segsize"))
    height = np.where(p > 2, _height(p, 2), 0.0)
    several, pair = (p > 2).astype(np.float64), (p == 2).astype(np.float64)
    down = _tree(at, height, 2, x, half / x)
    exchange = at.in_turn(at.one_node, several, several * half, at.ppn)
    return down + exchange + at.neighbours(pair, pair * at.msize_bytes)


def binomial(at: Instances) -> Numbers:
    """Send along a binomial tree whose distances halve, as in MPICH: log2(p) (alpha + m beta).

    Hasanov, 2.1.6. The first rounds go between nodes with one sender on each. Every segment is sent
    by the root in all rounds, so that X segments take X times as many messages.
    """
    return knomial(at.given(fanout=2))


def binomial_doubling(at: Instances) -> Numbers:
    """Send along a binomial tree whose distances double, as in Open MPI (Hasanov, 2.1.6).

    The first rounds stay on the root's node; in the last ones all processes of a node send.
    """
    x, segment = _segmented(at)
    rounds, local = ceil_log(at.nprocs), np.zeros(len(at))
    for distance in powers(at.nprocs):
        local += (at.one_node | (2 * distance <= at.ppn)) & (distance < at.nprocs)
    local, remote = local * x, (rounds - local) * x
    return at.messages(local, local * segment, remote, remote * segment, at.ppn)


def knomial(at: Instances) -> Numbers:
    """Send (k - 1) ceil(log_k p) messages, k = ``fanout`` (4 if not given)."""
    radix = max(at.parameters.get("fanout", 4), 2)
    x, segment = _segmented(at)
    rounds, remote = ceil_log(at.nprocs, radix), np.zeros(len(at))
    for distance in powers(at.nprocs, radix):
        remote += ~at.aligned_on_node(distance, radix) & (distance < at.nprocs)
    local, remote = ((radix - 1) * x * count for count in (rounds - remote, remote))
    return at.messages(local, local * segment, remote, remote * segment)


def reduction(broadcast: CostFunction) -> CostFunction:
    """Return the cost of a reduction along a broadcast's tree: the same, and the arithmetic."""
    return lambda at: at.with_arithmetic(broadcast(at))


def reduce_broadcast(tree: CostFunction) -> CostFunction:
    """Return the cost of a reduction and a broadcast along `tree` that follow each other."""
    return lambda at: reduction(tree)(at) + tree(at)


def two_level(between: CostFunction, *within: CostFunction) -> CostFunction:
    """Return the cost of `between` for the leaders of nodes and of `within` for each node.

    The leaders are alone on their nodes (Tran, sec. 1.1, "two-level algorithms": data to the
    leaders, an exchange between them, and a broadcast within nodes). Nothing overlaps here;
    pipelines between the levels are cheaper than this by up to half.
    """

    def cost(at: Instances) -> Numbers:
        one = np.ones(len(at))
        result = between(replace(at, ppn=one))
        for part in within:
            result = result + part(replace(at, nodes=one))
        return result

    return cost


def allgather_ring(at: Instances) -> Numbers:
    """Pass every block through all processes: (p - 1) (alpha + m beta) (Tran, sec. 2.2.1)."""
    rounds = at.nprocs - 1
    return at.neighbours(rounds, rounds * at.msize_bytes)


def allgather_doubling(at: Instances) -> Numbers:
    """Double recursively: log2(p) alpha + (p - 1) m beta (Tran, sec. 2.2.1; Thakur, sec. 4.1).

    Where p is no power of two it runs Bruck's rounds, as Open MPI.
    """
    p = at.nprocs
    whole = power_of_two_below(p) == p
    doubling = at.exchanges(np.where(whole, p, 1.0), lambda d: d * at.msize_bytes)
    return doubling + _bruck_rounds(at, np.where(whole, 1.0, p), 2.0)


def allgather_bruck(at: Instances) -> Numbers:
    """Run Bruck's algorithm: (k - 1) ceil(log_k p) alpha + (p - 1) m beta, and a rotation.

    k is ``fanout``, 2 if not given (Thakur, sec. 4.1; Bruck et al., IEEE TPDS 8(11), 1997).
    """
    p = at.nprocs
    rotated = np.where(p > 1, p * at.msize_bytes, 0.0)
    return _bruck_rounds(at, p, _radix(at)) + at.amounts({Coefficient.COPY: rotated})


def _radix(at: Instances) -> float:
    return float(max(at.parameters.get("fanout", 2), 2))


def _bruck_rounds(at: Instances, counts: Numbers, radix: float) -> Numbers:
    def nbytes(distance: float) -> Numbers:
        held = np.minimum(distance * radix, counts) - distance
        return np.asarray(np.maximum(held, 0.0) * at.msize_bytes)

    return at.shifts(counts, nbytes, radix)


def allgather_sparbit(at: Instances) -> Numbers:
    """Send as Bruck, but the fewer blocks, the further the partner.

    Loch and Koslovski, "Sparbit: a new logarithmic-cost and data locality-aware MPI Allgather
    algorithm", CLEI 2021.
    """
    p, m = at.nprocs, at.msize_bytes
    return at.shifts(p, lambda d: (np.ceil(p / d) - np.ceil(p / (2 * d))) * m)


def allgather_neighbours(at: Instances) -> Numbers:
    """Exchange with the two neighbours in turn: p / 2 alpha + (p - 1) m beta; a ring for odd p.

    The first exchange is of one block, the others of two. Every other one is between ranks 2 i and
    2 i + 1, which are on one node if a node has an even number of processes. Chen et al.,
    "Performance evaluation of allgather algorithms on terascale Linux cluster with fast Ethernet",
    HPC-Asia 2005.
    """
    p, m, alone = at.nprocs, at.msize_bytes, at.one_node
    rounds = np.where(p % 2 == 0, p / 2, 0.0)
    paired = np.ceil(rounds / 2)
    odd, first = rounds - paired, (rounds > 0).astype(np.float64)
    ring = np.where(p % 2 == 1, p - 1, 0.0)
    return (
        at.in_turn(alone | (at.ppn % 2 == 0), paired, (2 * paired - first) * m)
        + at.in_turn(alone, odd, 2 * odd * m)
        + at.neighbours(ring, ring * m)
    )


def spread(at: Instances) -> Numbers:
    """Send from everyone to everyone in turn: direct allgather, pairwise alltoall.

    (p - 1) (alpha + m beta) (Tran, sec. 2.2.1 and 2.2.6; Thakur, sec. 4.2).
    """
    return at.to_everyone(at.msize_bytes)


def spread_overlapping(at: Instances) -> Numbers:
    """Do the same with non-blocking messages: a gap for each, and one latency."""
    return at.to_everyone(at.msize_bytes, overlapping=True)


def gather_broadcast(at: Instances) -> Numbers:
    """Gather all blocks at the root and broadcast them."""
    return flat(at) + flat_overlapping(at.of_bytes(at.nprocs * at.msize_bytes))


def alltoall_linear(at: Instances) -> Numbers:
    """Send all messages at once; ``requests`` of them at a time if that is given."""
    sent = spread_overlapping(at)
    window = at.parameters.get("requests", 0)
    if window < 1:
        return sent
    waits = np.maximum(np.ceil((at.nprocs - 1) / window) - 1, 0)
    latencies = {
        Coefficient.INTER_LATENCY: np.where(at.one_node, 0.0, waits),
        Coefficient.INTRA_LATENCY: np.where(at.one_node, waits, 0.0),
    }
    return sent + at.amounts(latencies)


def alltoall_bruck(at: Instances) -> Numbers:
    """Run Bruck's algorithm: ceil(log2 p) (alpha + p / 2 m beta), and two rotations.

    Tran, sec. 2.2.6; Thakur, sec. 4.2; with radix ``fanout``. In the round of distance d the blocks
    are those whose number has that digit, which for other p than powers of two is not quite half.
    """
    radix = _radix(at)
    p, m = at.nprocs, at.msize_bytes

    def nbytes(distance: float) -> Numbers:
        period = radix * distance
        kept = np.floor(p / period) * distance + np.minimum(np.remainder(p, period), distance)
        return np.asarray((p - kept) * m)

    rotated = np.where(p > 1, 2 * p * m, 0.0)
    return at.shifts(p, nbytes, radix) + at.amounts({Coefficient.COPY: rotated})


def gather_binomial(at: Instances) -> Numbers:
    """Send half of what is left in each round: ceil(log2 p) alpha + (p - 1) m beta.

    Tran, sec. 2.2.3; Thakur, sec. 4.3.
    """
    p = at.nprocs
    result = np.zeros((len(at), len(COEFFICIENTS)))
    for distance in powers(p):
        active = distance < p
        held = np.where(active, np.minimum(distance, p - distance), 0.0)
        on_node = at.aligned_on_node(distance)
        result += at.in_turn(on_node, active.astype(np.float64), held * at.msize_bytes)
    return result


def gather_linear_synchronised(at: Instances) -> Numbers:
    """Send a word to each process, and its block in two parts.

    Open MPI, ``coll_base_gather.c``, ``gather_intra_linear_sync``.
    """
    return at.from_root(3.0)


def scatter_ring_allgather(at: Instances) -> Numbers:
    """Scatter, then ring: (log2(p) + p - 1) alpha + 2 (p - 1) / p m beta (Hasanov, 2.1.7)."""
    return gather_binomial(at.block()) + allgather_ring(at.block())


def scatter_doubling_allgather(at: Instances) -> Numbers:
    """Scatter, then double: 2 log2(p) alpha + 2 (p - 1) / p m beta (Hasanov, 2.1.8)."""
    return gather_binomial(at.block()) + allgather_doubling(at.block())


def _folding(at: Instances, nbytes: Numbers) -> Numbers:
    """Return a message of `nbytes` between neighbours where p is no power of two."""
    folds = power_of_two_below(at.nprocs) != at.nprocs
    return at.neighbours(folds * 1.0, folds * nbytes)


def _folded_and_halved(at: Instances) -> Numbers:
    """Return recursive halving over the largest power of two, after the others have folded."""
    m, counts = at.msize_bytes, power_of_two_below(at.nprocs)
    halving = at.exchanges(counts, lambda d: m * d / counts)
    return at.with_arithmetic(_folding(at, m)) + at.with_arithmetic(halving)


def _vectors(at: Instances) -> Instances:
    """Return instances of whole vectors: ``per_block`` says that the message is a block of one."""
    return at.of_bytes(at.msize_bytes * (at.nprocs if at.parameters.get("per_block") else 1.0))


def reduce_scatter_halving(at: Instances) -> Numbers:
    """Halve recursively: log2(p) alpha + (p - 1) / p m (beta + gamma) (Thakur, sec. 4.4).

    Where p is no power of two neighbours first fold their vectors, and get a block in the end.
    """
    whole = _vectors(at)
    return _folded_and_halved(whole) + _folding(whole, whole.msize_bytes / whole.nprocs)


def _reduced_along_ring(at: Instances, phases: Numbers | float = 1.0) -> Numbers:
    """Return a ring's reduce-scatter with each block cut into `phases`."""
    rounds = at.nprocs - 1
    moved = rounds * at.msize_bytes / at.nprocs
    return at.with_arithmetic(at.neighbours(rounds * phases, moved))


def reduce_scatter_ring(at: Instances) -> Numbers:
    """Reduce along a ring: (p - 1) (alpha + m / p (beta + gamma)) (Tran, sec. 2.2.2)."""
    return _reduced_along_ring(_vectors(at))


def reduce_scatter_pairwise(at: Instances) -> Numbers:
    """Do the same with everyone in turn (Thakur, sec. 4.4; the split as in Tran, sec. 2.2.6)."""
    whole = _vectors(at)
    return whole.with_arithmetic(spread(whole.block()))


def reduce_scatter_doubling(at: Instances) -> Numbers:
    """Exchange all but what the partner needs no more (Thakur, sec. 4.4).

    log2(p) alpha + (log2(p) - (p - 1) / p) m (beta + gamma).
    """
    whole = _vectors(at)
    p, m = whole.nprocs, whole.msize_bytes
    return whole.with_arithmetic(whole.exchanges(p, lambda d: m * np.maximum(p - d, 0) / p))


def reduce_scatter_butterfly(at: Instances) -> Numbers:
    """Halve recursively, for any p.

    Träff, "An improved algorithm for (non-commutative) reduce-scatter with an application",
    EuroPVM/MPI 2005.
    """
    whole = _vectors(at)
    p, m = whole.nprocs, whole.msize_bytes
    return whole.with_arithmetic(whole.shifts(p, lambda d: m * np.minimum(d, p - d) / p))


def reduce_scatter_nonoverlapping(at: Instances) -> Numbers:
    """Reduce along a binomial tree, then scatter from the root."""
    whole = _vectors(at)
    return reduction(binomial_doubling)(whole) + flat(whole.block())


def reduce_rabenseifner(at: Instances) -> Numbers:
    """Halve recursively, then gather: 2 log2(p) alpha + (p - 1) / p m (2 beta + gamma).

    Thakur, sec. 4.5; Tran, sec. 2.2.5.
    """
    return _folded_and_halved(at) + gather_binomial(at.block())


def allreduce_doubling(at: Instances) -> Numbers:
    """Exchange whole vectors: log2(p) (alpha + m beta + m gamma) (Thakur, 4.5; Tran, 2.2.2).

    Where p is no power of two, neighbours fold first and get the result last.
    """
    m = at.msize_bytes
    rounds = at.exchanges(power_of_two_below(at.nprocs), lambda d: m)
    fold = _folding(at, m)
    return at.with_arithmetic(rounds + fold) + fold


def allreduce_rabenseifner(at: Instances) -> Numbers:
    """Halve, then double: 2 log2(p) alpha + (p - 1) / p m (2 beta + gamma) (Thakur, sec. 4.5)."""
    m, counts = at.msize_bytes, power_of_two_below(at.nprocs)
    gathered = at.exchanges(counts, lambda d: m * d / counts)
    return _folded_and_halved(at) + gathered + _folding(at, m)


def allreduce_ring(at: Instances, phases: Numbers | float = 1.0) -> Numbers:
    """Reduce and gather along a ring: 2 (p - 1) alpha + (p - 1) / p m (2 beta + gamma).

    Tran, sec. 2.2.2; Patarasuk and Yuan, JPDC 69(2), 2009.
    """
    return _reduced_along_ring(at, phases) + allgather_ring(at.block())


def allreduce_segmented_ring(at: Instances) -> Numbers:
    """Reduce blocks in phases of at most a segment, of 1 MiB if not given.

    Open MPI, ``coll_base_allreduce.c``, ``allreduce_intra_ring_segmented``.
    """
    segsize = at.parameters.get("segsize") or _RING_SEGSIZE
    return allreduce_ring(at, segments(at.msize_bytes / at.nprocs, segsize))


def allgather_reduce(at: Instances) -> Numbers:
    """Send all vectors everywhere, ``p - 1`` of which each process adds up."""
    reduced = np.maximum(at.nprocs - 1, 0) * at.msize_bytes
    return allgather_doubling(at) + at.amounts({Coefficient.REDUCTION: reduced})


def scan_linear(at: Instances) -> Numbers:
    """Add along a chain of all processes: (p - 1) (alpha + m beta + m gamma)."""
    return reduction(pipeline)(at.of_bytes(at.msize_bytes))


def scan_doubling(at: Instances) -> Numbers:
    """Double the distance: ceil(log2 p) (alpha + m beta + 2 m gamma)."""
    return at.with_arithmetic(at.exchanges(at.nprocs, lambda d: at.msize_bytes), 2)


def barrier_linear(at: Instances) -> Numbers:
    """Send a word from and to everyone at the root."""
    return 2 * at.to_everyone(np.zeros(len(at)))


def barrier_double_ring(at: Instances) -> Numbers:
    """Pass a word around all processes twice."""
    rounds = np.where(at.nprocs > 1, 2 * at.nprocs, 0.0)
    remote = np.where(at.one_node, 0.0, 2 * at.nodes)
    return at.messages(rounds - remote, between=remote)


def barrier_doubling(at: Instances) -> Numbers:
    """Exchange words at doubling distances."""
    return allreduce_doubling(at.of_bytes(np.zeros(len(at))))


def barrier_dissemination(at: Instances) -> Numbers:
    """Disseminate with radix ``fanout``: ceil(log2 p) rounds.

    Hensgen, Finkel and Manber, Int. J. of Parallel Programming 17(1), 1988.
    """
    nothing = np.zeros(len(at))
    return at.of_bytes(nothing).shifts(at.nprocs, lambda d: nothing, _radix(at))


def barrier_tree(at: Instances) -> Numbers:
    """Send a word up and down a binomial tree."""
    return 2 * binomial_doubling(at.of_bytes(np.zeros(len(at))))
