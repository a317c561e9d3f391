"""Pages are short enough to be read."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
MOST_WORDS = 1500
LONGER = {"benchmarks.md"}
"""Collections, which nobody reads from the beginning to the end."""


def test_pages_have_at_most_1500_words() -> None:
    """What is longer is two pages, or says too much; tables and examples count as well."""
    words = {
        str(page.relative_to(DOCS)): len(page.read_text(encoding="utf-8").split())
        for page in DOCS.rglob("*.md")
    }
    assert len(words) > 50
    assert {page for page, count in words.items() if count > MOST_WORDS} <= LONGER


def test_the_readme_fits_a_screen_or_two() -> None:
    """It tells what colltune does and shows it; everything else is one click away."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert len(readme.encode()) <= 5000
    assert readme.index("## Where to go") < 3000
