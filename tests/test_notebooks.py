"""Every notebook runs from top to bottom on recorded data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
_CHECK = """
import matplotlib.pyplot as plt
figures = [plt.figure(number) for number in plt.get_fignums()]
assert figures, "the notebook draws nothing"
assert all(axes.has_data() for figure in figures for axes in figure.axes), "an empty figure"
"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs_and_draws(path: Path) -> None:
    """All cells run, in order, and no figure stays empty."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", code + _CHECK],
        cwd=path.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_kept_without_outputs_and_definitions(path: Path) -> None:
    """Notebooks import colltune and define nothing; their outputs are not kept."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        lines = "".join(cell["source"]).splitlines()
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert not [line for line in lines if line.startswith(("def ", "class "))]
