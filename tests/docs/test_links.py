"""Links within the documents lead somewhere; what looks for those that do not finds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs import links

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
]


def test_links_and_images_of_documents_and_notebooks_lead_somewhere() -> None:
    """As they lie in the repository, every file and every heading that is linked to is there."""
    assert len(DOCUMENTS) > 40
    assert links.broken(DOCUMENTS, ROOT) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[a](missing.md)", "missing.md: there is no such file"),
        ("![a](missing.png)", "missing.png: there is no such file"),
        ('<img src="missing.png">', "missing.png: there is no such file"),
        ("[a](#nowhere)", "#nowhere: there is no #nowhere"),
        ("[a](other.md#nowhere)", "other.md#nowhere: there is no #nowhere"),
        ("[a][b]\n\n[b]: missing.md", "missing.md: there is no such file"),
        ("[a](/etc/passwd)", "/etc/passwd: leads to a place of this machine"),
        ("[a](../outside.md)", "../outside.md: leads out of the pages"),
    ],
)
def test_what_leads_nowhere_is_found(tmp_path: Path, text: str, why: str) -> None:
    """A missing file, image or heading, and a place outside the repository, are told."""
    root = tmp_path / "pages"
    root.mkdir()
    (tmp_path / "outside.md").write_text("")
    (root / "other.md").write_text("# There")
    page = root / "page.md"
    page.write_text(text)
    assert links.broken([page], root) == [f"page.md: {why}"]


@pytest.mark.parametrize(
    "text",
    [
        "[a](other.md#two-words---code)",
        "[a](other.md#there-1)",
        "[a](https://example.org/missing)",
        "```\n[a](missing.md)\n```",
        "# Here\n\n[a](#here)",
    ],
)
def test_what_leads_somewhere_is_not_complained_of(tmp_path: Path, text: str) -> None:
    """Headings are named as code-hosting sites do; other sites and code are left alone."""
    (tmp_path / "other.md").write_text("# Two words: `--code`\n\n## There\n\n## There\n")
    page = tmp_path / "page.md"
    page.write_text(text)
    assert links.broken([page], tmp_path) == []


def test_notebooks_are_read_too(tmp_path: Path) -> None:
    """A link in a notebook's text that leads nowhere is found; its code is no text."""
    cells = [
        {"cell_type": "markdown", "source": ["[a](missing", ".md)"]},
        {"cell_type": "code", "source": ["[b](missing.py)"]},
    ]
    notebook = tmp_path / "book.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    assert links.broken([notebook], tmp_path) == ["book.ipynb: missing.md: there is no such file"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example.org/a.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//fonts.example.org/a.css">'),
        ("a.html", '<img src="http://example.org/a.png">'),
        ("a.css", '@import "https://fonts.example.org/a.css";'),
        ("a.css", "@font-face { src: url(https://fonts.example.org/a.woff2) }"),
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path, name: str, text: str) -> None:
    """Scripts, styles, pictures and fonts of other hosts are told; links to them are no matter."""
    (tmp_path / name).write_text(text)
    (tmp_path / "b.html").write_text('<a href="https://example.org">b</a><img src="data:,">')
    assert len(links.external_resources(tmp_path)) == 1
