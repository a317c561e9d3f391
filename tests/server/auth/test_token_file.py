"""The file of tokens."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from colltune.errors import OutputError, TokenFileError
from colltune.server.auth import token_file
from colltune.server.auth.token_file import Scope, Token, digest, matching, new_token, read, write
from tests.refusals import refused

SECRET = "colltune_" + "aB3-" * 10 + "xyz"
UNTIL = datetime(2030, 1, 31, tzinfo=UTC)
TOKENS = (
    Token("ci", frozenset(Scope), digest(SECRET), UNTIL),
    Token("alice", frozenset({Scope.PROMOTE}), digest("other")),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Names, scopes, hashes and expiry survive; the file is its owner's alone."""
    path = tmp_path / "new" / "tokens"
    write(path, TOKENS)
    assert read(path) == TOKENS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET not in path.read_text()


def test_a_token_is_256_random_bits() -> None:
    """No two are alike, and each carries 32 bytes in 43 characters."""
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert {len(token) for token in tokens} == {len("colltune_") + 43}


def test_only_the_whole_secret_matches() -> None:
    """A part, another case, and nothing at all match no token."""
    assert matching(TOKENS, SECRET) is TOKENS[0]
    for wrong in ("", SECRET[:-1], SECRET + "x", SECRET.upper(), digest(SECRET), "ü\udcff"):
        assert matching(TOKENS, wrong) is None


def test_writing_anew_keeps_owner_and_group_reading(tmp_path: Path) -> None:
    """A file that the service's group may read stays so; what is more open is narrowed."""
    path = tmp_path / "tokens"
    write(path, TOKENS)
    path.chmod(0o440)
    write(path, TOKENS[:1])
    assert stat.S_IMODE(path.stat().st_mode) == 0o440
    path.chmod(0o666)
    write(path, TOKENS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_one(tmp_path: Path) -> None:
    """Where the file is a link, what it points to is written."""
    path, link = tmp_path / "tokens", tmp_path / "link"
    write(path, ())
    link.symlink_to(path)
    write(link, TOKENS)
    assert link.is_symlink()
    assert read(path) == read(link) == TOKENS


@pytest.mark.parametrize("mode", [0o604, 0o606, 0o620, 0o666, 0o601])
def test_a_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    """The error tells the mode and the command that mends it."""
    path = tmp_path / "tokens"
    write(path, TOKENS)
    path.chmod(mode)
    with refused("tokens-accessible", TokenFileError):
        read(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """Whoever owns it could put a token of his own into it."""
    path = tmp_path / "tokens"
    write(path, TOKENS)
    os.chown(path, 65534, -1)
    with refused("tokens-of-another-user", TokenFileError, uid=65534):
        read(path)


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder and a pipe are one error each; the pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    with refused("no-tokens", TokenFileError):
        read(tmp_path / "none")
    for name in ("pipe", "folder"):
        with refused("tokens-not-regular", TokenFileError):
            read(tmp_path / name)


GOOD = f"ci promote sha256:{digest(SECRET)} -"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ci promote", "token-words count=2"),
        (f"{GOOD} more", "token-words count=5"),
        (GOOD.replace("ci", "../ci"), "token-name"),
        (GOOD.replace("promote", "everything"), "token-scope"),
        (GOOD.replace("promote", "promote,"), "token-scope"),
        (GOOD.replace("sha256:", "md5:"), "token-hash"),
        (GOOD.replace(digest(SECRET), digest(SECRET)[:-1]), "token-hash"),
        (f"ci promote {SECRET} -", "token-hash"),
        (GOOD[:-1] + "soon", "token-expiry"),
        (GOOD[:-1] + "9999-12-31T23:59:59-14:00", "token-expiry"),
        (f"{GOOD}\n{GOOD}", "second-token number=4 name=ci"),
        ("\x00\xff\x1b", "token-words count=1"),
    ],
)
def test_a_damaged_line_is_named_and_not_quoted(tmp_path: Path, line: str, why: str) -> None:
    """The error names file and line, and never shows a token that stands there by mistake."""
    path = tmp_path / "tokens"
    path.write_bytes(f"colltune-tokens 1\n# a comment\n{line}\n".encode("latin-1"))
    path.chmod(0o600)
    with refused(why, TokenFileError) as caught:
        read(path)
    assert f"{path}, line " in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"colltune-tokens 2\n", GOOD.encode(), b"\xff" * 99])
def test_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    """The first line must tell format and version."""
    path = tmp_path / "tokens"
    path.write_bytes(content)
    path.chmod(0o600)
    with refused("tokens-first-line", TokenFileError):
        read(path)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    """More than a file of tokens can have is refused."""
    path = tmp_path / "tokens"
    path.write_bytes(b"colltune-tokens 1\n" + b"#" * (1 << 21))
    path.chmod(0o600)
    with refused("tokens-too-large", TokenFileError, most=1048576):
        read(path)


def test_a_name_is_one_word() -> None:
    """What would break a line or a log is no name."""
    for name in ("", "a b", "a\nb", "-a", "a" * 65, "ü"):
        with refused("not-a-name", TokenFileError):
            token_file.check_name(name)
    assert token_file.check_name("nightly-ci@host") == "nightly-ci@host"


def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    """A file in the folder's place is named."""
    (tmp_path / "file").write_text("")
    with refused("cannot-write", OutputError):
        write(tmp_path / "file" / "tokens", TOKENS)


def test_a_token_for_what_services_no_longer_take_stays_without_it(tmp_path: Path) -> None:
    """Its file is read on, and written again as it is."""
    path = tmp_path / "tokens"
    write(path, [])
    more = (GOOD.replace("promote", "measurements,promote"), "old measurements" + GOOD[10:])
    path.write_text(path.read_text() + "\n".join(more) + "\n")
    found = [token.scopes for token in read(path)]
    assert found == [{Scope.PROMOTE}, set()]
    write(path, read(path))
    assert [token.scopes for token in read(path)] == found
