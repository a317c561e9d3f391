"""Outcomes as if they had been measured, for tests of what obeys them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from colltune.mpi import programs

Measured = Callable[[str], None]
OPENMPI = """
library = "openmpi"
release = "5.0.11"
processes = [2, 3, 4]
calls = 100

[bcast]
modes = ["layouts", "mixed_types"]
[bcast.algorithms]
chain = {}
"chain segmented" = { mixed_types = "wrong" }
binomial = {}
basic_linear = {}
"split_binary_tree segmented" = { layouts = "hangs" }
split_binary_tree = { mixed_types = "aborts", layouts = "hangs" }
"""
MPICH = """
library = "mpich"
release = "5.0.2"
processes = [2, 3, 4]
calls = 100

[allgather]
modes = ["layouts"]
[allgather.algorithms]
ring = {}
brucks = {}
recexch_doubling = { layouts = "wrong" }
"""

BITS = """
library = "openmpi"
release = "5.0.11"
processes = [2, 3, 4]
calls = 100

[allreduce]
modes = ["tidy", "ranks_agree"]
[allreduce.algorithms]
recursive_doubling = {}
ring = {}
rabenseifner = { ranks_agree = "wrong" }
segmented_ring = { ranks_agree = "wrong" }
"segmented_ring segmented" = { ranks_agree = "wrong" }
[allreduce.bits]
processes = [2, 3, 4]
bytes = 1048576
calls = 50
[[allreduce.bits.algorithms]]
of = ["recursive_doubling"]
differ = []
builtin = { "2 4" = "0-1048576", "3" = "0-2992 8192-65536" }
own = { "2" = "0-1048576", "4" = "0-4096" }
[[allreduce.bits.algorithms]]
of = ["segmented_ring:segsize=1024"]
differ = ["places"]
builtin = {}
own = {}
[[allreduce.bits.algorithms]]
of = ["rabenseifner", "ring"]
differ = ["ranks"]
builtin = { "4" = "0-1048576" }
own = { "4" = "0-1048576" }

[reduce]
modes = ["tidy"]
[reduce.algorithms]
linear = {}

[bcast]
modes = ["tidy"]
[bcast.algorithms]
chain = {}
"chain segmented" = {}
"""


def stored(text: str) -> str:
    """Return the file that says what `text` says more briefly, in TOML."""
    return json.dumps(tomllib.loads(text))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Return what makes the text of a file, and those before it, all that was measured."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setattr(programs, "FOLDER", folder)

    def add(text: str) -> None:
        found = programs.parse(stored(text), "text")
        file = folder / f"{found.library}-{found.release}.json"
        file.write_text(stored(text), encoding="utf-8")
        programs.releases.cache_clear()
        programs.of_release.cache_clear()
        programs._harms_of.cache_clear()
        programs._bits_of.cache_clear()

    return add
