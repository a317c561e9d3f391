"""`import colltune` costs nothing: it is in job scripts, and in programs that tune themselves."""

from __future__ import annotations

import sys
from pathlib import Path

from colltune import process
from tests.packaging.test_wheel import run_alone

LOADED = "before = set(sys.modules)\nimport {0}\nprint(*sorted(set(sys.modules) - before))"


def loaded(unpacked: Path, module: str) -> set[str]:
    """Return what an import loads beside what Python has loaded by itself."""
    outcome = run_alone(unpacked, LOADED.format(module))
    return set(process.check(outcome, f"import {module}").stdout.split())


def test_the_package_loads_itself_alone(unpacked: Path) -> None:
    """Not even a module of the standard library comes with it."""
    assert loaded(unpacked, "colltune") == {"colltune"}


def test_the_command_line_needs_no_more_than_typer(unpacked: Path) -> None:
    """Before a verb is called nothing is loaded that measures, learns, draws or serves."""
    found = loaded(unpacked, "colltune.cli.app")
    roots = {name.partition(".")[0] for name in found} - sys.stdlib_module_names
    assert "typer" in roots
    assert not roots & {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "matplotlib", "rich"}
