"""`colltune site token`."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from colltune.cli import token as verb
from colltune.errors import TokenFileError
from colltune.server.auth import token_file
from colltune.server.auth.token_file import Scope
from tests.cli.conftest import Verb


def _add(colltune: Verb, path: Path, name: str, *more: str) -> str:
    words = ("token", "add", name, "--tokens", path, "--scope", "summaries", *more)
    return colltune(*words).out.strip()


def test_a_token_is_shown_once_and_kept_as_a_hash(colltune: Verb, tmp_path: Path) -> None:
    """What is printed opens the service; what is kept does not tell it, to its owner alone."""
    path = tmp_path / "etc" / "tokens"
    more = ("--scope", "promote", "--scope", "summaries", "--expires", "never")
    secret = _add(colltune, path, "ci", *more)
    (token,) = token_file.read(path)
    assert (token.name, token.scopes, token.expires) == ("ci", frozenset(Scope), None)
    assert token_file.matching([token], secret) is token
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_tokens_are_listed_without_secrets(colltune: Verb, tmp_path: Path) -> None:
    """Name, scopes and validity, for people and as JSON."""
    path = tmp_path / "tokens"
    secret = _add(colltune, path, "ci", "--expires", "2999-01-31")
    shown = colltune("site", "token", "list", "--tokens", path)
    told = colltune("site", "token", "list", "--tokens", path, "--json")
    assert "until 2999-01-31T00:00:00+00:00" in shown.out
    assert told.json == [
        {"name": "ci", "scopes": ["summaries"], "expires": "2999-01-31T00:00:00+00:00"}
    ]
    assert secret not in shown.out + told.out


def test_a_revoked_token_is_gone(colltune: Verb, tmp_path: Path) -> None:
    """The others stay; revoking one that is not there tells which are."""
    path = tmp_path / "tokens"
    for name in ("ci", "alice"):
        _add(colltune, path, name)
    assert colltune("site", "token", "revoke", "ci", "--tokens", path).status == 0
    assert [token.name for token in token_file.read(path)] == ["alice"]
    again = colltune("site", "token", "revoke", "ci", "--tokens", path)
    assert (again.status, again.says("unknown what=token name=ci known=alice")) == (15, True)


def test_days_count_from_now(colltune: Verb, tmp_path: Path) -> None:
    """90d is a time in the future."""
    _add(colltune, tmp_path / "tokens", "ci", "--expires", "90d")
    assert "until" in colltune("site", "token", "list", "--tokens", tmp_path / "tokens").out


def test_a_token_is_good_for_a_year(colltune: Verb, tmp_path: Path) -> None:
    """Unless another time is named, or that it never ends."""
    _add(colltune, tmp_path / "tokens", "ci")
    (token,) = token_file.read(tmp_path / "tokens")
    assert token.expires is not None
    assert 360 < (token.expires - datetime.now(UTC)).days < 370


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_root_adds_to_the_file_of_a_service(colltune: Verb, tmp_path: Path) -> None:
    """It stays with the service's user; a service of another user refuses it."""
    path = tmp_path / "tokens"
    _add(colltune, path, "ci")
    os.chown(path, 12345, 12345)
    assert _add(colltune, path, "alice").startswith("colltune_")
    assert path.stat().st_uid == 12345
    assert colltune("site", "token", "list", "--tokens", path).status == 0
    with pytest.raises(TokenFileError, match="belongs to uid 12345"):
        token_file.read(path)


def test_bad_wishes_change_nothing(colltune: Verb, tmp_path: Path) -> None:
    """The message says what is wrong, and the file stays as it was."""
    for words, status, why in (
        (("ci", "--scope", "promote"), 15, "token-exists name=ci"),
        (("a b", "--scope", "promote"), 15, "not-a-name"),
        (("x", "--scope", "everything"), 2, "unknown name=everything"),
        (("x",), 2, ""),
        (("x", "--scope", "promote", "--expires", "2001-01-01"), 2, "not-allowed value=2001-01-01"),
        (("x", "--scope", "promote", "--expires", "soon"), 2, "malformed value=soon"),
        (("x", "--scope", "promote", "--expires", "9" * 30 + "d"), 2, "malformed"),
    ):
        path = tmp_path / "tokens"
        _add(colltune, path, "ci")
        before = path.read_bytes()
        answer = colltune("site", "token", "add", *words, "--tokens", path)
        assert (answer.status, answer.says(why)) == (status, True), words
        assert path.read_bytes() == before, words


def test_a_damaged_file_is_not_overwritten(colltune: Verb, tmp_path: Path) -> None:
    """It is named with its line, and somebody may still mend it."""
    path = tmp_path / "tokens"
    path.write_text("colltune-tokens 1\nci\n")
    path.chmod(0o600)
    answer = colltune("site", "token", "add", "x", "--scope", "promote", "--tokens", path)
    assert (answer.status, f"{path}, line 2" in answer.err) == (15, True)
    assert path.read_text() == "colltune-tokens 1\nci\n"


def test_adding_at_the_same_time_loses_none(tmp_path: Path) -> None:
    """Two administrators do not overwrite each other's tokens."""
    path = tmp_path / "tokens"

    def add(number: int) -> None:
        with verb._changed(path) as entries:
            token = token_file.Token(f"t{number}", frozenset(Scope), token_file.digest(str(number)))
            entries.append(token)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    assert {token.name for token in token_file.read(path)} == {f"t{n}" for n in range(12)}
