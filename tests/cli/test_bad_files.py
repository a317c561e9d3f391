"""Files that are damaged or hostile end each verb in one error that names them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.cli.conftest import Verb

PACKED = gzip.compress(b"machine,library\n" + b"a,b\n" * 99)
BOMB = gzip.compress(b"a,b\n" + bytes(70 << 20))
HEAD = b"collective,nodes,ppn,msize_bytes\n"


@pytest.mark.parametrize(
    ("words", "name", "content", "status"),
    [
        (("noise",), "a.csv.gz", PACKED[:30] + b"\x55" * 20 + PACKED[50:], 3),
        (("noise",), "a.csv.gz", PACKED[:-9], 3),
        (("noise",), "a.csv.gz", BOMB, 3),
        (("noise",), "a.parquet", b"PAR1" + b"\xff" * 99, 3),
        (("import", "--out", "d"), "a.csv", HEAD + b"bcast,1,1,1e999\n", 3),
        (("plan",), "a.toml", b"[space]\nnodes = [" + b"9" * 5000 + b"]\n", 4),
        (("plan",), "a.toml", b"[space]\nnodes = 0x" + b"f" * 5000, 4),
        (("plan",), "a.toml", b"a = " + b"[" * 9999, 4),
        (("plan",), "a.toml", b"\xff", 4),
        (("retrain", "--config"), "a.toml", b".".join([b"a"] * 5000) + b" = 1\n", 2),
        (("retrain", "--config"), "a.toml", b"a = 1" + b"0" * 5000, 2),
        (
            ("select", "--bundle", "b", "--out", "s.csv", "--instances"),
            "a.csv",
            HEAD + b"bcast,1,1," + b"9" * 5000,
            3,
        ),
        (("lint",), "a.rules", b"\0" * 99, 2),
        (("profile",), "a.profile", b"colltune-profile " + b"9" * 5000, 3),
    ],
    ids=range(14),
)
def test_a_damaged_file_is_one_error_that_names_it(
    colltune: Verb,
    bundle_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    name: str,
    content: bytes,
    status: int,
) -> None:
    """No traceback, and no number of an error of the system or advice on Python's limits."""
    monkeypatch.chdir(tmp_path)
    Path("b").symlink_to(bundle_path)
    Path(name).write_bytes(content)
    answer = colltune(*words, name)
    assert answer.status == status, answer.err
    told = answer.err + answer.out
    assert name in told
    assert "Errno" not in told
    assert "set_int_max_str_digits" not in told


@pytest.mark.parametrize("words", [("plan",), ("submit", "--print", "--out", "d")])
@pytest.mark.parametrize("name", ["nowhere.toml", "folder"])
def test_a_campaign_that_cannot_be_read_is_told_in_words(
    colltune: Verb, tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    """Path, reason and mend."""
    (tmp_path / "folder").mkdir()
    answer = colltune(*words, tmp_path / name)
    assert answer.status == 4
    assert f"{tmp_path / name}: cannot be read: " in answer.err
    assert "Errno" not in answer.err
    assert answer.err.endswith("; name a campaign file\n")
