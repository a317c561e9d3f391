"""Pictures as files and in pages."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from matplotlib.figure import Figure

from colltune.plots.saving import inline_svg


def _figure() -> Figure:
    figure = Figure(figsize=(3, 2))
    panel = figure.subplots()
    panel.plot([1, 2], [1.23456789, 2], "o-", label="a < b")
    panel.set_title(r"1.23456 & \$x\$")
    figure.legend()
    return figure


def test_a_picture_in_a_page_is_closed_named_small_and_always_the_same() -> None:
    """It refers to nothing outside, its texts stay texts as they were, and it has its title."""
    text = inline_svg(_figure(), "<a> & b")
    assert text == inline_svg(_figure(), "<a> & b")
    assert "://" not in text
    assert "<style" not in text
    assert "\n" not in text
    root = ET.fromstring(text.replace("xlink:href", "href"))
    assert (root.tag, root.get("role")) == ("svg", "img")
    assert root.findtext("title") == "<a> & b"
    texts = ["".join(one.itertext()) for one in root.iter("text")]
    assert "1.23456 & $x$" in texts
    assert "a < b" in texts
    used = {one.get("href", "")[1:] for one in root.iter("use")}
    assert used <= {one.get("id") for one in root.iter()}
