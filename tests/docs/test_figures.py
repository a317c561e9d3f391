"""Figures that a page repeats are those of the page that they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

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
