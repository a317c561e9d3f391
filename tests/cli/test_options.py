"""What people write in options: sizes, and the variables of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.cli.options import job_variables, parse_size
from colltune.errors import DataError, LibraryError


def test_sizes() -> None:
    """Units are powers of 1024, in any case, with or without iB."""
    for text, n_bytes in (
        ("0", 0),
        ("65536", 65536),
        ("64K", 65536),
        ("64 KiB", 65536),
        ("1m", 1048576),
        (" 2MB ", 2097152),
        ("1G", 2**30),
        ("8b", 8),
    ):
        assert parse_size(text) == n_bytes, text


def test_what_is_no_size() -> None:
    """Anything else is refused with an example."""
    for text in ("", "K", "-1", "1.5M", "1T", "٣", "1e6", "9" * 20, "1\x00", "0x10"):
        with pytest.raises(DataError, match="one looks like 65536, 64K or 1M"):
            parse_size(text)


def test_pairs_go_before_the_file(tmp_path: Path) -> None:
    """Pairs override the file; without either nothing is known of the job."""
    path = tmp_path / "params"
    path.write_text("export A=1 B=2\n")
    assert job_variables(["A=3"], path) == {"A": "3", "B": "2"}
    assert job_variables(["A=b=c"], None) == {"A": "b=c"}
    assert job_variables(None, None) is None
    with pytest.raises(DataError, match="--environment 'A' is not NAME=VALUE"):
        job_variables(["A"], None)
    with pytest.raises(LibraryError, match="cannot be read"):
        job_variables(None, tmp_path / "no")
