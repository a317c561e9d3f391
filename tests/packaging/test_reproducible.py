"""Whoever builds it, wherever and whenever, gets the same bytes."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from tests.packaging.distributions import ROOT, build, members

ELSEWHERE = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "USER": "somebody"}
BUILT_AT = ("1700000000", "1234567890")


@pytest.fixture(scope="module")
def released(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the sdist in a place of another name, for nobody else's eyes, today; return it."""
    folder = tmp_path_factory.mktemp("à part")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    for file in tree.rglob("*"):
        if file.is_symlink():
            continue
        os.utime(file)
        file.chmod(file.stat().st_mode & 0o700)
    return tree


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_release_builds_itself(
    kind: str, released: Path, wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    """From the sdist, under another path, umask, time, locale and seed, come the same bytes."""
    again = build(kind, tmp_path / "out", tree=released, umask="077", variables=ELSEWHERE)
    ours = {"wheel": wheel, "sdist": sdist}[kind]
    assert again.name == ours.name
    assert members(again) == members(ours)
    assert again.read_bytes() == ours.read_bytes()


def test_a_build_has_the_date_that_it_is_told(released: Path, tmp_path: Path) -> None:
    """SOURCE_DATE_EPOCH is the only clock: the same one, the same bytes; another one, others."""
    first, last = BUILT_AT
    built = [
        build("wheel", tmp_path / name, tree=released, variables={"SOURCE_DATE_EPOCH": when})
        for name, when in (("a", first), ("b", first), ("c", last))
    ]
    assert built[0].read_bytes() == built[1].read_bytes() != built[2].read_bytes()
    assert members(built[0]) == members(built[2])


def test_nothing_tells_where_it_was_built(wheel: Path, sdist: Path) -> None:
    """No file of either has the path of the tree, of this Python, or of the home folder."""
    places = [str(ROOT).encode(), sys.prefix.encode(), f"{Path.home()}/".encode()]
    for file in (wheel, sdist):
        for name, content in members(file).items():
            assert not [place for place in places if place in content], name


def test_what_lies_about_stays_out(released: Path, sdist: Path, tmp_path: Path) -> None:
    """Compiled modules, results, keys and links in the folder get into neither of them."""
    littered = tmp_path / "littered"
    shutil.copytree(released, littered, symlinks=True)
    for name in ("id_rsa", "tuned/openmpi.rules", "src/colltune/__pycache__/x.cpython-311.pyc"):
        file = littered / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("not for others")
    (littered / "models").symlink_to("src/colltune/models")
    assert members(build("sdist", tmp_path / "s", tree=littered)) == members(sdist)
