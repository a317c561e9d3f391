"""What measurements of other machines are worth: nothing measured, and 5 % of the grid.

Transfers that are made, each a prior and a machine whose whole grid is the test:

* made-up machines (tests/models/made_up_corpus.py): each from the other two;
* COLLTUNE_PRIOR and COLLTUNE_TARGET, two datasets of different machines, if both are set;
* where the shared data is found, parts of one machine that stand for machines, since there are no
  two in it: Leonardo's runs on up to 256 nodes and those on more, either from the other, and the
  simulated grid's ppn 1 and 4 for its ppn 8 and 16.

COLLTUNE_SEEDS sets how many draws of 5 % of each collective's instances are averaged, by default 3.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset, read
from colltune.evaluation.folds import measured_columns
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.fitting import fit
from colltune.models.learners import PREFERRED
from colltune.models.transfer import fit_with_priors
from colltune.selector.argmin import ModelSelector
from figures.figure import Figure
from tests.models.made_up_corpus import NETWORKS, corpus_of

FOLDER = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[2] / "shared")) / "data"
SEEDS = range(int(os.environ.get("COLLTUNE_SEEDS", "3")))
_INSTANCE = ["collective", "nodes", "ppn", "msize_bytes"]
_FEW, _HARM, _MANY_NODES, _MANY_PPN = 0.05, 1.05, 256, 4
Numbers = NDArray[np.float64]


class Transfer(NamedTuple):
    """From priors to the dataset of another machine, all of which is the test."""

    name: str
    priors: list[PerformanceDataset]
    target: PerformanceDataset


def run() -> Figure:
    """Return the speed-up over the default with 5 % measured and priors, over that without priors.

    ``ours`` and ``baseline`` are those geometric means over all transfers; each one's figures are
    on standard error, with what is gained where nothing was measured.
    """
    with_priors, without = [], []
    for transfer in _transfers():
        never = fit_with_priors(None, transfer.priors, transfer.target.context)
        _report(transfer.name, "nothing measured", _log_gains(never, transfer.target))
        gains: dict[str, list[Numbers]] = {"5 %, with priors": [], "5 %, without": []}
        for seed in SEEDS:
            own, rest = _drawn(transfer.target, seed)
            borrowing = fit_with_priors(own, transfer.priors, own.context)
            gains["5 %, with priors"].append(_log_gains(borrowing, rest))
            gains["5 %, without"].append(_log_gains(fit(own, PREFERRED), rest))
        joined = {what: np.concatenate(parts) for what, parts in gains.items()}
        for what, values in joined.items():
            _report(transfer.name, what, values)
        with_priors.append(joined["5 %, with priors"].mean())
        without.append(joined["5 %, without"].mean())
    ours, baseline = (float(np.exp(np.mean(g))) for g in (with_priors, without))
    return Figure("transfer", ours / baseline, "ratio", ours, baseline)


def _transfers() -> Iterator[Transfer]:
    for network in NETWORKS:
        others = [corpus_of(other) for other in NETWORKS if other != network]
        yield Transfer(f"made up, {network.name}", others, corpus_of(network))
    prior, target = (os.environ.get(f"COLLTUNE_{name}") for name in ("PRIOR", "TARGET"))
    if prior and target:
        theirs, own = read([Path(prior)]), read([Path(target)])
        yield Transfer(f"{theirs.context} -> {own.context}", [theirs], own)
    for file, column, most in (
        ("leonardo_openmpi-4.1.6.csv.gz", "nodes", _MANY_NODES),
        ("simulated_fattree36.csv.gz", "ppn", _MANY_PPN),
    ):
        if not (FOLDER / file).exists():
            print(f"{FOLDER / file} is missing; set COLLTUNE_SHARED", file=sys.stderr)
            continue
        few, many = _halves(read([FOLDER / file]), column, most)
        yield Transfer(f"{few.context.machine} -> {many.context.machine}", [few], many)
        if column == "nodes":
            yield Transfer(f"{many.context.machine} -> {few.context.machine}", [many], few)


def _halves(
    dataset: PerformanceDataset, column: str, most: int
) -> tuple[PerformanceDataset, PerformanceDataset]:
    """Return the rows with up to `most` in `column`, and those with more, as two machines."""
    few = dataset.frame[column] <= most
    name = dataset.context.machine
    contexts = [
        replace(dataset.context, machine=f"{name}, {column} {sign} {most}") for sign in ("<=", ">")
    ]
    return (
        replace(dataset.where(few), context=contexts[0]),
        replace(dataset.where(~few), context=contexts[1]),
    )


def _drawn(dataset: PerformanceDataset, seed: int) -> tuple[PerformanceDataset, PerformanceDataset]:
    """Return 5 % of the instances of each collective, at least one, and the others."""
    rng = np.random.default_rng(seed)
    instances = dataset.frame[_INSTANCE].drop_duplicates().sort_values(_INSTANCE)
    chosen: set[tuple[object, ...]] = set()
    for _, rows in instances.groupby("collective"):
        drawn = rng.permutation(len(rows))[: max(1, round(_FEW * len(rows)))]
        chosen.update(rows.iloc[drawn].itertuples(index=False, name=None))
    keys = dataset.frame[_INSTANCE].itertuples(index=False, name=None)
    mask = dataset.frame["nodes"].map(lambda _: False)
    mask[:] = [key in chosen for key in keys]
    return dataset.where(mask), dataset.where(~mask)


def _log_gains(bundle: Bundle, dataset: PerformanceDataset) -> Numbers:
    """Return log(t_default / t_selected) on all instances with a measured default.

    Where a collective is not in the bundle the default is kept; a choice that was not measured
    counts as the default.
    """
    gains = []
    for collective, cells in cell_matrices(dataset).items():
        column = cells.default_column
        if column is None:
            continue
        tested = cells.rows(np.isfinite(cells.time_s[:, column]))
        if collective in bundle.collectives:
            gains.append(_log_gains_of(bundle, tested))
        else:
            gains.append(np.zeros(len(tested)))
    return np.concatenate(gains)


def _log_gains_of(bundle: Bundle, tested: CellMatrix) -> Numbers:
    selections = ModelSelector(bundle).select_many(tested.instances())
    columns = measured_columns(tested, [s.configuration for s in selections])
    selected_s = tested.time_s[np.arange(len(tested)), columns]
    return np.asarray(np.log(tested.time_s[:, tested.default_column] / selected_s))


def _report(transfer: str, what: str, log_gains: Numbers) -> None:
    slower = (log_gains < -np.log(_HARM)).mean()
    print(
        f"{transfer}: {what}: {np.exp(log_gains.mean()):.3f}x the default,"
        f" {slower:.1%} of {len(log_gains)} decisions more than 5 % slower",
        file=sys.stderr,
        flush=True,
    )
