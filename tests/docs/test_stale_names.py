"""Modules, classes and files that pages name are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "colltune"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "packaging").glob("*.md")]
PAGES.remove(ROOT / "CHANGELOG.md")  # it tells of what was
ROOMS = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
FILES = {
    f"/{path.relative_to(ROOT)}"
    for folder in ("src", "tests", "figures", "cluster", "docs", "packaging", "libcolltune")
    for path in (ROOT / folder).rglob("*.py")
}


def is_there(name: str) -> bool:
    """Tell whether a dotted name below colltune is a module, or something in one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        if (
            PACKAGE.parent.joinpath(*parts[:n])
        ).is_dir() or f"/src/{'/'.join(parts[:n])}.py" in FILES:
            found = importlib.import_module(".".join(parts[:n]))
            break
    for part in parts[n:]:
        if part in getattr(found, "__annotations__", {}):
            return True
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    """`colltune.room.module.Name` can be imported, and `room/module.py` is a file."""
    text = page.read_text(encoding="utf-8")
    names = {
        name
        for name in re.findall(r"\bcolltune(?:\.[A-Za-z_]\w*)+", text)
        if name.split(".")[1] in ROOMS
    }
    assert {name for name in names if not is_there(name)} == set()
    files = set(re.findall(r"`([\w./-]+\.py)`", text))
    missing = {file for file in files if not any(one.endswith(f"/{file}") for one in FILES)}
    assert missing == set()


def test_a_stale_name_is_found() -> None:
    """A name that is no more is told from one that is there."""
    assert is_there("colltune.domain.Shape.nprocs")
    assert not is_there("colltune.models.RuntimeModel")
    assert len(PAGES) > 50
