"""Reductions as programs in Python make them, drawn by chance.

Usage: results_calls_program SEED CALLS. On the job's communicator, parts of it, and with its ranks
turned round; with numbers of six types, derived types, operations of MPI and of its own, in place,
at once or started and waited for. It prints a line for each call of each rank, with a hash of the
result, and ``RESULT`` with one of all.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
KINDS = (
    "allreduce", "allreduce", "in place", "started", "prepared", "object", "reduce",
    "reduce, started", "scan", "exscan", "reduce_scatter", "reduce_scatter_block",
)  # fmt: skip
TYPES = ("f", "d", "d", "D", "i", "g")
OPERATIONS = ("sum", "sum", "sum", "product", "max", "own sum", "weighed", "triples")
MOST = 120_000
TRIPLE = MPI.DOUBLE.Create_contiguous(3).Commit()


def _added(left: Any, right: Any, _: MPI.Datatype) -> None:
    into = np.frombuffer(right)
    into += np.frombuffer(left)


def _weighed(left: Any, right: Any, _: MPI.Datatype) -> None:
    into = np.frombuffer(right)
    into += 0.75 * np.frombuffer(left)


def _triples(left: Any, right: Any, _: MPI.Datatype) -> None:
    before, into = np.frombuffer(left).reshape(-1, 3), np.frombuffer(right).reshape(-1, 3)
    into += before * (1.0, 0.5, 2.0)


OPS = {
    "sum": MPI.SUM,
    "product": MPI.PROD,
    "max": MPI.MAX,
    "own sum": MPI.Op.Create(_added, commute=True),
    "weighed": MPI.Op.Create(_weighed, commute=False),
    "triples": MPI.Op.Create(_triples, commute=False),
}


@dataclass(frozen=True)
class Call:
    """What is called: with ``n`` elements that a rank gets, where it gets as many as others."""

    number: int
    place: str
    kind: str
    code: str
    operation: str
    n: int
    root: float

    @property
    def text(self) -> str:
        return f"{self.place}: {self.kind} of {self.n} {self.code}, {self.operation}"


def places() -> dict[str, MPI.Comm]:
    """Return communicators, of which some have no part for some ranks."""
    rank, size = WORLD.Get_rank(), WORLD.Get_size()
    return {
        "world": WORLD,
        "every second": WORLD.Split(rank % 2, rank),
        "turned round": WORLD.Split(0, -rank),
        "copy": WORLD.Dup(),
        "first three": WORLD.Create(WORLD.Get_group().Incl(range(min(3, size)))),
        "half, turned round": WORLD.Split(int(rank < (size + 1) // 2), -rank),
    }


def drawn(seed: int, calls: int) -> Iterator[Call]:
    """Yield the same calls on all ranks."""
    chance, names = random.Random(seed), sorted(places())  # noqa: S311
    for number in range(calls):
        place, kind, code = (chance.choice(of) for of in (names, KINDS, TYPES))
        operation, n = chance.choice(OPERATIONS), round(MOST ** chance.random())
        if operation in ("own sum", "weighed", "triples") or kind == "object":
            code = "d"
        if operation == "max" and code == "D":
            operation = "sum"
        yield Call(number, place, kind, code, operation, n, chance.random())


def numbers(call: Call, n: int, seed: int) -> Any:
    """Return what this rank gives, whose sums depend on their order."""
    make = np.random.default_rng([seed, call.number, WORLD.Get_rank()])
    if call.code == "i":
        return make.integers(-9, 10, n).astype("i")
    if call.operation == "product":
        return (1.0 + make.random(n) * 1e-3).astype(call.code)
    found = make.standard_normal(n) * np.exp2(make.integers(0, 40, n))
    return (found + 1j * make.standard_normal(n) if call.code == "D" else found).astype(call.code)


def reduced(comm: MPI.Comm, call: Call, seed: int) -> Any:
    """Return what this rank gets; nothing where it gets nothing."""
    size, rank, op = comm.Get_size(), comm.Get_rank(), OPS[call.operation]
    width = 3 if call.operation == "triples" else 1
    counts = [call.n // size + (r % 3) for r in range(size)]
    block = max(1, call.n // size)
    sent, got = {
        "reduce_scatter": (sum(counts), counts[rank]),
        "reduce_scatter_block": (block * size, block),
    }.get(call.kind, (call.n, call.n))
    ours, result = numbers(call, sent * width, seed), np.zeros(got * width, call.code)
    kind = TRIPLE if width > 1 else MPI._typedict[call.code]
    source, target = [ours, sent, kind], [result, got, kind]
    root = int(call.root * size)
    if call.kind == "object":
        return np.array([comm.allreduce(float(ours[0]), MPI.SUM)])
    if call.kind == "in place":
        result[:] = ours
        comm.Allreduce(MPI.IN_PLACE, target, op)
    elif call.kind == "prepared" and MPI.Get_version() >= (4, 0):
        request = comm.Allreduce_init(source, target, op)
        request.Start()
        request.Wait()
        request.Free()
    elif call.kind in ("allreduce", "prepared"):
        comm.Allreduce(source, target, op)
    elif call.kind == "started":
        comm.Iallreduce(source, target, op).Wait()
    elif call.kind == "reduce":
        comm.Reduce(source, target, op, root)
    elif call.kind == "reduce, started":
        comm.Ireduce(source, target, op, root).Wait()
    elif call.kind == "reduce_scatter":
        comm.Reduce_scatter(source, target, counts, op)
    elif call.kind == "reduce_scatter_block":
        source[1] = block
        comm.Reduce_scatter_block(source, target, op)
    else:
        (comm.Scan if call.kind == "scan" else comm.Exscan)(source, target, op)
    is_mine = rank == root if call.kind.startswith("reduce") and got == sent else True
    return result if is_mine and not (call.kind == "exscan" and rank == 0) else result[:0]


def main(seed: int, calls: int) -> None:
    """Make the calls, and print what came of them."""
    comms, lines = places(), []
    for call in drawn(seed, calls):
        comm = comms[call.place]
        if comm != MPI.COMM_NULL:
            found = reduced(comm, call, seed)
            # of a long double ten bytes have a meaning
            shown = found.view("u1").reshape(-1, 16)[:, :10] if call.code == "g" else found
            bits = hashlib.sha256(np.ascontiguousarray(shown).tobytes()).hexdigest()[:16]
            lines.append(f"{call.number} {WORLD.Get_rank()} {bits} {call.text}")
    if WORLD.Get_rank():
        WORLD.send(lines, 0)
        return
    for other in range(1, WORLD.Get_size()):
        lines += WORLD.recv(source=other)
    text = "\n".join(lines)
    print(text, f"RESULT {hashlib.sha256(text.encode()).hexdigest()}", sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
