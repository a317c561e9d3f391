"""Predicted costs, or powers of them, times what Gaussian processes have learned on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from colltune.domain import Configuration
from colltune.models.cost_model import Instances
from colltune.models.predictors.costs import Costs
from colltune.models.predictors.processes import Processes
from colltune.models.predictors.protocol import Arrays, Numbers

_COSTS = "costs_"


@dataclass(frozen=True, eq=False)
class CorrectedCosts:
    """``cost ** trust * process``, in seconds.

    ``processes`` have all C outputs; the outputs ``priced`` (c) are multiplied by the ``costs`` of
    c configurations to the power of ``trust`` (c), the others are the processes alone.
    """

    kind: ClassVar[str] = "corrected_costs"
    processes: Processes
    priced: NDArray[np.int64]
    trust: Numbers
    costs: Costs | None

    @property
    def n_outputs(self) -> int:
        """Number of configurations."""
        return self.processes.n_outputs

    @property
    def trusted_costs(self) -> Costs | None:
        """The costs, if they are trusted wholly."""
        return self.costs if (self.trust == 1.0).all() else None

    def predict(self, X: Numbers) -> Numbers:
        """Return seconds, shape (n, C)."""
        result = self.processes.predict(X)
        if self.costs is not None:
            result[:, self.priced] *= self.costs.predict(X) ** self.trust
        return result

    def breakdown(
        self, configuration: Configuration, instances: Instances
    ) -> list[tuple[str, Numbers]]:
        """Return what each part of a configuration's cost takes, in seconds (n).

        Raises
        ------
        ValueError
            If the configuration has no cost, or one that is trusted in part only.
        """
        if self.trusted_costs is None:
            raise ValueError(f"no cost of {configuration.id} is trusted")
        return self.trusted_costs.breakdown(configuration, instances)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields, those of the costs with a prefix."""
        costs = self.costs.arrays() if self.costs is not None else {}
        named = {f"{_COSTS}{name}": array for name, array in costs.items()}
        return self.processes.arrays() | {"priced": self.priced, "trust": self.trust} | named

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from `arrays`.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        costs = {n.removeprefix(_COSTS): a for n, a in arrays.items() if n.startswith(_COSTS)}
        rebuilt = cls(
            Processes.from_arrays(arrays),
            arrays["priced"],
            arrays["trust"],
            Costs.from_arrays(costs) if costs else None,
        )
        n_costs = rebuilt.costs.n_outputs if rebuilt.costs is not None else 0
        if not len(rebuilt.priced) == len(rebuilt.trust) == n_costs:
            raise ValueError(f"{n_costs} costs for {len(rebuilt.priced)} outputs that have one")
        return rebuilt

    @classmethod
    def stacked(cls, predictors: Sequence[Self]) -> Self:
        """Put outputs side by side."""
        firsts = np.cumsum([0, *(p.n_outputs for p in predictors)])
        costs = [p.costs for p in predictors if p.costs is not None]
        return cls(
            Processes.stacked([p.processes for p in predictors]),
            np.concatenate([p.priced + k for p, k in zip(predictors, firsts, strict=False)]),
            np.concatenate([p.trust for p in predictors]),
            Costs.stacked(costs) if costs else None,
        )
