"""The README keeps up with the command line."""

from __future__ import annotations

import re
from pathlib import Path

from colltune.cli.app import VERBS

ROOT = Path(__file__).parents[2]


def test_the_table_of_verbs_has_them_all() -> None:
    """No verb is forgotten, and none that is gone is told of."""
    rows = re.findall(r"^\| (`[^|]*`) \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`([a-z-]+)`", " ".join(rows))) == sorted(VERBS)
