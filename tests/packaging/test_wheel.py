"""The wheel that is built of this tree holds all of it and runs without it."""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from colltune import __version__, process
from tests.integration.real import installed
from tests.packaging.distributions import ROOT, members

SOURCES = ROOT / "src"
DATA = f"colltune-{__version__}.data"
# -I and -S keep the tree out: no PYTHONPATH, and no .pth file of an editable installation
ALONE = """
import sys
wheel, installed = sys.argv[1:3]
sys.argv = ["colltune", *sys.argv[3:]]
sys.path += [wheel, installed]
"""
IMPORT_ALL = """
import importlib, pkgutil, colltune
assert colltune.__file__.startswith(wheel), colltune.__file__
names = [m.name for m in pkgutil.walk_packages(colltune.__path__, "colltune.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""
COMMAND = "from colltune.cli import main; main()"


def run_alone(unpacked: Path, code: str, *words: str) -> process.ProcessResult:
    """Run `code` with the unpacked wheel and what it depends on, and nothing of this tree."""
    program = [sys.executable, "-B", "-I", "-S", "-c", ALONE + code]
    arguments = [str(unpacked), sysconfig.get_path("purelib"), *words]
    return process.run([*program, *arguments], cwd=unpacked, timeout_s=60)


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Modules, catalogues, C and R sources, hooks, pages and units are packed as they are here."""
    package = {f: f.relative_to(SOURCES) for f in (SOURCES / "colltune").rglob("*")}
    native = {
        f: Path("colltune/mpi/libcolltune/native") / f.relative_to(ROOT / "libcolltune")
        for folder in ("include", "src")
        for f in (ROOT / "libcolltune" / folder).iterdir()
    }
    here = {
        str(name): file.read_bytes()
        for file, name in (package | native).items()
        if file.is_file() and "__pycache__" not in file.parts
    }
    packed = {n: content for n, content in members(wheel).items() if n.startswith("colltune/")}
    assert packed == here
    assert {Path(name).suffix for name in here} >= {".py", ".c", ".h", ".R", ".toml", ".typed"}


def test_the_wheel_holds_nothing_beside_the_package(wheel: Path) -> None:
    """No test, benchmark or link of the tree is installed into everybody's environment."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        (info,) = tops - {"colltune", DATA}
        assert info.endswith(".dist-info")
        entries = archive.read(f"{info}/entry_points.txt").decode()
    assert "colltune = colltune.cli:main" in entries


def test_manual_pages_are_installed_where_man_looks(wheel: Path) -> None:
    """Those of the tree go to share/man/man1 beside the program, and nothing else goes there."""
    here = {
        f"{DATA}/data/share/man/man1/{file.name}" for file in (ROOT / "packaging" / "man").iterdir()
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith(f"{DATA}/")}
    assert packed == here
    assert here


def test_all_of_the_wheel_can_be_imported(unpacked: Path) -> None:
    """No module looks for something that is only in the tree, and none of them needs the tree."""
    outcome = process.check(run_alone(unpacked, IMPORT_ALL), "importing")
    assert int(outcome.stdout) == len(list((unpacked / "colltune").rglob("*.py"))) - 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--version"], "colltune "), (["--help"], "select"), (["catalog", "openmpi@5.0.8"], "bcast")],
)
def test_the_command_runs_from_the_wheel(unpacked: Path, words: list[str], expected: str) -> None:
    """The command line and the catalogues work where there is nothing but the wheel."""
    outcome = process.check(run_alone(unpacked, COMMAND, *words), " ".join(words))
    assert expected in outcome.stdout


def test_libcolltune_is_compiled_from_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    """Its sources come along, and its header where the reference says."""
    out = tmp_path / "libcolltune.so"
    words = ("app", "interpose", "--mpi", str(installed().mpirun), "--out", str(out))
    process.check(run_alone(unpacked, COMMAND, *words), "compiling libcolltune")
    assert out.read_bytes().startswith(b"\x7fELF")
    where = "from colltune.mpi.libcolltune import NATIVE; print(NATIVE / 'include')"
    folder = process.check(run_alone(unpacked, where), "asking for the headers").stdout.strip()
    assert Path(folder).is_relative_to(unpacked)
    assert (Path(folder) / "colltune_rules.h").is_file()
