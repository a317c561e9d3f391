"""The sdist has all that the tree has to build and to test with, and nothing else."""

from __future__ import annotations

import posixpath
import tarfile
from pathlib import Path

import pytest

from colltune import __version__, process
from tests.packaging.distributions import ROOT, members

# for this repository alone: its continuous integration, and links by which stages are found
LEFT_OUT = (".ci/run", "bench", "features", "models", "selector", "server")
MADE = {"PKG-INFO"}


def test_it_has_what_is_tracked(sdist: Path) -> None:
    """Every file under version control is in it, but for what a release has no use for."""
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is no checkout: what is tracked is not known")
    listed = process.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        timeout_s=60,
    )
    tracked = {name for name in process.check(listed, "git ls-files").stdout.split("\0") if name}
    here = {name for name in tracked if (ROOT / name).exists()}
    assert set(members(sdist)) - MADE == here - set(LEFT_OUT)


def test_its_files_are_those_of_the_tree(sdist: Path) -> None:
    """Each file, or what a link leads to, has the bytes that it has here."""
    for name, content in members(sdist).items():
        if name not in MADE:
            assert content == (ROOT / name).read_bytes(), name


def test_it_unpacks_into_one_folder(sdist: Path) -> None:
    """Files and links to them, nobody's, in a folder of the release's name, none outside it."""
    top = f"colltune-{__version__}/"
    with tarfile.open(sdist) as archive:
        names = set(archive.getnames())
        for member in archive.getmembers():
            assert member.name.startswith(top)
            assert ".." not in Path(member.name).parts
            if member.issym():
                assert (
                    posixpath.normpath(posixpath.join(member.name, "..", member.linkname)) in names
                )
                continue
            assert member.isfile()
            assert (member.uid, member.gid) == (0, 0)
            assert member.mode in (0o644, 0o755)
