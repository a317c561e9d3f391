"""Numbers of rules files are found as C's scanf finds them."""

from __future__ import annotations

import ctypes
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.mpi.openmpi.scanner import Scanner

if sys.platform != "linux":
    pytest.skip("the library's reader is compared with glibc's", allow_module_level=True)

LIBC = ctypes.CDLL(None)
LIBC.fmemopen.restype = ctypes.c_void_p
LIBC.fmemopen.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
LIBC.fscanf.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
LIBC.fread.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
LIBC.fclose.argtypes = [ctypes.c_void_p]


class Stream:
    """A C stream over some bytes."""

    def __init__(self, data: bytes) -> None:
        self.kept = ctypes.create_string_buffer(data, len(data))
        self.file = LIBC.fmemopen(self.kept, len(data), b"r")

    def header(self) -> int:
        """Consume the version header as the library does."""
        version = ctypes.c_int(0)
        found = LIBC.fscanf(self.file, b"rule-file-version-%u", ctypes.byref(version))
        return version.value if found == 1 else 1

    def numbers(self) -> list[int]:
        """Return all numbers, read by the library's loop."""
        found, value, byte = [], ctypes.c_long(), ctypes.create_string_buffer(1)
        while (count := LIBC.fscanf(self.file, b"%li", ctypes.byref(value))) != -1:
            if count == 1:
                found.append(value.value)
            elif LIBC.fread(byte, 1, 1, self.file) and byte.raw == b"#":
                while LIBC.fread(byte, 1, 1, self.file) and byte.raw != b"\n":
                    pass
        LIBC.fclose(self.file)
        return found


def ours(text: str, *, header: bool = False) -> tuple[int, list[int]]:
    """Return version and numbers as colltune reads them."""
    scanner = Scanner(text)
    version = scanner.version() if header else 1
    found = []
    while (number := scanner.number()) is not None:
        found.append(number.value)
    return version, found


def test_the_numbers_are_those_of_scanf(subtests: pytest.Subtests) -> None:
    """Octal, hexadecimal, lonely signs, comments, and what exceeds a long."""
    for text in (
        "1 2\n3",
        "0x10 010 089 0x 0xg 0X1f",
        "- 5 +-5 --5 +7 -8 5-6",
        "-#5 7\n6 # 8\n9",
        "9.5 1e5 8,192 10k inf",
        f"{2**63} -{2**63} -{2**64} {'9' * 5000}",
        "\ufeff1\r\n2\t3\v4\f5",
        "1 # no end",
        "-",
    ):
        with subtests.test(text=text):
            assert ours(text)[1] == Stream(text.encode()).numbers()


@given(st.text(alphabet="0123456789 \n\t\r#-+.,xXabk", min_size=1, max_size=60))
def test_any_text_gives_the_numbers_of_scanf(text: str) -> None:
    """No text is read otherwise than by the C library."""
    assert ours(text)[1] == Stream(text.encode()).numbers()


HEADER = "rule-file-version-"


@given(
    st.integers(0, len(HEADER)),
    st.sampled_from(["", "2", " 2", "1", "-2", "+2", "0x2", str(2**32 + 2), str(2**80), "-", "x"]),
    st.text(alphabet="0123456789 \n#-x", max_size=20),
)
def test_the_version_header_is_that_of_scanf(kept: int, version: str, rest: str) -> None:
    """A header that is cut or lacks its number is skipped as far as it fits."""
    text = f"{HEADER[:kept]}{version}\n{rest} 7"
    stream = Stream(text.encode())
    expected = stream.header()
    assert ours(text, header=True) == (expected, stream.numbers())


def test_numbers_know_their_lines() -> None:
    """The line of each number, and whether it begins one."""
    scanner = Scanner("# 1\n\n 5 6, 7\n#\n8 # 9\n")
    found = []
    while (number := scanner.number()) is not None:
        found.append((number.value, number.line, number.starts_line))
    assert found == [(5, 3, True), (6, 3, False), (7, 3, False), (8, 5, True)]


def test_words_and_decimal_numbers_stand_between_blanks_and_comments() -> None:
    """What coll/han reads beside C's longs: sizes have no base, words have 32 characters."""
    scanner = Scanner("#a b\nx-3 0x10 " + "w" * 40)
    assert (scanner.size(), scanner.skipped, scanner.line) == (2**64 - 3, "x", 2)
    assert scanner.size() == 0
    assert [scanner.word(), scanner.word(), scanner.word()] == ["x10", "w" * 32, "w" * 8]
