"""`colltune verify` for a real MPI."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colltune import process
from tests.integration.real import Real

COLLTUNE = Path(sys.executable).with_name("colltune")


def verified(
    mpi: Real,
    rules: Path,
    *options: str,
    launcher: Sequence[object] = (),
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> tuple[int, Any, str]:
    """Run the verb, by mpirun with 4 processes if not told otherwise.

    Returns status, what it printed as JSON, and its messages.
    """
    line = launcher or (mpi.installation.mpirun, *mpi.crowded, "-n", "4")
    work = ("--work", mpi.folder / "work", "--json")
    command = (*before, COLLTUNE, "verify", rules, *work, *options, "--", *line)
    done = process.run([*map(str, command)], timeout_s=240.0, env=mpi.environment(env))
    assert "Traceback" not in done.stderr
    assert done.returncode is not None, done.explain()
    return done.returncode, json.loads(done.stdout or "null"), done.stderr
