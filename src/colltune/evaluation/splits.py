"""Which cells are trained on and which are tested: every split is a frozen object.

Most splits are masks over one collective's instances, a list of (name, train, test) of them, all
shape (n). A collective that a split does not apply to (too few node counts, say) takes no part;
where none is left, an error says what the data has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from colltune.errors import say
from colltune.evaluation.folds import Fold, FoldSource, SplitError, fold
from colltune.models.cells import CellMatrix

Flags = NDArray[np.bool_]
_LEAST_COUNTS = 3


class Mask(NamedTuple):
    """One fold of one collective: which of its instances are trained on and which are tested."""

    name: str
    train: Flags
    test: Flags


class Split(Protocol):
    """A way to part a dataset into what is learned and what is tested."""

    @property
    def name(self) -> str:
        """The split's name on the command line."""
        ...

    def options(self) -> dict[str, Any]:
        """Return what else defines the split, JSON-able."""
        ...

    def folds(self, source: FoldSource) -> list[Fold]:
        """Return the folds, collective by collective.

        Raises
        ------
        SplitError
            If the split cannot be made of this data; the message says why.
        """
        ...


@dataclass(frozen=True)
class MaskSplit(ABC):
    """A split whose folds are masks over the instances of one dataset."""

    name: ClassVar[str]
    needs: ClassVar[str]

    @abstractmethod
    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return the folds of one collective, none if the split does not apply to it."""

    def _check(self, source: FoldSource) -> None:  # noqa: B027
        """Raise `SplitError` if the options do not fit the data."""

    def options(self) -> dict[str, Any]:
        """Return the fields that are set, tuples as lists."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if value is not None
        }

    def folds(self, source: FoldSource) -> list[Fold]:
        self._check(source)
        found = [
            fold(mask.name, source.learned[c].rows(mask.train), cells.rows(mask.test), source.noise)
            for c, cells in source.matrices.items()
            for mask in self.masks(cells)
        ]
        if some := [one for one in found if one is not None]:
            return some
        told = _described(source)
        raise say("no-folds", SplitError, split=self.name, needs=self.needs, data=told)


@dataclass(frozen=True)
class NodeCounts(MaskSplit):
    """Train on some node counts, test on others.

    ``train_nodes`` and ``test_nodes`` are numbers of nodes.
    """

    name: ClassVar[str] = "node-counts"
    needs: ClassVar[str] = "a collective measured on training and test node counts"
    train_nodes: tuple[int, ...]
    test_nodes: tuple[int, ...]

    def _check(self, source: FoldSource) -> None:
        known = _distinct(source.dataset.frame["nodes"])
        for option, asked in (
            ("--train-nodes", self.train_nodes),
            ("--test-nodes", self.test_nodes),
        ):
            _insist("nodes", option, asked or (0,), known)
        if both := sorted(set(self.train_nodes) & set(self.test_nodes)):
            raise say("trained-and-tested", SplitError, nodes=_listed(both))

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return the one fold."""
        train, test = np.isin(cells.nodes, self.train_nodes), np.isin(cells.nodes, self.test_nodes)
        return [Mask(f"nodes {_listed(self.test_nodes)}", train, test)]


@dataclass(frozen=True)
class LeaveNodesOut(MaskSplit):
    """Leave each node count of a collective out once, trained on its others."""

    name: ClassVar[str] = "leave-nodes-out"
    needs: ClassVar[str] = "a collective measured on at least 3 node counts"

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return a fold per node count."""
        counts = _distinct(cells.nodes)
        if len(counts) < _LEAST_COUNTS:
            return []
        return [Mask(f"nodes {n}", cells.nodes != n, cells.nodes == n) for n in counts]


@dataclass(frozen=True)
class LeavePpnOut(MaskSplit):
    """Leave each ppn (or each of ``ppn``) out once, trained on the others."""

    name: ClassVar[str] = "leave-ppn-out"
    needs: ClassVar[str] = "a collective measured with at least 2 different ppn"
    ppn: tuple[int, ...] | None = None

    def _check(self, source: FoldSource) -> None:
        _insist("ppn", "--ppn", self.ppn or (), _distinct(source.dataset.frame["ppn"]))

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return a fold per ppn."""
        counts = _distinct(cells.ppn)
        if len(counts) < 2:
            return []
        asked = [p for p in counts if self.ppn is None or p in self.ppn]
        return [Mask(f"ppn {p}", cells.ppn != p, cells.ppn == p) for p in asked]


@dataclass(frozen=True)
class Extrapolation(MaskSplit):
    """Train on the smaller node counts of a collective, test on the larger ones.

    Tested is the upper third of a collective's node counts (rounded down, at least one), or the
    ``largest`` so many, or all ``above`` so many nodes. At least two are left to train on: what
    grows with nodes cannot be seen on one.
    """

    name: ClassVar[str] = "extrapolation"
    needs: ClassVar[str] = (
        "a collective measured on at least 2 smaller node counts and a larger one"
    )
    largest: int | None = None
    above: int | None = None

    def _check(self, source: FoldSource) -> None:
        if self.largest is not None and self.above is not None:
            raise say("exclusive", SplitError, one="--largest", other="--above")
        if self.largest is not None and self.largest < 1:
            raise say(
                "too-small", SplitError, name="--largest", value=self.largest, less="less than 1"
            )

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return the one fold."""
        counts = _distinct(cells.nodes)
        largest = max(1, len(counts) // 3) if self.largest is None else self.largest
        tested = counts[-largest:]
        if self.above is not None:
            tested = [n for n in counts if n > self.above]
        if not tested or len(counts) - len(tested) < 2:
            return []
        test = np.isin(cells.nodes, tested)
        return [Mask(f"nodes {_listed(tested)}", ~test, test)]


@dataclass(frozen=True)
class MessageSizes(MaskSplit):
    """Two random halves of the message sizes, each tested once.

    ``seed`` decides which sizes are left out.
    """

    name: ClassVar[str] = "message-sizes"
    needs: ClassVar[str] = "a collective measured with at least 4 message sizes"
    seed: int = 0

    def masks(self, cells: CellMatrix) -> list[Mask]:
        """Return the two folds."""
        sizes = np.unique(cells.msize_bytes)
        if len(sizes) < 4:
            return []
        drawn = np.random.default_rng(self.seed).permutation(sizes)
        half = np.isin(cells.msize_bytes, drawn[: len(drawn) // 2])
        return [Mask("sizes, half 1", ~half, half), Mask("sizes, half 2", half, ~half)]


def _insist(what: str, option: str, asked: Sequence[int], known: Sequence[int]) -> None:
    if missing := [one for one in asked if one not in known]:
        wrong, there = _listed(missing), _listed(known)
        raise say("not-in-data", SplitError, what=what, option=option, missing=wrong, known=there)


def _distinct(numbers: Iterable[Any]) -> list[int]:
    return sorted({int(n) for n in numbers})


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _described(source: FoldSource) -> str:
    parts = [
        f"{collective} on {_listed(_distinct(cells.nodes))} nodes with ppn"
        f" {_listed(_distinct(cells.ppn))}"
        + ("" if cells.default_column is not None else " but never its default")
        for collective, cells in source.matrices.items()
    ]
    return "; ".join(parts) or "no measurement with the status ok"


@dataclass(frozen=True)
class LeaveAllocationOut:
    """Leave each allocation out once, tested on its own times, not on medians over all.

    What differs from one allocation to the next (placement, other jobs, the day) thus counts as it
    counts for a user. Instances that only the allocation itself measured are tested too.
    """

    name: ClassVar[str] = "leave-allocation-out"

    def options(self) -> dict[str, Any]:
        """Return nothing: the data says all."""
        return {}

    def folds(self, source: FoldSource) -> list[Fold]:
        """Return a fold per allocation and collective that it decides.

        Raises
        ------
        SplitError
            If there are not two allocations, or none has anything to decide.
        """
        of_row = source.dataset.frame["launch"].astype(str).map(source.allocations)
        names = sorted(of_row.unique())
        if len(names) < 2:
            raise say("few-launches", SplitError, split=self.name, count=len(names))
        found = []
        for name in names:
            held_out, rest = source.part(of_row == name), source.part(of_row != name)
            found += [
                fold(name, rest.learned[c], tested, source.noise, one_launch=True)
                for c, tested in held_out.matrices.items()
                if c in rest.learned
            ]
        if some := [one for one in found if one is not None]:
            return some
        raise say("no-launch-to-leave-out", SplitError, split=self.name)
