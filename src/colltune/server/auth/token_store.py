"""The tokens in force: the file, read again when it changes."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

from colltune.errors import TokenFileError
from colltune.server.auth import token_file
from colltune.server.auth.access import CannotTellError, UnauthenticatedError
from colltune.server.auth.token_file import Token

_LOG = logging.getLogger("colltune.server.auth")
_State = tuple[int, ...] | str


class TokenStore:
    """The tokens of one file. Safe to use from several threads; it reads files, so it may block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: _State | None = None
        self._tokens: tuple[Token, ...] | TokenFileError = ()

    def token(self, secret: str) -> Token:
        """Return the valid token that `secret` is."""
        found = token_file.matching(self._current(), secret)
        if found is None:
            raise UnauthenticatedError(
                "this token is not known here: it was revoked, or never given out;"
                " ask for a new one (colltune token add)"
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

    def _state(self) -> _State:
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
