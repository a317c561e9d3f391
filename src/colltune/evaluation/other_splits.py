"""Splits whose tested times are not those trained beside: other allocations, other machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from colltune.dataset import PerformanceDataset
from colltune.evaluation.folds import Fold, Source, SplitError, digest, fold


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

    def folds(self, source: Source) -> list[Fold]:
        """Return a fold per allocation and collective that it decides.

        Raises
        ------
        SplitError
            If there are not two allocations, or none has anything to decide.
        """
        of_row = source.dataset.frame["launch"].astype(str).map(source.allocations)
        names = sorted(of_row.unique())
        if len(names) < 2:
            raise SplitError(
                f"the split {self.name} needs at least 2 launches, and the data has"
                f" {len(names)}; measure again on another day, or choose another --split"
            )
        folds = [one for name in names for one in _held_out(source, of_row == name, name)]
        if not folds:
            raise SplitError(
                f"the split {self.name} leaves nothing to evaluate: no launch measured a default"
                " together with another configuration that other launches measured too"
            )
        return folds


def _held_out(source: Source, mask: Any, name: str) -> list[Fold]:
    held_out, rest = source.part(mask), source.part(~mask)
    found = []
    for collective, tested in held_out.matrices.items():
        if collective in rest.learned:
            learned = rest.learned[collective]
            found.append(fold(name, learned, tested, source.noise, one_launch=True))
    return [one for one in found if one is not None]


@dataclass(frozen=True, eq=False)
class Transfer:
    """Train on all of one machine's data, test on all of another's, of the same library."""

    name: ClassVar[str] = "transfer"
    test: PerformanceDataset

    def options(self) -> dict[str, Any]:
        """Return where the tested times come from."""
        return {"test_data": str(self.test.context), "test_dataset_digest": digest(self.test)}

    def folds(self, source: Source) -> list[Fold]:
        """Return a fold per collective that both have.

        Raises
        ------
        SplitError
            If the libraries differ, the contexts do not, or nothing is common.
        """
        mine, theirs = source.dataset.context, self.test.context
        if mine.library != theirs.library:
            raise SplitError(
                f"{mine} and {theirs} have different libraries, whose algorithms are not the same"
                " ones; name data of the same library with --test-data"
            )
        if mine == theirs:
            raise SplitError(
                f"--test-data has the same context as the data, {mine}; transfer is between two"
                " machines; for one, choose another --split"
            )
        tested = replace(source, dataset=self.test, allocation_of=None)
        found = [
            fold(theirs.machine, cells, tested.matrices[collective], tested.noise)
            for collective, cells in source.learned.items()
            if collective in tested.matrices
        ]
        folds = [one for one in found if one is not None]
        if not folds:
            raise SplitError(
                f"the split {self.name} leaves nothing to evaluate: no collective was measured in"
                f" {mine} and, with its default and another configuration, in {theirs}"
            )
        return folds
