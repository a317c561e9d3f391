"""What people write in options: sizes, and the variables of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.cli.options import job_variables
from colltune.errors import DataError, LibraryError
from colltune.text import parse_bytes
from tests.cli.conftest import Verb
from tests.refusals import refused


def test_sizes() -> None:
    """Units are powers of 1024, in any case, with or without iB."""
    for text, n_bytes in (
        ("0", 0),
        ("65536", 65536),
        ("64K", 65536),
        ("64 KiB", 65536),
        ("4k", 4096),
        ("4kB", 4096),
        ("64KiB", 65536),
        ("1m", 1048576),
        (" 2MB ", 2097152),
        ("1G", 2**30),
        ("8b", 8),
    ):
        assert parse_bytes(text) == n_bytes, text


def test_what_is_no_size() -> None:
    """Anything else is refused with an example."""
    for text in ("", "K", "-1", "1.5M", "1T", "٣", "1e6", "9" * 20, "1\x00", "0x10"):
        with pytest.raises(DataError, match="Write it like 65536, 64k, 64KiB or 1M"):
            parse_bytes(text)


def test_pairs_go_before_the_file(tmp_path: Path) -> None:
    """Pairs override the file; without either nothing is known of the job."""
    path = tmp_path / "params"
    path.write_text("export A=1 B=2\n")
    assert job_variables(["A=3"], path) == {"A": "3", "B": "2"}
    assert job_variables(["A=b=c"], None) == {"A": "b=c"}
    assert job_variables(None, None) is None
    with refused("malformed", DataError, value="A", like="NAME=VALUE"):
        job_variables(["A"], None)
    with refused("cannot-read", LibraryError):
        job_variables(None, tmp_path / "no")


def test_an_option_of_one_value_is_given_once(colltune: Verb) -> None:
    """A second value does not replace the first one: the error says how several are spelled."""
    for words, mend in (
        (("select", "--ppn", 1, "--ppn", 8), "Run the command once for each value."),
        (("plot", "map", "x", "--nodes", 4, "--nodes", 8), "by commas: --nodes N,…"),
        (("site", "bundles", "history", "--registry=a", "--registry=a"), "once for each value"),
    ):
        answer = colltune(*words)
        assert answer.status == 2
        assert "takes one value, but it is given 2 times" in answer.err
        assert mend in answer.err


def test_what_may_be_given_twice(colltune: Verb, bundle_path: Path) -> None:
    """Repeatable options, and flags."""
    answer = colltune(
        *("plot", "map", bundle_path, "--out", bundle_path.parent / "map.svg", "--no-guard"),
        *("--shape", "2x1", "--shape", "4x2", "--no-guard"),
    )
    assert answer.status == 0, answer.err


def test_a_similar_verb_is_suggested_once(colltune: Verb) -> None:
    """Click and typer both know how."""
    for words in (("selct",), ("rules", "lnt"), ("plot", "mapp")):
        answer = colltune(*words)
        assert answer.status == 2
        assert answer.err.count("Did you mean") == 1


def test_usage_errors_begin_as_all_errors_do(
    colltune: Verb, bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong value names its option behind the same prefix, in red where colours are taken."""
    words = ("select", "--bundle", bundle_path, "--nodes", 2, "--ppn", 2, "--msize", "much")
    told = "Invalid value for '--msize': 'much' is not a size. Write it like 65536, 64k, 64KiB"
    answer = colltune(*words)
    assert (answer.status, answer.out) == (2, "")
    assert f"\ncolltune: error: {told}" in answer.err
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert f"\ncolltune: \x1b[31merror:\x1b[0m {told}" in colltune(*words).err
