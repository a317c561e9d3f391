"""Every notebook runs from top to bottom on recorded data, in a real kernel, and draws figures."""

from __future__ import annotations

import ast
import asyncio
import base64
import copy
import io
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.image import imread
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.small_datasets import KINDS

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ARTIFACTS = "COLLTUNE_TEST_ARTIFACTS"
_TIMEOUT_S = 180
_KERNEL = "tested"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
_WITH_NODE_COUNTS = (
    "ReproMPI, one configuration a launch",
    "summaries of one size",
    "one collective, no broadcast",
)
_LIBRARIES = {"colltune", "matplotlib", "numpy", "pandas", "IPython"}
# figures that were shown are still among the kernel's results; a panel may say why it is empty
_DRAWN = """
assert _shown, "no cell ends with a figure"
"""
_CHECK = """
from matplotlib.figure import Figure as _Figure
_shown = [result for result in Out.values() if isinstance(result, _Figure)]
for _figure in _shown:
    for _panel in _figure.axes:
        assert _panel.has_data() or _panel.texts or not _panel.axison, "an empty panel"
"""

# the functions of nbformat and IPython have no types
_read: Callable[..., Any] = nbformat.read
_write: Callable[..., Any] = nbformat.write
_new_cell: Callable[..., Any] = nbformat.v4.new_code_cell
_shell: Callable[..., Any] = InteractiveShell.instance

notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name a kernel that is this interpreter; nothing of the user's Jupyter is touched."""
    for name in ("CONFIG_DIR", "CONFIG_PATH", "DATA_DIR", "PATH", "RUNTIME_DIR"):
        monkeypatch.setenv(f"JUPYTER_{name}", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("COLLTUNE_DATA", raising=False)
    folder = tmp_path / "jupyter" / "kernels" / _KERNEL
    folder.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "the interpreter that runs the tests",
        "language": "python",
        # the other half of the tests has the other core
        "env": dict.fromkeys(_THREADS, "1") | {"MPLBACKEND": ""},
    }
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return _KERNEL


def _kept(path: Path, notebook: Any) -> None:
    """Keep the executed notebook where CI collects what tests made."""
    if os.environ.get(ARTIFACTS):
        folder = Path(os.environ[ARTIFACTS]) / "notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        _write(notebook, folder / path.name)


def _executed(path: Path, kernel: str) -> Any:
    notebook = _read(path, as_version=4)
    notebook.cells.append(_new_cell(_CHECK + _DRAWN))
    client = NotebookClient(
        notebook,
        kernel_name=kernel,
        timeout=_TIMEOUT_S,
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        asyncio.run(client.async_execute())
    except CellExecutionError as error:
        pytest.fail(str(error))
    finally:
        shown = copy.copy(notebook)
        shown.cells = notebook.cells[:-1]
        _kept(path, shown)
    return shown


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@notebooks
def test_runs_and_draws(path: Path, kernel: str) -> None:
    """All cells run, in order, without a warning, and what they draw is not blank."""
    outputs = [out for cell in _code(_executed(path, kernel)) for out in cell.outputs]
    assert [out.text for out in outputs if out.get("name") == "stderr"] == []
    images = [out.data["image/png"] for out in outputs if "image/png" in out.get("data", {})]
    assert images
    for image in images:
        pixels = imread(io.BytesIO(base64.b64decode(image)), format="png")
        assert min(pixels.shape[:2]) > 100
        assert len({tuple(pixel) for pixel in pixels[::3, ::3].reshape(-1, pixels.shape[2])}) > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@notebooks
def test_runs_on_any_data(
    path: Path,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All cells run without a warning on every kind of data, and no panel is empty."""
    if path.stem[:2] == "03" and kind not in _WITH_NODE_COUNTS:
        pytest.skip("it says that this cannot be shown, and goes on with the recorded data")
    monkeypatch.setenv("COLLTUNE_DATA", str(KINDS[kind].write(tmp_path / "data")))
    monkeypatch.chdir(path.parent)
    # as a kernel does, but without a start and imports of its own
    shell = _shell()
    shell.reset()
    cells = (re.sub(r"(?m)^%.*", "", cell.source) for cell in _code(_read(path, as_version=4)))
    for source in (*cells, _CHECK):
        shell.run_cell(source, store_history=True).raise_error()
    assert capsys.readouterr().err == ""


@notebooks
def test_is_kept_without_results(path: Path) -> None:
    """A notebook in the repository has neither results nor counters, and lasting names of cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(notebook)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert [name for name in ids if not re.fullmatch(r"[a-z][a-z0-9-]*", name)] == []
    assert len(set(ids)) == len(ids)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


@notebooks
def test_defines_nothing(path: Path) -> None:
    """What a notebook computes is in colltune; it imports it, and little else."""
    sources = ["".join(cell.source) for cell in _code(_read(path, as_version=4))]
    lines = [line for source in sources for line in source.splitlines() if line[:1] != "%"]
    nodes = list(ast.walk(ast.parse("\n".join(lines))))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    assert [ast.unparse(node) for node in nodes if isinstance(node, definitions)] == []
    imported = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    imported |= {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module is not None}
    packages = {name.partition(".")[0] for name in imported}
    assert "colltune" in packages
    assert packages - _LIBRARIES <= sys.stdlib_module_names


def test_numbered() -> None:
    """The notebooks are numbered from 01 on without a gap, and the page beside them names each."""
    assert [path.name[:3] for path in NOTEBOOKS] == [f"{n + 1:02d}_" for n in range(len(NOTEBOOKS))]
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS if f"({path.name})" not in page] == []
