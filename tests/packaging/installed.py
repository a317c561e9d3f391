"""The wheel, installed as a user does it: into an environment that has nothing but Python."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from sbom.bill import LOCK

from colltune import process

_NO_INDEX = re.compile(
    r"[Nn]etwork was disabled|Failed to fetch|error sending request|[Rr]equest failed after|"
    r"dns error|Connection refused|timed out"
)


@dataclass(frozen=True)
class Environment:
    """A Python environment; programs of it are run elsewhere, without a compiler in reach."""

    folder: Path
    elsewhere: Path

    @property
    def packages(self) -> dict[str, str]:
        """The versions of what is installed, by normal names."""
        found = {}
        for one in self.folder.glob("lib/python3*/site-packages/*.dist-info"):
            name, _, version = one.stem.rpartition("-")
            found[re.sub(r"[-_.]+", "-", name).lower()] = version
        return found

    def colltune(self, *words: object) -> process.ProcessResult:
        """Run colltune with an empty PATH."""
        nowhere = self.elsewhere / "nothing"
        nowhere.mkdir(exist_ok=True)
        home = self.elsewhere / "home"
        environment = {"PATH": str(nowhere), "HOME": str(home), "LANG": "C.UTF-8"}
        command = [str(self.folder / "bin" / "colltune"), *map(str, words)]
        return process.run(command, env=environment, cwd=self.elsewhere, timeout_s=180)


def install(wheel: Path, folder: Path, variables: Mapping[str, str] | None = None) -> Path:
    """Make an environment and install the wheel with the locked versions of what it needs.

    The test is skipped, with what the installer says, where no package index can be reached.
    """
    made = process.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], timeout_s=60)
    process.check(made, "python -m venv")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    assert uv is not None
    outcome = process.run(
        [uv, "pip", "install", "--python", str(folder), "--constraint", str(LOCK), str(wheel)],
        env={**os.environ, **(variables or {})},
        timeout_s=300,
    )
    if not outcome.ok and _NO_INDEX.search(outcome.stderr):
        last = re.sub(r"\S+://\S+", "…", outcome.stderr).strip().splitlines()[-1]
        pytest.skip(f"no package index can be reached: {last}")
    process.check(outcome, "uv pip install")
    return folder
