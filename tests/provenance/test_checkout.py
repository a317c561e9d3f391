"""The commit of colltune."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.provenance import job as checkout

_SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the package's folder in a checkout whose HEAD is on branch main."""
    folder = tmp_path / "checkout/src/colltune"
    folder.mkdir(parents=True)
    (tmp_path / "checkout/.git/refs/heads").mkdir(parents=True)
    (tmp_path / "checkout/.git/HEAD").write_text("ref: refs/heads/main\n")
    return folder


def test_loose_and_packed_references_are_followed(package: Path) -> None:
    """HEAD is followed to the branch's own file, else to the packed ones, else nothing is told."""
    git = package.parents[1] / ".git"
    assert checkout.commit(package) == ""
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{_SHA} refs/heads/main\n")
    assert checkout.commit(package) == _SHA
    (git / "refs/heads/main").write_text("f" * 40 + "\n")
    assert checkout.commit(package) == "f" * 40


def test_detached_head_and_garbage(package: Path) -> None:
    """A detached HEAD is the commit; anything else is not told."""
    head = package.parents[1] / ".git/HEAD"
    head.write_text(_SHA + "\n")
    assert checkout.commit(package) == _SHA
    head.write_text("not a commit\n")
    assert checkout.commit(package) == ""


def test_work_tree_is_followed_to_its_repository(package: Path, tmp_path: Path) -> None:
    """In a linked work tree the branch is found in the main repository."""
    main = package.parents[1] / ".git"
    (main / "refs/heads/other").write_text(_SHA + "\n")
    linked = main / "worktrees/w"
    linked.mkdir(parents=True)
    (linked / "HEAD").write_text("ref: refs/heads/other\n")
    (linked / "commondir").write_text("../..\n")
    work = tmp_path / "w/src/colltune"
    work.mkdir(parents=True)
    (tmp_path / "w/.git").write_text(f"gitdir: {linked}\n")
    assert checkout.commit(work) == _SHA


def test_a_strangers_repository_is_not_ours(package: Path) -> None:
    """A repository around an installed colltune is not the checkout of colltune."""
    (package.parents[1] / ".git/HEAD").write_text(_SHA + "\n")
    installed = package.parents[1] / ".venv/lib/site-packages/colltune"
    installed.mkdir(parents=True)
    assert checkout.commit(installed) == ""
