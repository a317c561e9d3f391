"""Who could change what is run or loaded."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.errors import OutputError, ProgramError
from colltune.files.ownership import danger, insist_preloadable, made_once, own_folder
from tests.refusals import refused

STRANGER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def made(folder: Path, mode: int = 0o755) -> Path:
    """Return `folder`, made with `mode`."""
    folder.mkdir(parents=True)
    folder.chmod(mode)
    return folder


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_a_folder_that_others_can_write_is_dangerous(entered: Path, mode: int) -> None:
    """By group or all, with the sticky bit or not: programs could be put there."""
    folder = made(entered / "cache", mode)
    assert danger(folder) == f"{folder} is writable by others (mode {mode:04o})"
    with refused("could-be-changed", OutputError, path=folder):
        own_folder(folder)


def test_a_folder_above_counts_unless_it_is_sticky(entered: Path) -> None:
    """Who can write a folder can put another one in the place of those that are in it."""
    inner = made(entered / "shared" / "cache", 0o700)
    for mode, is_safe in ((0o777, False), (0o775, False), (0o1777, True), (0o755, True)):
        inner.parent.chmod(mode)
        assert (danger(inner) == "") is is_safe
        assert (danger(inner / "..") == "") is (mode == 0o755)


def test_below_a_folder_that_nobody_enters_modes_do_not_matter(entered: Path) -> None:
    """A home folder of mode 0700 protects what a umask of 002 leaves open, but not along links."""
    home = made(entered / "home", 0o700)
    inner = made(home / "cache", 0o775)
    assert danger(inner) == ""
    elsewhere = made(entered / "elsewhere", 0o775)
    (home / "link").symlink_to(elsewhere)
    assert danger(home / "link").startswith(f"{elsewhere} is writable")
    assert danger(inner / ".." / ".." / "elsewhere").startswith(f"{elsewhere} is writable")


def test_folders_behind_links_count(entered: Path) -> None:
    """Both the folder of a link and where it leads must be ours; a circle is no path."""
    target = made(entered / "target")
    link = made(entered / "open", 0o777) / "link"
    link.symlink_to(target)
    assert danger(link).startswith(f"{link.parent} is writable")
    link.parent.chmod(0o755)
    assert danger(link) == ""
    target.chmod(0o777)
    assert danger(link).startswith(f"{target} is writable")
    (target / "circle").symlink_to("circle")
    target.chmod(0o755)
    assert "too many symbolic links" in danger(target / "circle")
    assert "cannot be inspected" in danger(target / "absent")


@as_root
def test_what_belongs_to_others_is_dangerous(entered: Path) -> None:
    """A file, its folder, one above, or a link of another user, also in a sticky folder."""
    file = made(entered / "a" / "b") / "file"
    file.touch(0o755)
    assert danger(file) == ""
    for part in (file, file.parent, file.parent.parent):
        os.chown(part, STRANGER, STRANGER)
        assert danger(file) == f"{part} belongs to uid {STRANGER}"
        assert danger(file, trusted=STRANGER) == ""
        os.chown(part, 0, 0)
    link = made(entered / "tmp", 0o1777) / "link"
    link.symlink_to(file)
    os.lchown(link, STRANGER, STRANGER)
    assert danger(link) == f"{link} belongs to uid {STRANGER}"


def test_folders_are_made_for_their_user_alone(entered: Path) -> None:
    """Also those above, whatever the umask."""
    old = os.umask(0o002)
    try:
        folder = own_folder(entered / "x" / "y" / "z")
    finally:
        os.umask(old)
    for part in (folder, *folder.parents[:2]):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700


def _writing(text: str) -> Callable[[Path], Path]:
    def make(work: Path) -> Path:
        assert stat.S_IMODE(work.stat().st_mode) == 0o700
        file = work / "made"
        file.write_text(text)
        return file

    return make


def test_what_is_there_is_kept_and_what_others_could_have_put_there_is_not(entered: Path) -> None:
    """A program is made once; one that others can write is made anew in its place."""
    program = made_once(entered / "cache", "program", _writing("first"))
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    made_once(entered / "cache", "program", _writing("second"))
    assert program.read_text() == "first"
    program.parent.chmod(0o755)
    program.chmod(0o777)
    made_once(entered / "cache", "program", _writing("third"))
    assert program.read_text() == "third"
    assert list(program.parent.iterdir()) == [program]


@as_root
def test_a_planted_program_is_replaced(entered: Path) -> None:
    """A file of another user in a folder of ours, from times when others could write it."""
    planted = made(entered / "cache") / "program"
    planted.write_text("planted")
    os.chown(planted, STRANGER, STRANGER)
    assert made_once(planted.parent, "program", _writing("own")).read_text() == "own"
    assert planted.stat().st_uid == 0


def test_a_program_that_cannot_be_made_leaves_nothing(entered: Path) -> None:
    """The compiler's error comes as it is, and no part of its work stays."""

    def fails(work: Path) -> Path:
        (work / "part").touch()
        raise ProgramError("no compiler")

    with pytest.raises(ProgramError, match="no compiler"):
        made_once(entered / "cache", "program", fails)
    assert list((entered / "cache").iterdir()) == []


def test_two_first_uses_at_once_do_no_harm(entered: Path) -> None:
    """Each finds a whole program."""

    def use(number: int) -> str:
        return made_once(entered / "cache", "program", _writing(f"{number}" * 999)).read_text()

    with ThreadPoolExecutor(8) as threads:
        assert {len(text) for text in threads.map(use, range(8))} == {999}


def test_a_folder_that_cannot_be_made_is_named(entered: Path) -> None:
    """A file in its place, or above it."""
    (entered / "file").touch()
    for folder in (entered / "file", entered / "file" / "cache"):
        with refused("cannot-write", OutputError):
            made_once(folder, "program", _writing(""))


def test_a_path_that_cannot_be_preloaded_is_refused(tmp_path: Path) -> None:
    """Blanks and colons separate the names in LD_PRELOAD."""
    assert insist_preloadable(tmp_path / "lib.so") == tmp_path / "lib.so"
    for name in ("a b/lib.so", "a:b/lib.so", "a\tb"):
        with refused("not-preloadable", OutputError):
            insist_preloadable(tmp_path / name)
