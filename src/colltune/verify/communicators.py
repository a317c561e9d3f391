"""The communicators that a job can form, as far as a library's decisions can tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from colltune.domain import Shape


@dataclass(frozen=True)
class Communicator:
    """Processes that lie evenly on the first `nodes` nodes; ``is_whole``: all of the job's."""

    size: int
    nodes: int
    is_whole: bool = False

    @property
    def text(self) -> str:
        """For people: ``4 processes on 2 nodes``."""
        on = "one node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{self.size} processes on {on}"


@dataclass(frozen=True)
class Layout:
    """How many processes of the job lie on each of its nodes."""

    processes: tuple[int, ...]

    @property
    def nprocs(self) -> int:
        """All processes of the job."""
        return sum(self.processes)

    @property
    def regular(self) -> Shape:
        """The largest shape that the job holds on all its nodes."""
        return Shape(len(self.processes), min(self.processes))

    @property
    def is_regular(self) -> bool:
        """Whether every node has as many processes."""
        return len(set(self.processes)) == 1

    def holds(self, size: int, nodes: int) -> bool:
        """Tell whether `size` processes can lie evenly on the first `nodes` nodes."""
        if not 1 <= nodes <= min(size, len(self.processes)):
            return False
        needed = (size // nodes + (node < size % nodes) for node in range(nodes))
        return all(n <= there for n, there in zip(needed, self.processes, strict=False))

    def shape_of(self, communicator: Communicator) -> Shape | None:
        """Return the shape that the benchmark would measure it as; None if it has none."""
        size, nodes = communicator.size, communicator.nodes
        regular = size % nodes == 0 and size // nodes <= min(self.processes)
        return Shape(nodes, size // nodes) if regular else None

    def communicators(self, sizes: Iterable[int]) -> tuple[Communicator, ...]:
        """Return those worth trying, by descending size and number of nodes.

        The whole job, one process per node, one node, halves, powers of two, and `sizes`.
        """
        found = {Communicator(self.nprocs, len(self.processes), is_whole=True)}
        for size in {*self._usual(), *sizes}:
            if 2 <= size <= self.nprocs:
                found.update(self._spread(size))
        return tuple(sorted(found, key=lambda c: (-c.size, -c.nodes, not c.is_whole)))

    def _usual(self) -> Iterator[int]:
        yield from (len(self.processes), self.processes[0], self.nprocs // 2)
        size = 2
        while size <= self.nprocs:
            yield size
            size *= 2

    def _spread(self, size: int) -> Iterator[Communicator]:
        """Yield one process per node, all nodes, and as few nodes as possible."""
        all_nodes = len(self.processes)
        whole = (self.nprocs, all_nodes)
        fewest = next((k for k in range(1, all_nodes + 1) if self.holds(size, k)), 1)
        for nodes in {size, all_nodes, fewest}:
            if (size, nodes) != whole and self.holds(size, nodes):
                yield Communicator(size, nodes)
