"""The figures of a report as a whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from colltune.dataset import PerformanceDataset
from colltune.dataset.objective import Objective
from colltune.domain import Collective, Context, Instance, Measurement, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.report.figures import Sample, as_json, figures
from tests.models.machines import CONTEXT, configuration, measured

BOTH = (Collective.ALLREDUCE, Collective.BCAST)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of bcast."""
    return fit(measured(), "knn")


def test_data_of_another_context_are_refused(bundle: Bundle) -> None:
    """Measurements of another machine are never put beside a bundle's predictions."""
    other = replace(measured(), context=Context("other", "openmpi", "4.1.4"))
    with pytest.raises(DataError, match=r"other, openmpi 4\.1\.4, but the bundle"):
        figures(bundle, other)


def test_data_without_a_common_collective_are_refused(bundle: Bundle) -> None:
    """If no collective of the data has models there is nothing to show."""
    with pytest.raises(DataError, match=r"the data have allreduce.*nothing to compare"):
        figures(bundle, measured(collectives=(Collective.ALLREDUCE,)))


def test_collectives_without_models_are_named(bundle: Bundle) -> None:
    """A further collective of the data is told, and the known one shown."""
    found = figures(bundle, measured(collectives=BOTH))
    assert found.not_in_bundle == (Collective.ALLREDUCE,)
    assert [f.collective for f in found.collectives] == [Collective.BCAST]
    assert found.collectives[0].data is not None


def test_collectives_without_data_are_shown_without() -> None:
    """A collective that the data lack keeps its maps and has no measured figures."""
    found = figures(fit(measured(collectives=BOTH), "knn"), measured())
    allreduce, bcast = found.collectives
    assert allreduce.judged == ()
    assert not allreduce.curves[0].measured
    assert bcast.of(Sample.IN_SAMPLE) is not None


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
    judged = figures(fit(data, "knn", objective=objective), data).collectives[0].data
    assert judged is not None
    expected = 2e-6 if objective is Objective.MEDIAN else 4e-6
    assert judged.comparison.default_s.tolist() == pytest.approx([expected, expected])


def test_progress_counts_collectives_and_fits(bundle: Bundle) -> None:
    """One step per node count left out and per collective, the last one being the total."""
    told: list[tuple[int, int, str]] = []
    figures(bundle, measured(), held_out=True, jobs=1, progress=lambda *a: told.append(a))
    assert list(dict.fromkeys(done for done, _, _ in told)) == [*range(6)]
    assert {total for _, total, _ in told} == {5}
    assert told[0][2] == "bcast"


def test_figures_are_json(bundle: Bundle) -> None:
    """Everything survives JSON without NaN, and holds what the figures hold."""
    found = figures(bundle, measured(), held_out=True, jobs=1)
    told = json.loads(json.dumps(as_json(found), allow_nan=False))
    bcast = told["collectives"]["bcast"]
    assert told["bundle"]["id"] == bundle.id
    assert bcast["learner"] == "knn"
    assert {row["shape"] for row in bcast["gains"]} >= {"2x1", "16x4"}
    assert bcast["judged_on"] == "held_out"
    assert not any(curve["trained"] for curve in bcast["runtimes"])
    judged = found.collectives[0].data
    assert judged is not None
    assert bcast["data"]["decisions"]["speedup"] == judged.comparison.summary().speedup
    assert bcast["in_sample"] == bcast["data"]
    assert bcast["unseen"] is None
    assert bcast["held_out"]["calibration"][0]["nodes"] is None
    assert [row["nodes"] for row in bcast["held_out"]["calibration"][1:]] == [2, 4, 8, 16]


def test_learned_and_unseen_shapes_are_told_apart() -> None:
    """Figures on shapes that the bundle learned hold none of other shapes, nor the reverse."""
    found = figures(fit(measured(nodes=(2, 4)), "knn"), measured(nodes=(4, 8, 16)))
    unseen, learned = found.collectives[0].judged
    assert (unseen.sample, learned.sample) == (Sample.UNSEEN, Sample.IN_SAMPLE)
    assert set(unseen.comparison.nodes.tolist()) == {8, 16}
    assert set(unseen.errors.nodes.tolist()) == {8, 16}
    assert set(learned.comparison.nodes.tolist()) == {4}
    assert {curve.shape.nodes for curve in found.collectives[0].curves} == {8, 16}
    both = found.collectives[0].data
    assert both is not None
    assert len(both.comparison.nodes) == len(unseen.comparison.nodes) + len(
        learned.comparison.nodes
    )
