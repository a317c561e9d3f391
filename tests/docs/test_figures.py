"""Figures that a page repeats are those of the page that they come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from figures.__main__ import FIGURES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "told", "source"),
    [
        ("../README.md", "it reaches .79 of the possible", "| .794 [.70, .88], 1.5 %"),
        ("howto/new-cluster.md", ".79 and 1.5 % (real clusters)", "| .794 [.70, .88], 1.5 %"),
        ("howto/new-cluster.md", ".98 and 0.3 % (fat tree)", "| .981 [.96, 1.0], .3 % |"),
        ("explanation/trust.md", "6537 of 6537", "| 1.0 (6537 of 6537) |"),
        ("explanation/papers.md", "1.6 % of its cost", "| 0.016 |"),
    ],
)
def test_a_figure_is_the_measured_one(page: str, told: str, source: str) -> None:
    """Who changes a measured figure is told of the pages that repeat it."""
    assert told in (DOCS / page).read_text(encoding="utf-8")
    assert source in (DOCS / "benchmarks.md").read_text(encoding="utf-8")


def test_a_command_that_gives_a_figure_is_one() -> None:
    """Each name is one of ``make figure``, and each figure has its place in docs/benchmarks.md."""
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    named = re.compile(r"make (?:figure|bench) NAME=(\w+)")
    assert {name for text in texts.values() for name in named.findall(text)} <= {*FIGURES}
    assert {name for name in FIGURES if name not in texts["benchmarks.md"]} == set()
