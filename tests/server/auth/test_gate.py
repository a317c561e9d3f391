"""Who is let in, without MUNGE."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from colltune.server.auth.gate import Admission, Gate, Principal, TokenStore, munge_rules
from colltune.server.auth.token_file import Scope, Token, digest, new_token, write
from colltune.server.errors import (
    CannotTellError,
    ForbiddenError,
    UnauthenticatedError,
)

SECRET, OLD, NARROW = new_token(), new_token(), new_token()
PAST = datetime.now(UTC) - timedelta(seconds=1)
TOKENS = (
    Token("ci", frozenset(Scope), digest(SECRET)),
    Token("old", frozenset(Scope), digest(OLD), PAST),
    Token("narrow", frozenset({Scope.MEASUREMENTS}), digest(NARROW)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of `TOKENS`."""
    write(tmp_path / "tokens", TOKENS)
    return tmp_path / "tokens"


def _admitted(gate: Gate, *authorizations: str) -> Admission:
    return gate.admit(authorizations, Scope.PROMOTE, "POST", "/v1/bundles/abcd/promote")


def test_a_token_with_the_scope_is_let_in(path: Path) -> None:
    """The kind's case does not matter; who it is goes into the history."""
    gate = Gate(TokenStore(path))
    for word in ("Bearer", "bearer", "BEARER"):
        assert _admitted(gate, f"{word} {SECRET}").principal == Principal("ci (token)")


def test_everybody_else_is_turned_away(path: Path, subtests: pytest.Subtests) -> None:
    """The reason is told, and no secret is repeated in it."""
    for authorizations, kind, why in (
        ((), UnauthenticatedError, "needs an Authorization header"),
        ((f"Bearer {SECRET}", f"Bearer {SECRET}"), UnauthenticatedError, "one Authorization"),
        (("",), UnauthenticatedError, "this kind"),
        (("Bearer",), UnauthenticatedError, "not known here"),
        (("Bearer wrong",), UnauthenticatedError, "not known here"),
        ((SECRET,), UnauthenticatedError, "this kind"),
        ((f"Basic {SECRET}",), UnauthenticatedError, "this kind"),
        ((f"Bearer {OLD}",), UnauthenticatedError, "the token old expired on"),
        ((f"Bearer {NARROW}",), ForbiddenError, "narrow does not have the scope promote"),
        (("MUNGE MUNGE:AwQFAACd:",), UnauthenticatedError, "takes no MUNGE credentials"),
    ):
        with subtests.test(authorizations=authorizations, kind=kind, why=why):
            with pytest.raises(kind, match=why) as caught:
                _admitted(Gate(TokenStore(path)), *authorizations)
            assert not any(secret in str(caught.value) for secret in (SECRET, OLD, NARROW))


def test_without_tokens_and_munge_nobody_may(path: Path) -> None:
    """Read-only is the default, and the message says how that is changed."""
    with pytest.raises(ForbiddenError, match=r"read-only.*--tokens FILE.*--munge"):
        _admitted(Gate(), f"Bearer {SECRET}")


def test_a_token_is_rotated_without_a_restart(path: Path) -> None:
    """A token counts from the moment it is in the file, and no longer than it is."""
    gate, newer = Gate(TokenStore(path)), new_token()
    assert _admitted(gate, f"Bearer {SECRET}")
    write(path, [Token("ci", frozenset(Scope), digest(newer))])
    assert _admitted(gate, f"Bearer {newer}")
    with pytest.raises(UnauthenticatedError, match="not known here"):
        _admitted(gate, f"Bearer {SECRET}")


def test_an_edit_in_place_is_seen(path: Path) -> None:
    """A file of the same size and time is another one if its content was written anew."""
    gate, status = Gate(TokenStore(path)), path.stat()
    assert _admitted(gate, f"Bearer {SECRET}")
    path.write_text(path.read_text().replace(digest(SECRET), digest(OLD + "x")))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(UnauthenticatedError):
        _admitted(gate, f"Bearer {SECRET}")


def test_an_unusable_file_is_logged_once_and_mended_without_a_restart(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile nobody can write; the client learns nothing of the file, the log all of it."""
    gate = Gate(TokenStore(path))
    path.chmod(0o644)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            with pytest.raises(CannotTellError, match="unusable") as caught:
                _admitted(gate, f"Bearer {SECRET}")
    assert str(path) not in str(caught.value)
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1
    assert f"chmod 600 {path}" in errors[0]
    path.chmod(0o600)
    assert _admitted(gate, f"Bearer {SECRET}")
    path.unlink()
    with pytest.raises(CannotTellError):
        _admitted(gate, f"Bearer {SECRET}")


def test_users_may_be_let_in_for_one_thing_only() -> None:
    """A name alone may do everything, a name with a scope that and nothing else."""
    rules = munge_rules(["root", "@tuners", "ci:measurements"], bound=False)
    assert rules.users[Scope.PROMOTE] == {"root", "@tuners"}
    assert rules.users[Scope.MEASUREMENTS] == {"root", "@tuners", "ci"}
    with pytest.raises(ValueError, match="no scope 'all'; known: measurements, promote"):
        munge_rules(["ci:all"], bound=False)


def test_a_payload_must_fit_the_request() -> None:
    """A credential made for one request is good for no other, whatever differs."""
    empty = digest("")
    made = f"POST /v1/x?launch=a {empty}\n".encode()
    principal = Principal("alice (munge)")
    Admission(principal, made, "POST /v1/x?launch=a").check_body(empty)
    Admission(principal, None, "POST /v1/x").check_body(empty)
    for head, body in (
        ("POST /v1/x?launch=a", digest("b")),
        ("POST /v1/x?launch=b", empty),
        ("PUT /v1/x?launch=a", empty),
    ):
        with pytest.raises(UnauthenticatedError, match="made for another request"):
            Admission(principal, made, head).check_body(body)
