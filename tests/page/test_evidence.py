"""How good decisions are said to be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import Objective
from colltune.domain import Collective, Context, Instance, Measurement, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.page.evidence import CollectiveEvidence, Sample, SampleEvidence, decision_evidence
from tests.models.machines import CONTEXT, configuration, measured
from tests.refusals import refused

BOTH = (Collective.ALLREDUCE, Collective.BCAST)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of bcast."""
    return fit(measured(), "knn")


def sample_of(found: CollectiveEvidence, sample: Sample) -> SampleEvidence:
    """Return what is known of one kind of instances."""
    (one,) = [one for one in found.samples if one.sample is sample]
    return one


def test_data_of_another_context_are_refused(bundle: Bundle) -> None:
    """Measurements of another machine are never put beside a bundle's predictions."""
    other = replace(measured(), context=Context("other", "openmpi", "4.1.4"))
    with refused("data-of-another-context", DataError, context=other.context):
        decision_evidence(bundle, other)


def test_data_without_a_common_collective_are_refused(bundle: Bundle) -> None:
    """If no collective of the data has models there is nothing to show."""
    with refused("nothing-there", DataError):
        decision_evidence(bundle, measured(collectives=(Collective.ALLREDUCE,)))


def test_collectives_without_models_are_named(bundle: Bundle) -> None:
    """A further collective of the data is told, and the known one shown."""
    found = decision_evidence(bundle, measured(collectives=BOTH))
    assert found.not_in_bundle == ("MPI_Allreduce",)
    assert [one.name for one in found.collectives] == ["bcast"]
    assert found.data is not None
    assert found.data.rows == 384


def test_collectives_without_data_are_shown_without() -> None:
    """A collective that the data lack has no measured figures."""
    found = decision_evidence(fit(measured(collectives=BOTH), "knn"), measured())
    allreduce, bcast = found.collectives
    assert allreduce.samples == ()
    assert [one.sample for one in bcast.samples] == [Sample.IN_SAMPLE]


@pytest.mark.parametrize("objective", [Objective.MEDIAN, Objective.MEAN])
def test_the_statistic_that_was_learned_is_compared(objective: Objective) -> None:
    """Measured times are the bundle's objective of the repetitions."""
    times = (1e-6, 2e-6, 9e-6)
    cells = [
        Measurement(
            Instance(Collective.BCAST, Shape(n, 1), 8), configuration("default"), "one",
            times_s=times,
        )
        for n in (2, 4)
    ]  # fmt: skip
    data = PerformanceDataset.of(CONTEXT, cells)
    (found,) = decision_evidence(fit(data, "knn", objective=objective), data).collectives
    expected = 2e-6 if objective is Objective.MEDIAN else 4e-6
    shapes = sample_of(found, Sample.IN_SAMPLE).shapes
    assert [one.default_s for one in shapes] == [pytest.approx((expected,))] * 2


def test_progress_counts_collectives_and_fits(bundle: Bundle) -> None:
    """One step per node count left out and per collective, the last one being the total."""
    told: list[tuple[int, int, str]] = []
    decision_evidence(bundle, measured(), held_out=True, jobs=1, progress=lambda *a: told.append(a))
    assert list(dict.fromkeys(done for done, _, _ in told)) == [*range(6)]
    assert {total for _, total, _ in told} == {5}
    assert told[0][2] == "bcast"


def test_what_was_held_out_comes_first(bundle: Bundle) -> None:
    """Its times are told by shape and its intervals by node count, all of them first."""
    (found,) = decision_evidence(bundle, measured(), held_out=True, jobs=1).collectives
    assert [one.sample for one in found.samples] == [Sample.HELD_OUT, Sample.IN_SAMPLE]
    held_out = found.samples[0]
    assert [row.nodes for row in held_out.calibration] == [None, 2, 4, 8, 16]
    assert held_out.decisions.instances == 48
    assert {(one.nodes, one.ppn) for one in held_out.shapes} >= {(2, 1), (16, 4)}
    for one in held_out.shapes:
        assert list(one.msize_bytes) == sorted(one.msize_bytes)
        assert len(one.msize_bytes) == len(one.names) == len(one.best_s)


def test_learned_and_unseen_shapes_are_told_apart() -> None:
    """Figures on shapes that the bundle learned hold none of other shapes, nor the reverse."""
    learned = fit(measured(nodes=(2, 4)), "knn")
    (found,) = decision_evidence(learned, measured(nodes=(4, 8, 16))).collectives
    assert [one.sample for one in found.samples] == [Sample.UNSEEN, Sample.IN_SAMPLE]
    assert {one.nodes for one in sample_of(found, Sample.UNSEEN).shapes} == {8, 16}
    assert {one.nodes for one in sample_of(found, Sample.IN_SAMPLE).shapes} == {4}


def test_what_was_not_measured_is_not_a_time(bundle: Bundle) -> None:
    """Where the default is missing nothing is compared, and there is no gain."""
    data = measured(algorithms=("linear", "binomial"))
    (found,) = decision_evidence(bundle, data).collectives
    sample = sample_of(found, Sample.IN_SAMPLE)
    assert (sample.decisions.compared, sample.decisions.speedup) == (0, None)
    assert {time for one in sample.shapes for time in one.default_s} == {None}


def test_days_and_launches_are_told_as_far_as_they_are_named(bundle: Bundle) -> None:
    """Names that hold a date tell the day; rows without a name are no launch."""
    for name, launches, days in (
        ("2025_03_26___19_49_06/2", 1, ("2025-03-26",)),
        ("one", 1, ()),
        ("", 0, ()),
    ):
        data = measured()
        named = replace(data, frame=data.frame.assign(launch=name))
        told = decision_evidence(bundle, named).data
        assert told is not None
        assert (told.launches, told.days) == (launches, days)
