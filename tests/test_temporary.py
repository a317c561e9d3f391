"""What killed writers leave, and that the next one removes it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colltune.files import temporary, whole
from colltune.files.temporary import ABANDONED_S, sweep, temporary_folder, temporary_name
from colltune.server.auth import token_file

_KILLED = """
import os, signal, sys
from pathlib import Path
from colltune.files import whole
from colltune.files.ownership import made_once
from colltune.server.auth import token_file
{before}
def killed(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
{act}
"""
_FILE = "with whole(folder / 'rules') as temporary: temporary.write_text('half'); killed()"
_TOKENS = "os.fsync = killed\ntoken_file.write(folder / 'tok', [])"
_PROGRAM = "def make(work): (work / 'half').touch(); killed()\nmade_once(folder, 'program', make)"
KILLED = {"a file": _FILE, "tokens": _TOKENS, "a program": _PROGRAM}


def kill_while(act: str, folder: Path) -> None:
    """Run `act` in a process that ends by SIGKILL in the middle of it."""
    text = _KILLED.format(before=f"folder = Path({str(folder)!r})", act=act)
    assert subprocess.run([sys.executable, "-c", text], timeout=60, check=False).returncode == -9


@pytest.mark.parametrize("act", KILLED.values(), ids=KILLED)
def test_the_next_writer_removes_what_a_killed_one_left(act: str, entered: Path) -> None:
    """Of any file in the folder; what a process that lives is writing stays."""
    kill_while(act, entered)
    assert len(list(entered.iterdir())) == 1
    living = temporary_name(entered / "mine")
    living.touch()
    with whole(entered / "other") as file:
        file.touch()
    assert {path.name for path in entered.iterdir()} == {living.name, "other"}


def test_what_another_boot_left_goes_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody here can tell whether a process of another host lives, but after a day."""
    with monkeypatch.context() as patched:
        patched.setattr(temporary, "_boot", lambda: "0a1b2c3d")
        left = temporary_name(tmp_path / "file")
    left.touch()
    sweep(tmp_path)
    assert left.exists()
    then = time.time() - ABANDONED_S - 10
    os.utime(left, (then, then))
    sweep(tmp_path)
    assert not left.exists()


def test_names_of_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of other programs and of other users are not touched, however old."""
    monkeypatch.setattr(os, "getpid", lambda: 4_000_000_000)
    left = temporary_name(tmp_path / "file")
    monkeypatch.undo()
    names = {".file.tmp", ".file.0a1b2c3d.tmp", "file.tmp", left.name.removesuffix(".tmp")}
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1e9, 1e9))
    left.touch()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    sweep(tmp_path)
    assert left.exists()
    monkeypatch.undo()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == names


def test_what_was_moved_away_and_not_replaced_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between two renames, the old content is the only one; otherwise it goes."""
    monkeypatch.setattr(os, "getpid", lambda: 4_000_000_000)
    old = [temporary_name(tmp_path / name, "old") for name in ("lost", "there")]
    monkeypatch.undo()
    for path in old:
        path.mkdir()
        (path / "manifest.json").touch()
    (tmp_path / "there").mkdir()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"lost", "there"}
    assert (tmp_path / "lost/manifest.json").exists()
    assert not list((tmp_path / "there").iterdir())


def test_a_long_name_has_a_temporary_one(tmp_path: Path) -> None:
    """What a file system can hold can be written whole."""
    name = "é" * 127
    with whole(tmp_path / name) as file:
        file.touch()
    with temporary_folder(tmp_path / name) as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077], ids=oct)
def test_folders_on_the_way_are_as_what_they_hold(tmp_path: Path, mask: int) -> None:
    """With a mode a file has it, and nobody else writes its folders; without, the umask counts."""
    old = os.umask(mask)
    try:
        for name, mode in (("run/it/a", 0o755), ("read/b", 0o644), ("secret/c", 0o600)):
            with whole(tmp_path / name, mode) as file:
                assert file.stat().st_mode & 0o777 == 0o600
                file.write_text("content")
        token_file.write(tmp_path / "own/tokens", [])
        with whole(tmp_path / "plain/d") as file:
            file.touch()
    finally:
        os.umask(old)
    found = {
        str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")
    }
    assert found == {
        "run": 0o755,
        "run/it": 0o755,
        "run/it/a": 0o755,
        "read": 0o755,
        "read/b": 0o644,
        "secret": 0o755 & ~mask,
        "secret/c": 0o600,
        "own": 0o755 & ~mask,
        "own/tokens": 0o600,
        "plain": 0o777 & ~mask,
        "plain/d": 0o666 & ~mask,
    }
