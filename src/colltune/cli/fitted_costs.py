"""The cost model that a verb shows: fitted to the measurements it is given, or in its bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from colltune.cli.console import parse_pairs
from colltune.errors import DataError

if TYPE_CHECKING:
    from colltune.domain import Collective
    from colltune.models.bundle import Bundle
    from colltune.models.cost_breakdown import Costs


def costs_of(
    bundle: Bundle, collective: Collective, data: Sequence[Path], where: Sequence[str] = ()
) -> tuple[Costs, str | None]:
    """Return the fitted costs of `collective` and, in words, what they are; None for none.

    Raises
    ------
    DataError
        If `data` cannot be read, are of another machine or library, or lack the collective.
    BundleError
        If the bundle has no models of the collective.
    """
    from colltune.models import fitted_costs

    model = bundle.model(collective)
    if data:
        return _fitted(bundle, collective, data, where)
    found = fitted_costs.of_model(model)
    return (found, "the bundle's cost model") if found is not None else ({}, None)


def _fitted(
    bundle: Bundle, collective: Collective, data: Sequence[Path], where: Sequence[str]
) -> tuple[Costs, str]:
    from colltune.dataset import read
    from colltune.dataset.objective import parse_objective
    from colltune.models import fitted_costs
    from colltune.models.cells import cell_matrices

    dataset = read(data, parse_pairs(where, "--where"))
    names = ", ".join(map(str, data))
    if dataset.context != bundle.context:
        raise DataError(
            f"{names}: measured on {dataset.context}, but the bundle is of {bundle.context}; name"
            " the measurements that it was fitted to"
        )
    cells = cell_matrices(dataset, parse_objective(bundle.objective)).get(collective)
    if cells is None:
        raise DataError(f"{names}: no usable measurement of {collective}")
    return fitted_costs.of_cells(cells), f"a cost model fitted to {names}"
