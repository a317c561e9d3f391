"""Who is let in, without MUNGE."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from colltune.errors import UsageError
from colltune.server.auth.gate import Admission, Gate
from colltune.server.auth.token_file import Scope, Token, digest, new_token, write
from colltune.server.errors import ServiceError
from colltune.server.settings import ServiceSettings
from tests.refusals import refused

SECRET, OLD, NARROW = new_token(), new_token(), new_token()
PAST = datetime.now(UTC) - timedelta(seconds=1)
TOKENS = (
    Token("ci", frozenset(Scope), digest(SECRET)),
    Token("old", frozenset(Scope), digest(OLD), PAST),
    Token("narrow", frozenset({Scope.SUMMARIES}), digest(NARROW)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of `TOKENS`."""
    write(tmp_path / "tokens", TOKENS)
    return tmp_path / "tokens"


def _gate(path: Path) -> Gate:
    return Gate(ServiceSettings(bundle=path, tokens=path))


def _admitted(gate: Gate, *authorizations: str) -> Admission:
    return gate.admit(authorizations, Scope.PROMOTE, "POST", "/v1/bundles/abcd/promote")


def test_a_token_with_the_scope_is_let_in(path: Path) -> None:
    """The kind's case does not matter; who it is goes into the history."""
    gate = _gate(path)
    for word in ("Bearer", "bearer", "BEARER"):
        assert _admitted(gate, f"{word} {SECRET}").caller == "ci (token)"


def test_everybody_else_is_turned_away(path: Path, subtests: pytest.Subtests) -> None:
    """The reason is told, and no secret is repeated in it."""
    for authorizations, status, code in (
        ((), 401, "authorization"),
        ((f"Bearer {SECRET}", f"Bearer {SECRET}"), 401, "authorization"),
        (("",), 401, "authorization"),
        (("Bearer",), 401, "credential-refused kind=token"),
        (("Bearer wrong",), 401, "credential-refused kind=token"),
        ((SECRET,), 401, "authorization"),
        ((f"Basic {SECRET}",), 401, "authorization"),
        ((f"Bearer {OLD}",), 401, "credential-refused"),
        ((f"Bearer {NARROW}",), 403, "not-permitted scope=promote"),
        (("MUNGE MUNGE:AwQFAACd:",), 401, "authorization"),
    ):
        with subtests.test(authorizations=authorizations, status=status, code=code):
            with refused(code, ServiceError) as caught:
                _admitted(_gate(path), *authorizations)
            assert caught.value.status == status
            assert not any(secret in str(caught.value) for secret in (SECRET, OLD, NARROW))


def test_without_tokens_and_munge_nobody_may(path: Path) -> None:
    """Read-only is the default, and the message says how that is changed."""
    with refused("not-offered", ServiceError, lacks="is read-only"):
        _admitted(Gate(ServiceSettings(bundle=path)), f"Bearer {SECRET}")


def test_a_token_is_rotated_without_a_restart(path: Path) -> None:
    """A token counts from the moment it is in the file, and no longer than it is."""
    gate, newer = _gate(path), new_token()
    assert _admitted(gate, f"Bearer {SECRET}")
    write(path, [Token("ci", frozenset(Scope), digest(newer))])
    assert _admitted(gate, f"Bearer {newer}")
    with refused("credential-refused", ServiceError, kind="token"):
        _admitted(gate, f"Bearer {SECRET}")


def test_an_edit_in_place_is_seen(path: Path) -> None:
    """A file of the same size and time is another one if its content was written anew."""
    gate, status = _gate(path), path.stat()
    assert _admitted(gate, f"Bearer {SECRET}")
    path.write_text(path.read_text().replace(digest(SECRET), digest(OLD + "x")))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ServiceError):
        _admitted(gate, f"Bearer {SECRET}")


def test_an_unusable_file_is_logged_once_and_mended_without_a_restart(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile nobody can write; the client learns nothing of the file, the log all of it."""
    gate = _gate(path)
    path.chmod(0o644)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            with refused("caller-not-checked", ServiceError) as caught:
                _admitted(gate, f"Bearer {SECRET}")
    assert str(path) not in str(caught.value)
    assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "30"})
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1
    assert f"chmod 600 {path}" in errors[0]
    path.chmod(0o600)
    assert _admitted(gate, f"Bearer {SECRET}")
    path.unlink()
    with pytest.raises(ServiceError):
        _admitted(gate, f"Bearer {SECRET}")


def test_users_may_be_let_in_for_one_thing_only(path: Path) -> None:
    """A name alone may do everything, a name with a scope that and nothing else."""
    allowed = ServiceSettings(
        bundle=path, munge_users=("root", "@tuners", "ci:summaries")
    ).munge_allowed()
    assert allowed[Scope.PROMOTE] == {"root", "@tuners"}
    assert allowed[Scope.SUMMARIES] == {"root", "@tuners", "ci"}
    with refused("unknown", UsageError, what="scope", name="all"):
        ServiceSettings(bundle=path, munge_users=("ci:all",))


def test_a_payload_must_fit_the_request() -> None:
    """A credential made for one request is good for no other, whatever differs."""
    empty = digest("")
    made = f"POST /v1/x?launch=a {empty}\n".encode()
    alice = "alice (munge)"
    Admission(alice, made, "POST /v1/x?launch=a").check_body(empty)
    Admission(alice, None, "POST /v1/x").check_body(empty)
    for head, body in (
        ("POST /v1/x?launch=a", digest("b")),
        ("POST /v1/x?launch=b", empty),
        ("PUT /v1/x?launch=a", empty),
    ):
        with refused("munge-payload", ServiceError):
            Admission(alice, made, head).check_body(body)
