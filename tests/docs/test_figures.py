"""Figures that a page repeats are those of the page that they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def rows_of(page: str, heading: str) -> list[str]:
    """Return the cells after the first of each row of the table whose head begins so."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(line.split("|", 2)[2].strip())
    return rows


def test_the_guard_s_figures_are_those_of_selection() -> None:
    """What caution costs and buys is told the same in both explanations."""
    rows = rows_of("explanation/guard.md", "| split | caution 0")
    assert len(rows) == 6
    assert [
        r for r in rows if r not in rows_of("explanation/selection.md", "| split | no guard")
    ] == []


@pytest.mark.parametrize(
    ("page", "told", "source"),
    [
        ("../README.md", "it reaches .76 of", "| .760 [.58, .87], 4.0 %, 1.30 |"),
        ("howto/new-cluster.md", ".76\nand 4.0 % (Leonardo)", "| .760 [.58, .87], 4.0 %, 1.30 |"),
        ("howto/new-cluster.md", ".98 and 0.6 % (simulated)", "| .980 [.96, .99], .6 %, 1.09 |"),
        ("explanation/guard.md", ".477 with 17.2 % harm", "| .477, 17.2 % |"),
        ("explanation/trust.md", "6537 of 6537", "| 1.0 (6537 of 6537) |"),
        ("explanation/papers.md", "2.6 % of its cost", "| 0.026 |"),
    ],
)
def test_a_figure_is_the_measured_one(page: str, told: str, source: str) -> None:
    """Who changes a measured figure is told of the pages that repeat it."""
    assert told in (DOCS / page).read_text(encoding="utf-8")
    assert source in (DOCS / "benchmarks.md").read_text(encoding="utf-8")
