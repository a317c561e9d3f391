"""The file of bearer tokens: whose they are and what they may do, but never the tokens.

Of each token, 256 random bits, its SHA-256 is kept: nobody can guess those from the hash, so that
salt and slowness would add nothing. Tokens that people make up are therefore not taken.

Format history
--------------
1. first line ``colltune-tokens 1``; then a line per token: name, scopes joined by commas,
   ``sha256:`` and 64 hexadecimal digits, UTC time of expiry or ``-``, separated by blanks. Blank
   lines and those that begin with ``#`` are skipped.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from colltune.errors import say
from colltune.files import whole
from colltune.text import UNPRINTED

_FIRST_LINE = "colltune-tokens 1"
_FIELDS = 4
_PREFIX = "colltune_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_BYTES = 1 << 20
# measurements: of services that took them
_NO_SCOPES = {"-", "measurements"}
_OTHERS = stat.S_IRWXO | stat.S_IWGRP
_MEND = "make it with `colltune site token add`"


class Scope(StrEnum):
    """What a caller may be allowed to do; reading needs none."""

    PROMOTE = "promote"
    SUMMARIES = "summaries"


@dataclass(frozen=True)
class Token:
    """What is known of a token."""

    name: str
    """whose it is"""
    scopes: frozenset[Scope]
    """what it is good for"""
    sha256: str = field(metadata=UNPRINTED)
    expires: datetime | None = None
    """UTC time; null: never"""

    def is_expired(self, now: datetime) -> bool:
        return self.expires is not None and now >= self.expires


@dataclass(frozen=True)
class NewToken(Token):
    """A token that was just made."""

    token: str = field(kw_only=True, repr=False)
    """the token, told only now"""


def new_token() -> str:
    """Return a new secret of 256 random bits, recognisable by its beginning."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def matching(tokens: Iterable[Token], secret: str) -> Token | None:
    """Return the token that `secret` is, in a time that does not tell how close it came."""
    presented, found = digest(secret), None
    for token in tokens:
        if hmac.compare_digest(token.sha256, presented):
            found = token
    return found


def check_name(name: str) -> str:
    """Return `name` if a token may have it."""
    if not _NAME.fullmatch(name):
        raise say("not-a-name", name=name)
    return name


def read(path: Path, owner: int | None = None) -> tuple[Token, ...]:
    """Return the tokens of a file that belongs to this user, to root or to the `owner`."""
    try:
        # not to wait for who writes into a pipe
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_unsafe(path, os.fstat(descriptor), owner)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                content = stream.read(_MOST_BYTES + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise say("no-tokens", path=path) from None
    except OSError as error:
        raise say("tokens-unreadable", path=path, why=error.strerror) from error
    if len(content) > _MOST_BYTES:
        raise say("tokens-too-large", path=path, most=_MOST_BYTES)
    return _parsed(content.decode("utf-8", "replace"), path)


def write(path: Path, tokens: Sequence[Token]) -> None:
    """Write the file as `write_private` does."""
    lines = [_FIRST_LINE, "# name scopes sha256 expires", *map(_line, tokens)]
    write_private(path, "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a secret whole, readable by its owner only, or as narrowly as it was before.

    Written anew by an administrator, it stays with the service that reads it.
    """
    target, old = path.resolve(), None
    with suppress(OSError):
        old = target.stat()
    mode = 0o600 if old is None else stat.S_IMODE(old.st_mode) & 0o640 | stat.S_IRUSR
    with whole(target, mode) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW)
        with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(text)
            if old is not None:
                os.fchown(descriptor, old.st_uid, old.st_gid)


def _refuse_unsafe(path: Path, status: os.stat_result, owner: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise say("tokens-not-regular", path=path)
    if status.st_mode & _OTHERS:
        raise say("tokens-accessible", path=path, mode=stat.S_IMODE(status.st_mode))
    if status.st_uid not in (0, os.geteuid(), owner):
        raise say("tokens-of-another-user", path=path, uid=status.st_uid, own_uid=os.geteuid())


def _line(token: Token) -> str:
    expires = token.expires.astimezone(UTC).isoformat() if token.expires else "-"
    return f"{token.name} {','.join(sorted(token.scopes)) or '-'} sha256:{token.sha256} {expires}"


def _parsed(text: str, path: Path) -> tuple[Token, ...]:
    first, *rest = text.splitlines() or [""]
    if first.strip() != _FIRST_LINE:
        raise say("tokens-first-line", path=path)
    tokens: dict[str, Token] = {}
    for number, line in enumerate(rest, start=2):
        if not line.strip() or line.startswith("#"):
            continue
        token = _parsed_line(line, f"{path}, line {number}")
        if token.name in tokens:
            raise say("second-token", path=path, number=number, name=token.name)
        tokens[token.name] = token
    return tuple(tokens.values())


def _parsed_line(line: str, where: str) -> Token:
    """Return what a line says; an error never quotes it, lest a token stand there by mistake."""
    fields = line.split()
    if len(fields) != _FIELDS:
        raise say("token-words", where=where, count=len(fields))
    name, scopes, kept, expires = fields
    if not _NAME.fullmatch(name):
        raise say("token-name", where=where)
    if not _DIGEST.fullmatch(kept):
        raise say("token-hash", where=where)
    try:
        allowed = frozenset(map(Scope, {*scopes.split(",")} - _NO_SCOPES))
    except ValueError:
        raise say("token-scope", where=where, known=", ".join(Scope)) from None
    return Token(name, allowed, kept.removeprefix("sha256:"), _moment(expires, where))


def _moment(text: str, where: str) -> datetime | None:
    if text == "-":
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise say("token-expiry", where=where) from None
