"""Learners fitted once, side by side."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import DataError
from colltune.models.cells import CellMatrix
from colltune.models.plain_fit import MEASURED, PlainFit, compared, curves

BCAST = Collective.BCAST
CONFIGURATIONS = tuple(
    sorted(
        (
            Configuration.default("openmpi", BCAST),
            Configuration("openmpi", BCAST, "chain", (("segsize", 1024),)),
        )
    )
)
SIZES = [0, 64, 1024, 65536, 1 << 20]


def _cells() -> CellMatrix:
    """Return times that grow with nodes and bytes; the default lacks one instance."""
    nodes = np.repeat([2, 4, 8, 16], len(SIZES))
    msize_bytes = np.tile(SIZES, 4)
    level = 1e-6 * np.sqrt(nodes) * (1 + msize_bytes / 4096)
    time_s = np.stack([level, 2 * level], axis=1)
    time_s[3, 1] = np.nan
    slow = np.zeros(time_s.shape, bool)
    return CellMatrix(BCAST, CONFIGURATIONS, nodes, np.ones_like(nodes), msize_bytes, time_s, slow)


def test_what_was_learned_is_predicted_near_what_was_measured() -> None:
    """Joint learners and those of single configurations alike, in the order of the cells."""
    cells = _cells()
    for learner in ("knn", "gam", "cost_model", "regret_trees"):
        fit = PlainFit.of(cells, learner)
        ratio = fit.time_s(cells.nodes, cells.ppn, cells.msize_bytes) / cells.time_s
        assert fit.configurations == CONFIGURATIONS
        assert ((np.nanmedian(ratio, axis=0) > 0.5) & (np.nanmedian(ratio, axis=0) < 2)).all()


def test_compared_has_a_row_for_each_learner_and_measured_cell() -> None:
    """What was not measured is left out; names have the parameters."""
    cells = _cells()
    fits = [PlainFit.of(cells, name) for name in ("knn", "gam")]
    table = compared(fits, cells)
    assert table.groupby("learner").size().to_dict() == {"gam": 39, "knn": 39}
    assert set(table["configuration"]) == {"chain segsize=1024", "default"}
    knn = table[(table["learner"] == "knn") & (table["configuration"] == "chain segsize=1024")]
    column = [c.is_default for c in CONFIGURATIONS].index(False)
    predicted_s = fits[0].time_s(cells.nodes, cells.ppn, cells.msize_bytes)[:, column]
    assert knn["measured_s"].tolist() == cells.time_s[:, column].tolist()
    assert knn["predicted_s"].tolist() == predicted_s.tolist()


def test_only_what_both_know_is_compared() -> None:
    """A configuration that was not learned has no prediction; if all are new it is an error."""
    cells = _cells()
    chain = PlainFit.of(cells.rows(np.arange(len(cells)) == 3), "knn")
    assert set(compared([chain], cells)["configuration"]) == {"chain segsize=1024"}
    tested = CellMatrix(
        BCAST,
        CONFIGURATIONS[1:],
        cells.nodes,
        cells.ppn,
        cells.msize_bytes,
        cells.time_s[:, 1:],
        cells.slow[:, 1:],
    )
    with pytest.raises(DataError, match="none of the configurations that knn was fitted to"):
        compared([chain], tested)


def test_curves_hold_measured_and_predicted_times_of_one_shape() -> None:
    """Predictions lie between the smallest and the largest size; an empty message counts as 1 B."""
    table = curves([PlainFit.of(_cells(), "knn")], _cells(), Shape(2, 1))
    measured = table[table["learner"] == MEASURED]
    assert measured.groupby("configuration")["msize_bytes"].apply(list).to_dict() == {
        "chain segsize=1024": SIZES,
        "default": [0, 64, 1024, 1 << 20],
    }
    knn = table[table["learner"] == "knn"]
    assert (knn["msize_bytes"].min(), knn["msize_bytes"].max()) == (1, 1 << 20)
    assert np.isfinite(table["time_s"]).all()


def test_an_unmeasured_shape_has_no_curves() -> None:
    """There is nothing to compare the learners with."""
    with pytest.raises(DataError, match="bcast was not measured on 3x1"):
        curves([], _cells(), Shape(3, 1))


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs Rscript (R)")
def test_r_fits_all_configurations_in_one_go() -> None:
    """mgcv meets times whose logarithm is a sum of one term for nodes and one for bytes."""
    cells = _cells()
    fit = PlainFit.of(cells, "mgcv")
    ratio = fit.time_s(cells.nodes, cells.ppn, cells.msize_bytes) / cells.time_s
    assert np.nanmax(np.abs(np.log(ratio))) < 0.02
