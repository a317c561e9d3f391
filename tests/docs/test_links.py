"""Links within the documents lead somewhere."""

from __future__ import annotations

from pathlib import Path

from tests.docs import links

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "libcolltune/README.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.ipynb")),
]


def test_links_and_images_of_documents_and_notebooks_lead_somewhere() -> None:
    """As they lie in the repository, every file and every heading that is linked to is there."""
    assert len(DOCUMENTS) > 40
    assert links.broken(DOCUMENTS, ROOT) == []
