"""LLNL's mpiBench."""

from __future__ import annotations

import pytest

from colltune.dataset.importers.mpibench import parse
from colltune.dataset.importers.protocol import ParsedOutput, TimeKind
from colltune.domain import Collective
from colltune.errors import DataError
from tests.dataset.importers.samples import MPIBENCH, mpibench
from tests.refusals import refused


def _parsed(text: str) -> ParsedOutput:
    return parse(text.splitlines(keepends=True), "f")


def test_the_time_is_the_maximum_over_ranks() -> None:
    """Sizes and processes stand in the row; mean and minimum over ranks are kept."""
    found = _parsed(MPIBENCH)
    assert [(r.collective, r.msize_bytes, r.nprocs) for r in found.rows] == [
        (Collective.BARRIER, 0, 8),
        *((Collective.BCAST, size, 8) for size in (0, 8, 1024)),
    ]
    last = found.rows[-1].summary
    assert last is not None
    times = (last.time_s, last.time_rank_mean_s, last.time_rank_min_s)
    assert times == pytest.approx((5e-6, 4.5e-6, 4e-6))
    assert last.n_reps == 500
    assert found.rows[0].kind is TimeKind.MAXIMUM_OF_MEANS
    assert found.facts["version"] == "v1.5"


def test_what_is_no_collective_of_equal_counts_is_left_out() -> None:
    """Other collectives, uneven counts and parts of the processes, each with its reason."""
    row = (8, 10, 1.0, 1.0, 1.0)
    text = mpibench(("Allgatherv", *row), ("Alltoallv", *row), ("Gatherv", *row))
    found = _parsed(text + mpibench(("Bcast", *row), comm="CartDim-1of2"))
    assert found.rows == ()
    assert len(found.remarks) == 4
    assert any("Gatherv is a collective that colltune does not tune" in r for r in found.remarks)


def test_rows_that_are_cut_or_malformed_are_told() -> None:
    """The last line may be cut off; another one names its line."""
    cut = MPIBENCH.partition("Message")[0].rstrip("\n")
    assert len(_parsed(cut).rows) == 3
    assert len(_parsed(cut[:-30]).rows) == 3
    with refused("malformed-row", DataError, line=4):
        _parsed(MPIBENCH.replace("Avg:\t  0.6", "Avg:\t  x.6"))
    with refused("not-output", DataError):
        _parsed("START\n")
