"""Which format a file is of, and reading files as text."""

from __future__ import annotations

import zlib
from copy import copy
from pathlib import Path

import pytest

from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES, library
from colltune.mpi.formats import (
    FORMATS,
    LARGEST_BYTES,
    format_for,
    format_of,
    likely_reader,
    read_text,
    readers,
    reads,
)
from tests.mpi.plain_format import PlainFormat, offer
from tests.refusals import refused


class _AlikeFormat(PlainFormat):
    name = "alike"
    library = "mpich"

    def unreadable_by(self, release: str) -> str:
        return "too old" if release == "4.0.2" else ""


class _LaterFormat(PlainFormat):
    name = library = "later"


@pytest.fixture(autouse=True)
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two formats that look alike be the only ones."""
    for name in LIBRARIES:
        monkeypatch.setattr(library(name), "formats", {})
    offer(monkeypatch, "openmpi", PlainFormat)
    offer(monkeypatch, "mpich", _AlikeFormat)


def test_a_format_that_is_named() -> None:
    """A name goes before what the text looks like."""
    assert format_of("anything", "f", "plain").name == "plain"
    assert format_of("anything", "f", "plain", "openmpi").name == "plain"


def test_a_library_decides_between_formats() -> None:
    """Of formats that look alike, the one of the library that is named is taken."""
    assert format_of("plain\n", "f", library="mpich").name == "alike"
    with refused("several-formats", LibraryError, seen="plain or alike"):
        format_of("plain\n", "f")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x", "f"), "not-a-configuration-file"),
        ((" \n", "f", None, "mpich"), "not-a-configuration-file whose=MPICH names=alike"),
        (('{"a": 1, "b": {}}', "f"), "not-a-configuration-file"),
        (("x", "f", "nonsense"), "unknown what=format name=nonsense"),
        (
            ("x", "f", "plain", "mpich"),
            "format-of-another-library named=plain of=openmpi library=mpich",
        ),
    ],
)
def test_what_is_no_format(arguments: tuple[str, ...], message: str) -> None:
    """The message names what would do."""
    with refused(message, LibraryError):
        format_of(*arguments)


def test_readers() -> None:
    """Releases that read a format: supported, and not too old."""
    assert readers(PlainFormat()) == ("4.1.4", "5.0.11")
    assert readers(_AlikeFormat()) == library("mpich").releases[1:]
    assert not reads(PlainFormat(), "9.9.9")


def test_the_likely_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the current release where that reads the format, else the newest that does."""
    monkeypatch.setattr(library("openmpi"), "current", "4.1.4")
    assert likely_reader(PlainFormat()) == "4.1.4"
    monkeypatch.setattr(library("openmpi"), "current", "6.0.0")
    assert likely_reader(PlainFormat()) == "5.0.11"
    monkeypatch.setattr(library("openmpi"), "releases", ("6.0.0",))
    with refused("no-release-reads", LibraryError, format="plain"):
        likely_reader(PlainFormat())


def test_a_library_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The formats are those of the libraries that are registered now."""
    later = copy(library("mpich"))
    monkeypatch.setattr(later, "formats", {"later": f"{__name__}:_LaterFormat"})
    monkeypatch.setitem(LIBRARIES, "later", later)
    assert list(FORMATS) == ["plain", "alike", "later"]
    assert (len(FORMATS), FORMATS["later"].library) == (3, "later")
    monkeypatch.setattr(library("openmpi"), "preferred", ())
    with refused("not-writable-yet", LibraryError, title="Open MPI"):
        format_for("openmpi", "5.0.11")


def test_text_of_any_bytes(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 do no harm, and come back as they were."""
    path = tmp_path / "f"
    content = bytes(range(1, 256)) + "é\r\n".encode()
    path.write_bytes(content)
    assert read_text(path).encode("utf-8", "surrogateescape") == content
    path.write_bytes(b"")
    assert read_text(path) == ""


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder, a zero byte: one error that names the file."""
    path = tmp_path / "f"
    with refused("cannot-read", LibraryError):
        read_text(path)
    with refused("cannot-read", LibraryError, why="Is a directory"):
        read_text(tmp_path)
    path.write_bytes(b"one\ntwo\n\0")
    with refused("zero-byte", LibraryError, line=3):
        read_text(path)


def test_a_huge_file(tmp_path: Path) -> None:
    """Of a file of 100 MB no more than the limit is read."""
    path = tmp_path / "f"
    with path.open("wb") as stream:
        stream.truncate(100 << 20)
    with refused("file-too-large", LibraryError, most_mib=32):
        read_text(path)
    path.write_bytes(b" " * LARGEST_BYTES)
    assert len(read_text(path)) == LARGEST_BYTES
    with path.open("ab") as stream:
        stream.write(b" ")
    with refused("file-too-large", LibraryError, most_mib=32):
        read_text(path)


def test_intel_mpis_own_tuning_files_are_told_from_other_binaries(tmp_path: Path) -> None:
    """They are compressed; what is meant instead is said."""
    path = tmp_path / "tuning_skx_ofi.dat"
    path.write_bytes(zlib.compress(bytes(100)))
    with refused("compressed-tuning-file", LibraryError):
        read_text(path)
    path.write_bytes(bytes(100))
    with refused("zero-byte", LibraryError):
        read_text(path)
