"""Writing files whole, and one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from colltune.errors import OutputError
from colltune.files import insist_writable, locked, whole
from tests.refusals import refused


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Until the end readers see the old content, then the new; nothing else is left."""
    path = tmp_path / "new" / "file"
    with whole(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    with whole(path) as temporary:
        temporary.write_text("two")
        assert path.read_text() == "one"
    assert path.read_text() == "two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    """Whatever goes wrong while writing, the old content stays and no part of the new one does."""
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(TypeError), whole(path) as temporary, temporary.open("w") as stream:
        stream.writelines(["half", 1])  # type: ignore[list-item]
    with refused("cannot-write", OutputError, what=path), whole(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A parent that is a file is an error that names the path and the mend."""
    (tmp_path / "file").write_text("")
    with (
        refused("cannot-write", OutputError, what=tmp_path / "file" / "x"),
        whole(tmp_path / "file" / "x"),
    ):
        pass


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    """A pipe, as a device would, stays one, and nothing lies beside it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError), whole(pipe):
        pass
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_lock_lets_one_in_at_a_time(tmp_path: Path) -> None:
    """While one holds the lock nobody else gets it, and nothing is lost by waiting."""
    lock, inside, worst = tmp_path / "new" / "lock", [0], [0]

    def enter(_: int) -> None:
        with locked(lock):
            inside[0] += 1
            worst[0] = max(worst[0], inside[0])
            time.sleep(0.005)
            inside[0] -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(enter, range(8)))
    assert (inside, worst) == ([0], [1])


def test_without_locks_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file system has no locks, one writes at a time, and the other is told."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    lock = tmp_path / "lock"
    told = refused("cannot-write", OutputError, why="another process is at it")
    with locked(lock), told, locked(lock):
        pytest.fail("two were let in")
    with locked(lock):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["lock"]


def test_a_lock_that_cannot_be_made_is_an_output_error(tmp_path: Path) -> None:
    """A file in the place of the folder is named."""
    (tmp_path / "file").touch()
    with refused("cannot-write", OutputError), locked(tmp_path / "file" / "lock"):
        pass


def test_a_place_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    """Neither the folders above a new file nor anything else are made; an old file stays."""
    old = tmp_path / "old"
    old.write_text("content")
    for path, folder in ((tmp_path / "a" / "b", None), (old, False), (tmp_path, True)):
        insist_writable(path, folder=folder)
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "content"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Something of the other kind, or a path below a file, is refused with the reason."""
    file = tmp_path / "file"
    file.write_text("")
    for path, folder in ((file, True), (tmp_path, False), (file / "x", None)):
        with refused("cannot-write", OutputError, what=path):
            insist_writable(path, folder=folder)
    with refused("cannot-write", OutputError, what="/proc/1/x"):
        insist_writable(Path("/proc/1/x"))
