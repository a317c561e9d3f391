"""Decision maps."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from colltune.dataset import PerformanceDataset
from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.plot_data.decisions import ALL, Pick
from colltune.plot_data.maps import Over, decided, measured
from colltune.plots import maps
from colltune.selector.argmin import ModelSelector
from tests.plots.conftest import LARGE, NODES, SIZES, measurements
from tests.plots.drawn import areas, every_line, labels, legends, panels
from tests.refusals import refused

BCAST = Pick((Collective.BCAST,))


def _measured(dataset: PerformanceDataset, pick: Pick = ALL) -> Figure:
    return maps.draw(measured(dataset, pick))


def _decided(
    bundle: Bundle,
    pick: Pick = ALL,
    dataset: PerformanceDataset | None = None,
    over: Over | None = None,
) -> Figure:
    return maps.draw(decided(ModelSelector(bundle), pick, dataset, over=over))


def test_what_was_measured_fastest(dataset: PerformanceDataset) -> None:
    """A dataset's map has a row per node count and boxes of winners that meet between sizes."""
    figure = _measured(dataset, pick=BCAST)
    (shown,) = panels(figure)
    assert shown.get_title() == "MPI_Bcast"
    boxes = areas(shown)
    assert set(boxes) == {"binomial", "chain"}
    middle = np.sqrt(LARGE * 4096)
    assert len(boxes["binomial"].corners) == len(boxes["chain"].corners) == 2 * len(NODES)
    assert boxes["binomial"].every[:, 0].max() == pytest.approx(middle)
    assert boxes["chain"].every[:, 0].min() == pytest.approx(middle)
    assert shown.get_xscale() == "log"
    assert [t.get_text() for t in shown.get_yticklabels()] == [
        f"{n} x {p}" for p in (1, 4) for n in NODES
    ]
    assert shown.get_ylabel() == "nodes x ppn"
    assert labels(shown, "x") == ["32 B", "1 KiB", "32 KiB"]


def test_the_most_chosen_is_first_and_each_has_its_colour(dataset: PerformanceDataset) -> None:
    """The legend is ordered by use, and a name has the same colour in all panels of all kinds."""
    figure = _measured(dataset)
    assert legends(figure) == [["binomial", "chain"]] * 2
    colours = {(name, one.colour) for p in panels(figure) for name, one in areas(p).items()}
    assert len(colours) == 2


def test_the_default_within_the_noise() -> None:
    """What is faster than the default by less than launches differ is marked as near it."""
    shapes = [Shape(n, 1) for n in NODES]
    noisy = measurements((Collective.BCAST,), shapes, launches=(0.4, 1.0, 2.5, 0.5, 2.0))
    frame = noisy.frame
    shuffled = frame["algorithm"].eq("default")
    frame.loc[shuffled, "time_s"] = frame.loc[shuffled, "time_s"].to_numpy()[::-1]
    found = measured(noisy)
    fields = list(found.maps[0].fields)
    assert any(field.near_default for field in fields)
    figure = maps.draw(found)
    assert "default as fast, within noise or 2 %" in areas(panels(figure)[0])
    assert legends(figure)[-1] == ["default as fast, within noise or 2 %"]


def test_decisions_of_a_bundle(bundle: Bundle) -> None:
    """A bundle's map is paler outside what was measured, which a line goes around."""
    figure = _decided(bundle, pick=BCAST)
    boxes = areas(panels(figure)[0])
    assert {"binomial", "chain", "measured"} < set(boxes)
    outside = [name for name in boxes if name.endswith("(outside)")]
    assert outside
    line = boxes["measured"].every
    assert line[:, 0].min() <= SIZES[0] <= 2 * line[:, 0].min()
    colours = {t.get_text(): t.get_color() for t in panels(figure)[0].get_yticklabels()}
    assert (colours["16 x 1"], colours["32 x 1"]) == ("black", "0.55")


def test_shapes_that_were_not_measured(bundle: Bundle) -> None:
    """Shapes that are asked for are drawn whether they were measured or not."""
    pick = Pick((Collective.BCAST,), shapes=(Shape(16, 4), Shape(12, 3)))
    figure = _decided(bundle, pick=pick, over=Over.PROCESSES)
    (panel,) = panels(figure)
    assert [t.get_text() for t in panel.get_yticklabels()] == ["36 = 12x3", "64 = 16x4"]


def test_measurements_on_top(bundle: Bundle, dataset: PerformanceDataset) -> None:
    """With a dataset each of its instances becomes a point in the colour of the fastest."""
    figure = _decided(bundle, pick=BCAST, dataset=dataset)
    panel = panels(figure)[0]
    points = [point for _, point in every_line(panel)]
    assert len(points) == 2 * len(NODES) * len(SIZES)
    boxes = areas(panel)
    assert {p.colour for p in points if p.x[0] <= LARGE} == {boxes["binomial"].colour}
    assert {p.colour for p in points if p.x[0] > LARGE} == {boxes["chain"].colour}


def test_without_guard(bundle: Bundle) -> None:
    """Without guard the map says so, and nothing but the fastest is taken where any may be."""
    found = decided(ModelSelector(bundle, guard=False), BCAST)
    assert "without guard" in found.subject
    guarded = decided(ModelSelector(bundle), BCAST)
    kept = [f.configuration.is_default for f in found.maps[0].fields]
    assert sum(kept) < sum(f.configuration.is_default for f in guarded.maps[0].fields)


def test_14_collectives_and_50_shapes_have_room() -> None:
    """The number of panels and rows is bounded, and the title says what is left out."""
    shapes = [Shape(2 + n, p) for n in range(25) for p in (1, 2)]
    many = measurements(tuple(Collective), shapes, sizes=(8, 4096), launches=(1.0,))
    found = measured(many)
    figure = maps.draw(found)
    assert len(panels(figure)) == len(Collective)
    assert all(one.shapes_left_out == 25 for one in found.maps)
    title = figure.get_suptitle()
    assert "not shown: 25 of 50 shapes of each collective" in title


def test_one_shape() -> None:
    """One shape and one size make a map."""
    one = measurements((Collective.BCAST,), [Shape(1, 2)], sizes=(0,), launches=(1.0,))
    (panel,) = panels(_measured(one))
    assert [t.get_text() for t in panel.get_yticklabels()] == ["1"]
    low, high = panel.get_xlim()
    assert 0 < low < high
    assert labels(panel, "x") == ["0"]


def test_many_algorithms_share_a_look() -> None:
    """The rarer ones of more algorithms than can be told apart are one entry of the legend."""
    parts = [
        measurements(
            (Collective.BCAST,),
            [Shape(2 + k, 1)],
            sizes=(8,),
            launches=(1.0,),
            names=("default", f"tree_{k:02}", f"chain_{k:02}"),
        )
        for k in range(20)
    ]
    rows = [m for part in parts for m in part.measurements()]
    figure = _measured(PerformanceDataset.of(parts[0].context, rows))
    (legend,) = legends(figure)
    assert legend == [*(f"tree_{k:02}" for k in range(12)), "8 others"]
    styles = areas(panels(figure)[0])
    assert len(styles["other"].corners) == 8
    looks = {(one.colour, one.hatch) for one in styles.values()}
    assert len(looks) == 13


@pytest.mark.parametrize(
    ("pick", "code"),
    [
        (Pick((Collective.SCAN,)), "unknown name=scan"),
        (Pick((Collective.BCAST,), nodes=(5,)), "nothing-there"),
    ],
)
def test_what_was_not_measured(dataset: PerformanceDataset, pick: Pick, code: str) -> None:
    """A collective or shape that the data lack is an error that says what they have."""
    with refused(code, DataError):
        _measured(dataset, pick=pick)


def test_shapes_exclude_node_counts() -> None:
    """Shapes cannot be asked for together with node counts."""
    with refused("exclusive", DataError, one="shapes"):
        Pick(nodes=(2,), shapes=(Shape(2, 1),))


def test_no_bytes_lie_left_of_all_sizes() -> None:
    """An empty message has its place on the axis, and its label runs into no other."""
    two = measurements((Collective.BCAST,), [Shape(2, 1)], sizes=(0, 1, 2**20), launches=(1.0,))
    (panel,) = panels(_measured(two))
    assert labels(panel, "x") == ["0", "32 B", "1 KiB", "32 KiB", "1 MiB"]
    assert areas(panel)["binomial"].every[:, 0].min() < 1
