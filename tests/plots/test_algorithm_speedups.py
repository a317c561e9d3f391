"""The paper's figure 2 of any dataset."""

from __future__ import annotations

import numpy as np
import pytest

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Configuration, Context, Instance, Measurement, Shape
from colltune.errors import DataError
from colltune.plots.algorithm_speedups import draw, speedups

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
    with pytest.raises(DataError, match="speed-ups need two"):
        speedups(data)
    with pytest.raises(DataError, match=r"allgather was not measured well .* only bcast"):
        speedups(data, ALLGATHER)


def test_the_picture_has_a_line_per_configuration_and_takes_names_literally() -> None:
    """Dollar signs in names are no formulas; what was not measured leaves a gap."""
    shape = Shape(2, 1)
    data = _dataset(
        ("bcast.default", shape, 3.0), ("bcast.$a$", shape, 1.0), ("bcast.b", shape, 2.0)
    )
    figure = draw(speedups(data))
    (panel,) = figure.axes
    assert [len(np.asarray(line.get_xdata())) for line in panel.lines[:2]] == [3, 3]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [r"\$a\$", "b"]
    figure.canvas.draw()
