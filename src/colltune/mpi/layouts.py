"""How the processes of a communicator can lie on a job's nodes."""

from __future__ import annotations

from functools import lru_cache

from colltune.domain import Shape


@lru_cache(maxsize=256)
def even_layouts(comm_size: int, job: Shape) -> tuple[Shape, ...]:
    """Return all ways in which processes can lie evenly on a job, fewest nodes first."""
    return tuple(
        Shape(nodes, comm_size // nodes)
        for nodes in sorted(_divisors(comm_size))
        if nodes <= job.nodes and comm_size // nodes <= job.ppn
    )


def _divisors(number: int) -> list[int]:
    """Return the divisors, out of the prime factors, which are found soon for real jobs."""
    found, rest, factor = [1], number, 2
    while rest > 1:
        if factor * factor > rest:
            factor = rest
        power, grown = 1, list(found)
        while rest % factor == 0:
            rest //= factor
            power *= factor
            grown += [divisor * power for divisor in found]
        found = grown
        factor += 1
    return found
