"""Workers count together in files whose room is taken before it is written to."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from colltune.errors import OutputError
from colltune.server import metrics
from colltune.server.metrics import folder_to_count_in, reserve
from tests.refusals import refused


def test_the_room_of_a_worker_is_taken_at_once(tmp_path: Path) -> None:
    """Its files are no holes, which a full disk could not fill any more."""
    reserve(tmp_path)
    files = {file.name: file.stat() for file in tmp_path.iterdir()}
    assert set(files) == {f"counter_{os.getpid()}.db", f"histogram_{os.getpid()}.db"}
    for status in files.values():
        assert status.st_size >= 1 << 18
        assert status.st_blocks * 512 >= status.st_size


def test_a_full_disk_is_not_counted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room among temporary files memory is taken, and nothing is left of the attempt."""
    full, memory = tmp_path / "full", tmp_path / "memory"
    for folder in (full, memory):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(full))
    monkeypatch.setattr(metrics, "_IN_MEMORY", str(memory))
    allocate = os.posix_fallocate

    def refuse(descriptor: int, offset: int, size: int) -> None:
        if str(full) in os.readlink(f"/proc/self/fd/{descriptor}"):  # noqa: PTH115
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with folder_to_count_in(2) as folder:
        assert folder.parent == memory
        assert list(full.iterdir()) == []
    assert list(memory.iterdir()) == []
    monkeypatch.setattr(metrics, "_IN_MEMORY", str(full))
    full_disk = refused("cannot-write", OutputError, why="No space left on device")
    with full_disk, folder_to_count_in(2):
        pass
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    missing = refused("cannot-write", OutputError, why="No such file or directory")
    with missing, folder_to_count_in(2):
        pass


def test_what_a_killed_service_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one removes it, but neither a folder in use nor what is not of its kind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, strange = tmp_path / "colltune-metrics-left", tmp_path / "colltune-metrics-strange"
    left.mkdir()
    (left / "lock").touch()
    reserve(left)
    strange.mkdir()
    (strange / "kept").touch()
    with folder_to_count_in(1) as first, folder_to_count_in(1) as second:
        assert set(tmp_path.iterdir()) == {first, second, strange}
    assert set(tmp_path.iterdir()) == {strange}
