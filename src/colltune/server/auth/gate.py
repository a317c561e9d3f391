"""The gate before everything that writes: who asks, and whether he may. It knows no HTTP server."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from colltune.errors import TokenFileError
from colltune.server.auth import munge, token_file
from colltune.server.auth.token_file import Scope, Token
from colltune.server.errors import CannotTellError, ForbiddenError, UnauthenticatedError

_LOG = logging.getLogger("colltune.server.auth")
_FileState = tuple[int, ...] | str
_EVERYBODY = "*"
_GROUP = "@"
_HOW = (
    'send "Authorization: Bearer TOKEN" (colltune site token add), or'
    ' "Authorization: MUNGE CREDENTIAL" where munged runs'
)


@dataclass(frozen=True)
class Principal:
    """Who asks, as logs and the registry's history name him: ``ci (token)``, ``alice (munge)``."""

    name: str

    def __str__(self) -> str:
        return self.name


class TokenStore:
    """The tokens of one file. Safe to use from several threads; it reads files, so it may block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: _FileState | None = None
        self._tokens: tuple[Token, ...] | TokenFileError = ()

    def token(self, secret: str) -> Token:
        """Return the valid token that `secret` is."""
        found = token_file.matching(self._current(), secret)
        if found is None:
            raise UnauthenticatedError(
                "this token is not known here: it was revoked, or never given out;"
                " ask for a new one (colltune site token add)"
            )
        if found.is_expired(datetime.now(UTC)):
            raise UnauthenticatedError(
                f"the token {found.name} expired on {found.expires}; ask for a new one"
            )
        return found

    def _current(self) -> tuple[Token, ...]:
        with self._lock:
            state = self._state()
            if state != self._seen:
                self._tokens = self._read()
                # a file that is unusable for another reason than its content is tried again
                self._seen = state if isinstance(self._tokens, tuple) else None
            if isinstance(self._tokens, TokenFileError):
                raise CannotTellError(
                    "the service's token file is unusable, so nobody can write;"
                    " its administrator finds the reason in the log"
                )
            return self._tokens

    def _state(self) -> _FileState:
        try:
            status = self._path.stat()
        except OSError as error:
            return str(error)
        return (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    def _read(self) -> tuple[Token, ...] | TokenFileError:
        known = self._tokens
        try:
            tokens = token_file.read(self._path)
        except TokenFileError as error:
            if str(error) != str(known):
                _LOG.error("no writes until this is mended: %s", error)
            return error
        _LOG.info("%s: %d tokens in force", self._path, len(tokens))
        return tokens


@dataclass(frozen=True)
class MungeRules:
    """Whose MUNGE credentials count.

    ``users`` has per scope user names or uids, ``@group`` for a group's members, ``*`` for every
    user. With ``bound`` a credential without payload does not do,.
    """

    users: Mapping[Scope, frozenset[str]]
    socket: Path | None = None
    bound: bool = False


@dataclass(frozen=True)
class Admission:
    """A caller who may do what he asks for, if his credential was made for this very request."""

    principal: Principal
    _payload: bytes | None = field(default=None, repr=False)
    _head: str = ""

    def check_body(self, sha256: str) -> None:
        """Compare a MUNGE credential's payload, if it has one, with the request.

        It is the method, the path with its query, and the SHA-256 of the body in hexadecimal digits
        (that of nothing where there is none), separated by single blanks; a line feed may follow.
        """
        if self._payload is None:
            return
        expected = f"{self._head} {sha256}".encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(self._payload.removesuffix(b"\n"), expected):
            raise UnauthenticatedError(
                "this MUNGE credential was made for another request: its payload is not the method,"
                " the path with its query, and the SHA-256 of the body"
            )


def munge_rules(users: Iterable[str], socket: Path | None = None, *, bound: bool) -> MungeRules:
    """Return the rules for `users`: ``alice``, or ``alice:measurements`` for one scope."""
    allowed: dict[Scope, set[str]] = {scope: set() for scope in Scope}
    for entry in users:
        name, colon, scope = entry.partition(":")
        if colon and scope not in list(Scope):
            raise ValueError(f"{entry!r}: no scope {scope!r}; known: {', '.join(Scope)}")
        for granted in [Scope(scope)] if colon else Scope:
            allowed[granted].add(name)
    return MungeRules({s: frozenset(names) for s, names in allowed.items()}, socket, bound)


class Gate:
    """Admits callers. Its methods read files and ask a daemon: call them in a thread."""

    def __init__(self, tokens: TokenStore | None = None, rules: MungeRules | None = None) -> None:
        self._tokens = tokens
        self._rules = rules

    def admit(
        self, authorizations: Sequence[str], scope: Scope, method: str, target: str
    ) -> Admission:
        """Return the caller, who may do what `scope` stands for."""
        if self._tokens is None and self._rules is None:
            raise ForbiddenError(
                "this service is read-only; its administrator can start it with --tokens FILE"
                " (colltune site token add) or --munge"
            )
        if len(authorizations) != 1:
            what = "an Authorization header" if not authorizations else "one Authorization header"
            raise UnauthenticatedError(f"writing needs {what}: {_HOW}")
        kind, _, credential = authorizations[0].strip().partition(" ")
        if kind.lower() == "bearer":
            return self._by_token(credential.strip(), scope)
        if kind.lower() == "munge":
            return self._by_munge(credential.strip(), scope, f"{method} {target}")
        raise UnauthenticatedError(f"this kind of Authorization is not taken: {_HOW}")

    def _by_token(self, secret: str, scope: Scope) -> Admission:
        if self._tokens is None:
            raise UnauthenticatedError("this service takes no tokens, only MUNGE credentials")
        token = self._tokens.token(secret)
        if scope not in token.scopes:
            raise ForbiddenError(
                f"the token {token.name} does not have the scope {scope}; ask for one that has"
                f" (colltune site token add NAME --scope {scope})"
            )
        return Admission(Principal(f"{token.name} (token)"))

    def _by_munge(self, credential: str, scope: Scope, head: str) -> Admission:
        if self._rules is None:
            raise UnauthenticatedError("this service takes no MUNGE credentials, only tokens")
        caller = munge.decode(credential, self._rules.socket)
        if not _is_among(caller, self._rules.users.get(scope, frozenset())):
            raise ForbiddenError(
                f"user {caller.user} (uid {caller.uid}) may not do this here ({scope});"
                " ask the service's administrator"
            )
        if self._rules.bound and not caller.payload:
            raise UnauthenticatedError(
                "this service takes only MUNGE credentials whose payload is the method, the path"
                " with its query, and the SHA-256 of the body"
            )
        return Admission(Principal(f"{caller.user} (munge)"), caller.payload or None, head)


def _is_among(caller: munge.Caller, allowed: frozenset[str]) -> bool:
    if _EVERYBODY in allowed or {caller.user, str(caller.uid)} & allowed:
        return True
    groups = {name.removeprefix(_GROUP) for name in allowed if name.startswith(_GROUP)}
    return bool(groups) and not groups.isdisjoint(caller.groups())
