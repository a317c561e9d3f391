"""The paper's figures of any dataset, and what guards cost and save."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.errors import DataError
from colltune.evaluation import ALL, LeaveNodesOut, evaluate_split
from colltune.evaluation.request import PaperLarge, paper_datasets
from colltune.evaluation.run import guard_effects
from colltune.plots.evaluations import algorithm_speedups, gain_and_harm, runtimes, speedups
from tests.models.machines import measured
from tests.refusals import refused

BCAST, ALLGATHER = Collective.BCAST, Collective.ALLGATHER
_SIZES = (8, 64, 512)


def _dataset(*cells: tuple[str, Shape, float], library: str = "openmpi") -> PerformanceDataset:
    """Return a dataset of (what of a configuration's id follows the library, shape, time)."""
    found = [
        Measurement(
            Instance(configuration.collective, shape, msize),
            configuration,
            "l",
            times_s=(time_s * msize,),
        )
        for text, shape, time_s in cells
        for configuration in [Configuration.parse(f"{library}.{text}")]
        for msize in _SIZES
    ]
    return PerformanceDataset.of(Context("m", library, "5"), found)


def test_parameters_of_one_algorithm_are_compared_with_the_linear_one() -> None:
    """The family is the algorithm with most parameter values; the shape the largest that has it."""
    large, small = Shape(4, 2), Shape(2, 2)
    data = _dataset(
        ("bcast.basic_linear", large, 8.0),
        ("bcast.basic_linear", small, 4.0),
        ("bcast.chain:segsize=1024", large, 2.0),
        ("bcast.chain:segsize=4096", large, 4.0),
        ("bcast.chain:segsize=1024", small, 1.0),
        ("bcast.binomial", large, 1.0),
        ("allgather.ring", large, 1.0),
    )
    found = speedups(data)
    assert (found.collective, found.shape, found.family) == (BCAST, large, "chain")
    assert found.reference.algorithm == "basic_linear"
    assert [c.parameter_text for c in found.configurations] == ["segsize=1024", "segsize=4096"]
    assert found.msize_bytes.tolist() == list(_SIZES)
    assert found.speedup == pytest.approx(np.array([[4.0, 2.0]] * 3))


def test_a_larger_shape_with_few_configurations_does_not_count() -> None:
    """A shape with less than three quarters of what the best known has would show little."""
    shapes = Shape(2, 1), Shape(8, 1)
    data = _dataset(
        *((f"bcast.chain:segsize={k}", shapes[0], 1.0) for k in (1, 2, 3)),
        ("bcast.linear", shapes[0], 2.0),
        ("bcast.linear", shapes[1], 2.0),
        ("bcast.chain:segsize=1", shapes[1], 1.0),
    )
    assert speedups(data).shape == shapes[0]


def test_algorithms_without_parameters_are_compared_with_each_other() -> None:
    """Without a linear algorithm the reference is the library's default."""
    shape = Shape(2, 1)
    data = _dataset(
        ("allgather.default", shape, 3.0),
        ("allgather.ring", shape, 1.0),
        ("allgather.bruck", shape, 6.0),
    )
    found = speedups(data, ALLGATHER)
    assert (found.family, found.reference.is_default) == (None, True)
    assert [c.algorithm for c in found.configurations] == ["bruck", "ring"]
    assert found.speedup[0].tolist() == pytest.approx([0.5, 3.0])


def test_one_configuration_alone_cannot_be_compared() -> None:
    """The error says what is missing, and which collectives there are."""
    data = _dataset(("bcast.default", Shape(2, 1), 1.0))
    with refused("one-configuration", DataError, collective="bcast"):
        speedups(data)
    with refused("unknown", DataError, name="allgather", known="bcast"):
        speedups(data, ALLGATHER)


def test_the_picture_has_a_line_per_configuration_and_takes_names_literally() -> None:
    """Dollar signs in names are no formulas; what was not measured leaves a gap."""
    shape = Shape(2, 1)
    data = _dataset(
        ("bcast.default", shape, 3.0), ("bcast.$a$", shape, 1.0), ("bcast.b", shape, 2.0)
    )
    figure = algorithm_speedups(speedups(data))
    (panel,) = figure.axes
    assert [len(np.asarray(line.get_xdata())) for line in panel.lines[:2]] == [3, 3]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [r"\$a\$", "b"]
    figure.canvas.draw()


def test_all_panels_of_figure_4_show_all_of_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The axes, which panels share, reach as far as the highest line of any of them."""
    # R takes seconds to start for each fold
    monkeypatch.setattr("colltune.models.learners.mgcv.available", lambda: False)
    data = measured(nodes=(2, 4, 8, 16, 32), ppn=(1, 8), collectives=(Collective.BCAST,))
    run = evaluate_split(data, PaperLarge(), learners=("knn",), jobs=1)
    (dataset,) = paper_datasets([(run, run)])
    figure = runtimes(dataset)
    panels = [panel for panel in figure.axes if panel.axison]
    highest = max(float(np.max(np.asarray(line.get_ydata()))) for p in panels for line in p.lines)
    assert len(panels) == 4
    assert {panel.get_ylim() for panel in panels} == {(0.93, 1.1 * highest)}
    assert sum(panel.axison for panel in runtimes(dataset, 3).axes) == 3


def test_the_same_models_decide_with_and_without_guard() -> None:
    """Both figures are those of separate evaluations, from one fit."""
    data = measured(nodes=(2, 3, 4, 6), ppn=(1, 2), collectives=(Collective.BCAST,))
    (effect,) = guard_effects(data, LeaveNodesOut(), learners=("knn",), noise=0.2, seed=3)
    for guard, found in ((True, effect.guarded), (False, effect.unguarded)):
        run = evaluate_split(
            data,
            LeaveNodesOut(),
            learners=("knn",),
            noise=0.2,
            seed=3,
            guard=guard,
            with_references=False,
        )
        alone = run.scores["knn"][ALL]
        together = found[ALL]
        assert (together.log_gain_share, together.slower_share, together.default_share) == (
            alone.log_gain_share,
            alone.slower_share,
            alone.default_share,
        )
    assert effect.guarded[ALL].default_share > effect.unguarded[ALL].default_share


def test_an_unknown_learner_is_refused() -> None:
    """The message names those that there are."""
    with refused("unknown", DataError, what="learner", name="nn"):
        guard_effects(measured(nodes=(2, 3, 4)), LeaveNodesOut(), learners=("nn",))


def test_points_lie_where_gain_and_harm_are() -> None:
    """A line leads from the decisions without guard to those with it, references stand alone."""
    data = measured(nodes=(2, 3, 4, 6), ppn=(1,), collectives=(Collective.BCAST,))
    effects = guard_effects(data, LeaveNodesOut(), learners=("knn",), noise=0.3)
    figure = gain_and_harm(effects, {"other": effects[0].unguarded}, "on $this$")
    (panel,) = figure.axes
    way, _, _, other, *_ = panel.lines
    scores = [effects[0].unguarded[ALL], effects[0].guarded[ALL]]
    assert np.asarray(way.get_xdata()).tolist() == [100 * s.slower_share for s in scores]
    assert np.asarray(way.get_ydata()).tolist() == [100 * (s.log_gain_share or 0) for s in scores]
    assert np.asarray(other.get_xdata()).tolist() == [100 * scores[0].slower_share]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["knn", "other"]
