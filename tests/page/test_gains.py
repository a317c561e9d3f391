"""What a bundle is said to gain, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from colltune.dataset import PerformanceDataset
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Context, Instance, Shape
from colltune.evidence.launches import Sums
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.mpi.programs import FOR_A_PROGRAM
from colltune.page.gains import (
    CollectiveGains,
    DecisionGains,
    GainRange,
    Standing,
    decision_gains,
    sketch,
)
from colltune.selector.argmin import ModelSelector, legal_selector
from tests.models.machines import NODES, PPN, configuration, measured

BCAST = Collective.BCAST
DEFAULT = Configuration.default("openmpi", BCAST)
WON = Confirmation(
    BCAST, Shape(4, 1), 0, None, Status.CONFIRMED, configuration("binomial"),
    configuration("binomial"), 1.5, 1.2, 2.0, 2, "2026-11-22T10:00:00+00:00",
)  # fmt: skip
LOST = replace(WON, status=Status.WITHDRAWN, configuration=DEFAULT, gain=0.9, lower=0.8, upper=1.0)
MUCH = replace(WON, first_bytes=0, last_bytes=64, gain=6.0, lower=5.0, upper=7.0)
LITTLE = replace(WON, first_bytes=65, last_bytes=4096)
ONE = ((configuration("binomial"), Sums(1, -0.1, 0.0, math.nan)),)
SINGLE = replace(LOST, first_bytes=4097, lower=None, upper=None, launches=1, sums=ONE)


def _fitted(data: PerformanceDataset) -> Bundle:
    return fit(data, "knn", jobs=1)


def _all(record: Confirmation) -> Bundle:
    """Return a bundle with `record` for every shape."""
    shapes = [Shape(n, p) for n in NODES for p in PPN]
    return _fitted(measured()).with_confirmations([replace(record, shape=s) for s in shapes])


def gains_of(bundle: Bundle) -> DecisionGains:
    """Return the gains of a bundle."""
    return decision_gains(legal_selector(bundle, FOR_A_PROGRAM), FOR_A_PROGRAM)


def ranges_of(found: CollectiveGains, shape: Shape) -> tuple[GainRange, ...]:
    """Return the ranges of a shape."""
    (of,) = [one for one in found.shapes if (one.nodes, one.ppn) == (shape.nodes, shape.ppn)]
    return of.ranges


@dataclass(frozen=True)
class Case:
    """A bundle, what stands in it, and how many cautions there are."""

    bundle: Callable[[], Bundle]
    standings: set[Standing]
    cautions: int
    faster: int = 0


PREDICTED, KEPT = Standing.PREDICTED, Standing.KEPT
CASES = {
    "nothing confirmed": Case(lambda: _fitted(measured()), {PREDICTED, KEPT}, 1),
    "everything confirmed": Case(lambda: _all(WON), {Standing.CONFIRMED}, 0, 8),
    "one shape confirmed": Case(
        lambda: _fitted(measured()).with_confirmations([WON]),
        {Standing.CONFIRMED, PREDICTED, KEPT},
        0,
        1,
    ),
    "everything withdrawn": Case(lambda: _all(LOST), {Standing.WITHDRAWN}, 0),
    "the default was not measured": Case(
        lambda: _fitted(measured(algorithms=("linear", "binomial"))), {Standing.UNKNOWN}, 2
    ),
    "the default alone": Case(lambda: _fitted(measured(algorithms=("default",))), {KEPT}, 1),
    "one node": Case(lambda: _fitted(measured(nodes=(1,), ppn=(4,))), {KEPT}, 2),
    "shared cores": Case(
        lambda: _fitted(
            replace(measured(), context=Context("k", "openmpi", "4.1.4", cores_shared="4 on 2"))
        ),
        {PREDICTED, KEPT},
        2,
    ),
    "another library": Case(
        lambda: _fitted(replace(measured(), context=Context("k", "fjmpi", "1.0", "tofu"))),
        {PREDICTED, KEPT},
        1,
    ),
    "no size but 0": Case(lambda: _fitted(measured(msizes=(0,))), {PREDICTED, KEPT}, 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_kind_of_bundle_says_how_sure_it_is(case: Case) -> None:
    """Standings, cautions and shares are those of the bundle, and the shares add up."""
    found = gains_of(case.bundle())
    (bcast,) = found.collectives
    seen = {one.standing for shape in bcast.shapes for one in shape.ranges}
    assert seen <= case.standings
    assert case.standings - {KEPT} <= seen
    assert len(found.cautions) == case.cautions
    summary = found.summary
    assert summary.faster_ranges == case.faster
    assert (summary.mean_gain is None) == (case.faster == 0)
    changed = summary.predicted_share + summary.unknown_share + summary.unchanged_share
    assert changed == pytest.approx(1) or Standing.CONFIRMED in seen
    assert "nan" not in found.sentence


def test_ranges_cover_every_size_once() -> None:
    """The ranges of each shape adjoin, from the first measured size to the last."""
    (bcast,) = gains_of(_fitted(measured())).collectives
    for shape in bcast.shapes:
        covered = [at for one in shape.ranges for at in range(one.first, one.last + 1)]
        assert covered == list(range(len(bcast.msize_bytes)))


def test_predicted_gains_are_those_of_the_selector() -> None:
    """At each size, with its bound; what keeps the default has no gain, not one of 1."""
    bundle = _fitted(measured())
    selector = ModelSelector(bundle)
    (bcast,) = gains_of(bundle).collectives
    for shape in bcast.shapes:
        for one in shape.ranges:
            assert (one.gain is None) == (one.standing is KEPT)
            assert one.upper is None
            for at, gain in enumerate(one.gains):
                size = bcast.msize_bytes[one.first + at]
                said = selector.select(Instance(BCAST, Shape(shape.nodes, shape.ppn), size))
                assert gain == pytest.approx(said.gain, rel=1e-3)
                assert one.bounds[at] == pytest.approx(said.gain_bound, rel=1e-3)


def test_measured_gains_come_with_their_own_intervals() -> None:
    """Each record is a range of its own; of a single launch there is no interval."""
    bundle = _fitted(measured()).with_confirmations([MUCH, LITTLE, SINGLE])
    found = gains_of(bundle)
    told = ranges_of(found.collectives[0], WON.shape)
    assert [(one.standing, one.gain, one.lower, one.upper) for one in told] == [
        (Standing.CONFIRMED, 6.0, 5.0, 7.0),
        (Standing.CONFIRMED, 1.5, 1.2, 2.0),
        (Standing.WITHDRAWN, 0.9, None, None),
    ]
    assert {one.name for one in told} == {"binomial"}
    assert found.summary.faster_ranges == 2
    assert found.summary.mean_gain == pytest.approx(math.sqrt(9.0))


def test_what_was_confirmed_beside_the_measurements_is_shown() -> None:
    """A shape and a size that no model learned have their place."""
    elsewhere = replace(WON, shape=Shape(6, 2), first_bytes=5000, last_bytes=6000)
    (bcast,) = gains_of(_fitted(measured()).with_confirmations([elsewhere])).collectives
    confirmed = [r for r in ranges_of(bcast, Shape(6, 2)) if r.standing is Standing.CONFIRMED]
    assert [5000 <= bcast.msize_bytes[one.first] <= 6000 for one in confirmed] == [True]


def test_confirmed_and_predicted_gains_share_no_number() -> None:
    """A confirmed shape no longer counts among what is only predicted."""
    bundle = _fitted(measured())
    before, after = gains_of(bundle), gains_of(bundle.with_confirmations([WON]))
    assert after.summary.predicted_share < before.summary.predicted_share


def test_a_sketch_has_a_mark_for_each_size() -> None:
    """Bars where it gains, the highest for the most; letters where it does not, or nobody knows."""
    bundle = _fitted(measured()).with_confirmations([MUCH, LITTLE, SINGLE])
    one = replace(gains_of(bundle).collectives[0], shapes=())
    shown = [s for s in gains_of(bundle).collectives[0].shapes if (s.nodes, s.ppn) == (4, 1)]
    found = replace(gains_of(bundle), collectives=(replace(one, shapes=tuple(shown)),))
    ((name, bars, told),) = sketch(found)
    assert name == "MPI_Bcast 4x1"
    assert len(bars) == len(one.msize_bytes)
    assert bars[0] == "█"
    assert bars[-1] == "x"
    assert "6.00" in told
    (unknown,) = sketch(gains_of(_fitted(measured(algorithms=("linear", "binomial")))))
    assert set(unknown[1]) == {"?"}
    (kept,) = sketch(gains_of(_fitted(measured(algorithms=("default",)))))
    assert (set(kept[1]), kept[2]) == ({"·"}, "")
