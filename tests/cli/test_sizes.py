"""Message sizes as people write them."""

from __future__ import annotations

import pytest

from colltune.cli.options import parse_size
from colltune.errors import DataError


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
