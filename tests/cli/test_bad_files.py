"""Files that are damaged or hostile end each verb in one error that names them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.cli.conftest import Verb

PACKED = gzip.compress(b"machine,library\n" + b"a,b\n" * 99)
BOMB = gzip.compress(b"a,b\n" + bytes(70 << 20))
HEAD = b"collective,nodes,ppn,msize_bytes\n"


WRONG: tuple[tuple[tuple[str, ...], str, bytes, int], ...] = (
    (("data", "noise"), "a.csv.gz", PACKED[:30] + b"\x55" * 20 + PACKED[50:], 3),
    (("data", "noise"), "a.csv.gz", PACKED[:-9], 3),
    (("data", "noise"), "a.csv.gz", BOMB, 3),
    (("data", "noise"), "a.parquet", b"PAR1" + b"\xff" * 99, 3),
    (("data", "import", "--out", "d"), "a.csv", HEAD + b"bcast,1,1,1e999\n", 3),
    (("plan",), "a.toml", b"[space]\nnodes = [" + b"9" * 5000 + b"]\n", 4),
    (("plan",), "a.toml", b"[space]\nnodes = 0x" + b"f" * 5000, 4),
    (("plan",), "a.toml", b"a = " + b"[" * 9999, 4),
    (("plan",), "a.toml", b"\xff", 4),
    (("site", "retrain", "--config"), "a.toml", b".".join([b"a"] * 5000) + b" = 1\n", 2),
    (("site", "retrain", "--config"), "a.toml", b"a = 1" + b"0" * 5000, 2),
    (
        ("select", "--bundle", "b", "--out", "s.csv", "--instances"),
        "a.csv",
        HEAD + b"bcast,1,1," + b"9" * 5000,
        3,
    ),
    (("rules", "lint"), "a.rules", b"\0" * 99, 2),
    (("app", "profile"), "a.profile", b"colltune-profile " + b"9" * 5000, 3),
)


def test_a_damaged_file_is_one_error_that_names_it(
    colltune: Verb, bundle_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, and no number of an error of the system or advice on Python's limits."""
    monkeypatch.chdir(tmp_path)
    Path("b").symlink_to(bundle_path)
    for words, name, content, status in WRONG:
        Path(name).write_bytes(content)
        answer = colltune(*words, name)
        assert answer.status == status, (words, content[:40], answer.err)
        told = answer.err + answer.out
        assert name in told, words
        assert "Errno" not in told, words
        assert "set_int_max_str_digits" not in told, words


def test_a_campaign_that_cannot_be_read_is_told_in_words(colltune: Verb, tmp_path: Path) -> None:
    """Path, reason and mend."""
    (tmp_path / "folder").mkdir()
    for words in (("plan",), ("submit", "--print", "--out", "d")):
        for name in ("nowhere.toml", "folder"):
            answer = colltune(*words, tmp_path / name)
            assert answer.status == 4, (words, name)
            assert f"{tmp_path / name}: cannot be read: " in answer.err
            assert "Errno" not in answer.err
            assert answer.err.endswith("; name a campaign file\n")
