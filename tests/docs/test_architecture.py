"""The page on the architecture names the rooms as they are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
ROOMS = PAGE.partition("## Rooms")[2].partition("## Words")[0]
PACKAGE = ROOT / "src" / "colltune"


def test_every_room_is_told_and_its_first_file_is_there() -> None:
    """Folders and modules of the package stand in the table, and each file to read first exists."""
    rows = re.findall(r"^\| (`[^|]*`) \|[^|]*\| (?:`(.*)`)? ?\|$", ROOMS, re.M)
    told = {name: first for names, first in rows for name in re.findall(r"`(\w+)`", names)}
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert found - {"__init__", "__pycache__"} <= set(told)
    assert not [
        name for name, first in told.items() if first and not (PACKAGE / name / first).is_file()
    ]
