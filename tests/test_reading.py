"""Files that are damaged, hostile or no files at all."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from colltune.errors import DataError
from colltune.files import reading, unpacking
from colltune.files.reading import content_of, json_of, opened, read_bytes, text_of, toml_of
from colltune.files.unpacking import unpacked
from tests.refusals import refused


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.mkdir, "cannot be read: Is a directory"),
        (_zero, "is a device"),
        (_pipe, "is a pipe that no program writes"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
        (lambda _path: None, "cannot be read: No such file"),
        (lambda path: path.write_bytes(b"a\n\xff"), "line 2: not UTF-8 text"),
        (lambda path: path.write_bytes(b"a\n\n\0"), "line 3: not a text file (it has a zero byte)"),
        (lambda path: path.write_bytes(b"a" * 2000), "is larger than"),
    ],
)
def test_what_is_no_text_is_named_with_why_and_the_mend(
    make: Callable[[Path], Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing hangs, and no number of an error of the system is shown."""
    monkeypatch.setattr(reading, "_WRITER_S", 0.01)
    monkeypatch.setattr(reading, "MOST_BYTES", 1000)
    path = tmp_path / "file"
    make(path)
    with pytest.raises(DataError) as told:
        text_of(path, DataError, "name another one")
    text = str(told.value)
    assert text.startswith(f"{path}")
    assert why in text
    assert text.endswith("; name another one")
    assert "Errno" not in text


def test_a_name_that_no_file_can_have_is_refused() -> None:
    """A byte that is zero ends names in the system."""
    with refused("unreadable", DataError, why="is not a file name"):
        content_of(Path("a\0b"), DataError, "name another one")


def test_a_pipe_that_somebody_writes_into_is_read_to_its_end(tmp_path: Path) -> None:
    """Such as a shell makes for `<(command)`; the writer may come later."""
    _pipe(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"x" * 200_000,))
    writer.start()
    assert len(read_bytes(tmp_path / "pipe")) == 200_000
    writer.join()


DEEP = {json_of: '{"a":' * 150 + "1" + "}" * 150, toml_of: ".".join(["a"] * 150) + " = 1"}
DEEPER = {json_of: "[" * 100_000, toml_of: "a = " + "[" * 5000 + "]" * 5000}
LARGE = {json_of: "[" + "9" * 5000 + "]", toml_of: "a = 1" + "0" * 5000}
HEXADECIMAL = {json_of: "[" + "9" * 400 + "]", toml_of: "a = 0x" + "f" * 5000}
NONE = {json_of: "[1,", toml_of: "a = "}


@pytest.mark.parametrize("parse", [json_of, toml_of])
@pytest.mark.parametrize("texts", [DEEP, DEEPER, LARGE, HEXADECIMAL, NONE])
def test_what_would_make_later_work_stumble_is_refused(
    parse: Callable[[str], Any], texts: dict[Any, str]
) -> None:
    """Depth and numbers that cannot be printed or computed with are errors of the content."""
    with pytest.raises(ValueError, match=r".") as told:
        parse(texts[parse])
    assert "set_int_max_str_digits" not in str(told.value)


def test_what_is_right_is_read() -> None:
    """Tables, lists, numbers of 64 bits and texts."""
    assert json_of(b'{"a": [1, -9223372036854775808, 1.5, null, true, "x"]}') == {
        "a": [1, -(2**63), 1.5, None, True, "x"]
    }
    assert toml_of('[a.b]\nc = [1, {d = "e"}]\n') == {"a": {"b": {"c": [1, {"d": "e"}]}}}


def _zipped(path: Path, content: bytes, names: tuple[str, ...] = ("a.csv",)) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)


def _zstd(path: Path, content: bytes) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(content)


PACKING: dict[str, Callable[[Path, bytes], Any]] = {
    "gzip": lambda path, content: path.write_bytes(gzip.compress(content)),
    "bz2": lambda path, content: path.write_bytes(bz2.compress(content)),
    "xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    "zip": _zipped,
    "zstd": _zstd,
    "plain": lambda path, content: path.write_bytes(content),
}


def _all_of(path: Path) -> bytes:
    with unpacked(path) as (_, stream):
        content = b""
        while piece := stream.read(1 << 16):
            content += piece
            assert len(content) <= 1 << 20
        return content


@pytest.mark.parametrize("kind", PACKING)
def test_packed_files_are_told_by_their_content(kind: str, tmp_path: Path) -> None:
    """Whatever their name; what is not packed is read as it is."""
    PACKING[kind](tmp_path / "file", b"a,b\n" * 50_000)
    assert _all_of(tmp_path / "file") == b"a,b\n" * 50_000


@pytest.mark.parametrize("kind", [kind for kind in PACKING if kind != "plain"])
def test_a_packed_file_that_is_damaged_is_an_error_of_the_file(kind: str, tmp_path: Path) -> None:
    """Cut anywhere, or with any byte changed, it is read or refused, and nothing else."""
    PACKING[kind](tmp_path / "whole", bytes(range(256)) * 4)
    whole = (tmp_path / "whole").read_bytes()
    file, told = tmp_path / "damaged", []
    for at in range(0, len(whole), 3):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            file.write_bytes(damaged)
            try:
                _all_of(file)
            except OSError as error:
                told.append(error.strerror)
    assert all(told)
    assert len(told) > len(whole) / 6


@pytest.mark.parametrize("kind", [kind for kind in PACKING if kind != "plain"])
def test_a_small_file_does_not_fill_the_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What unpacks to a hundred times its size and more is refused after a bound."""
    monkeypatch.setattr(unpacking, "_MOST_UNPACKED_BYTES", 1 << 20)
    PACKING[kind](tmp_path / "file", bytes(2 << 20))
    with pytest.raises(OSError, match="unpacks to more than 1 MiB"):
        _all_of(tmp_path / "file")


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    """Which of them was meant nobody knows."""
    _zipped(tmp_path / "file", b"a", ("a", "b"))
    with pytest.raises(OSError, match="an archive of 2 files"):
        _all_of(tmp_path / "file")


def test_nothing_stays_open_after_a_refusal(tmp_path: Path) -> None:
    """A service that is sent such names for months must not run out of files."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        with pytest.raises(OSError, match="Is a directory"):
            opened(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
