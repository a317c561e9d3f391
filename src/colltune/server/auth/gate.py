"""The gate before everything that writes: who asks, and whether he may."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import grp
import hashlib
import hmac
import logging
import os
import pwd
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import structlog
from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from colltune.errors import TokenFileError, say
from colltune.server.auth import token_file
from colltune.server.auth.token_file import Scope, Token
from colltune.server.errors import ServiceError
from colltune.server.limits import ThreadOffload, chunks
from colltune.server.settings import ServiceSettings

_LIBRARY = "libmunge.so.2"
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")
_OPT_SOCKET = 8
_SUCCESS, _SOCKET_ERROR = 0, 6
_HOW_MUNGE = 'make a new one for each request, with -H "Authorization: MUNGE $(munge -n)"'
_REASONS = {
    15: f"expired; {_HOW_MUNGE}",
    16: "made in the future: the clocks of the two hosts differ",
    17: f"used before; {_HOW_MUNGE}",
    18: "not made for this service: its uid or gid restriction excludes it",
}


@dataclass(frozen=True)
class Caller:
    """Who made a credential, and the payload that he put into it."""

    uid: int
    gid: int
    payload: bytes

    @property
    def user(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def groups(self) -> frozenset[str]:
        try:
            ids = os.getgrouplist(pwd.getpwuid(self.uid).pw_name, self.gid)
        except (KeyError, OSError):
            ids = [self.gid]
        names = set()
        for gid in ids:
            try:
                names.add(grp.getgrgid(gid).gr_name)
            except KeyError:
                names.add(str(gid))
        return frozenset(names)


def decode(credential: str, socket: Path | None = None) -> Caller:
    """Return who made `credential`, which is thereby used up."""
    if not _CREDENTIAL.fullmatch(credential):
        raise ServiceError(401, say("authorization", what="a whole MUNGE credential"))
    library = _library()
    context = library.munge_ctx_create()
    if not context:
        raise _unchecked("the MUNGE library has no memory left")
    payload, length = ctypes.c_void_p(), ctypes.c_int()
    uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
    try:
        if socket is not None:
            library.munge_ctx_set(context, _OPT_SOCKET, os.fsencode(socket))
        error = library.munge_decode(
            credential.encode("ascii"),
            context,
            ctypes.byref(payload),
            ctypes.byref(length),
            ctypes.byref(uid),
            ctypes.byref(gid),
        )
        content = ctypes.string_at(payload, length.value) if payload else b""
        _refuse(error, library.munge_strerror(error).decode("ascii", "replace"))
    finally:
        library.free(payload)
        library.munge_ctx_destroy(context)
    return Caller(uid.value, gid.value, content)


def _unchecked(why: str) -> ServiceError:
    return ServiceError(503, say("caller-not-checked", why=why), retry_s=30)


def _refuse(error: int, told: str) -> None:
    if error == _SOCKET_ERROR:
        raise _unchecked(f"munged does not answer ({told})")
    if error != _SUCCESS:
        why = _REASONS.get(error, f"refused by the MUNGE daemon ({told})")
        raise ServiceError(401, say("credential-refused", kind="MUNGE credential", why=why))


@functools.cache
def _library() -> ctypes.CDLL:
    """Load the library, with the types of what is called; ``free`` is the C library's."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise _unchecked("the service has no libmunge (package munge)") from None
    address = ctypes.c_void_p
    library.munge_ctx_create.restype = address
    library.munge_ctx_destroy.argtypes = [address]
    library.munge_ctx_destroy.restype = None
    library.munge_ctx_set.argtypes = [address, ctypes.c_int, ctypes.c_char_p]
    library.munge_decode.argtypes = [ctypes.c_char_p, *[address] * 5]
    library.munge_strerror.argtypes = [ctypes.c_int]
    library.munge_strerror.restype = ctypes.c_char_p
    library.free.argtypes = [address]
    library.free.restype = None
    return library


_LOG = logging.getLogger("colltune.server.auth")
_THREADS, _MOST_WAITING = 4, 64
_PATIENCE_S = 5.0
_MOST_IGNORED_BYTES = 1 << 16


@dataclass(frozen=True)
class Admission:
    """A caller who may do what he asks for, if his credential was made for this very request.

    ``caller`` is how logs and the registry's history name him: ``ci (token)``, ``alice (munge)``.
    """

    caller: str
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
            raise ServiceError(401, say("munge-payload", why="was made for another request"))


class TokenStore:
    """The tokens of one file, which is read anew when it has changed; safe among threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: object = None
        self._tokens: tuple[Token, ...] = ()
        self._fault = ""

    def token(self, secret: str) -> Token:
        found = token_file.matching(self._current(), secret)
        if found is None:
            why = "unknown: it was revoked, or it never existed"
            raise ServiceError(401, say("credential-refused", kind="token", why=why))
        if found.is_expired(datetime.now(UTC)):
            kind, why = f"token {found.name}", f"expired since {found.expires}"
            raise ServiceError(401, say("credential-refused", kind=kind, why=why))
        return found

    def _current(self) -> tuple[Token, ...]:
        with self._lock:
            state: object
            try:
                now = self._path.stat()
                state = now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
            except OSError as error:
                state = str(error)
            if state != self._seen:
                self._read()
                # a file that is unusable for another reason than its content is tried again
                self._seen = None if self._fault else state
            if self._fault:
                raise _unchecked("the service's token file is unusable, as its log says")
            return self._tokens

    def _read(self) -> None:
        try:
            self._tokens = token_file.read(self._path)
        except TokenFileError as error:
            if str(error) != self._fault:
                _LOG.error("no client can write until this is mended: %s", error)
            self._fault = str(error)
            return
        self._fault = ""
        _LOG.info("%s: %d tokens in force", self._path, len(self._tokens))


class Gate:
    """Admits callers. Its methods read files and ask a daemon: call them in a thread."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._tokens = TokenStore(settings.tokens) if settings.tokens else None

    def admit(
        self, authorizations: Sequence[str], scope: Scope, method: str, target: str
    ) -> Admission:
        if self._tokens is None and not self._settings.munge:
            option = "--tokens FILE (colltune site token add) or --munge"
            raise ServiceError(403, say("not-offered", lacks="is read-only", option=option))
        if len(authorizations) != 1:
            raise ServiceError(401, say("authorization", what="one Authorization header"))
        kind, _, credential = authorizations[0].strip().partition(" ")
        if kind.lower() == "bearer":
            return self._by_token(credential.strip(), scope)
        if kind.lower() == "munge":
            return self._by_munge(credential.strip(), scope, f"{method} {target}")
        raise ServiceError(401, say("authorization", what="a token or a MUNGE credential"))

    def knows(self, authorizations: Sequence[str]) -> bool:
        """Tell whether a caller has a token that is in force, of whatever scope."""
        kind, _, secret = "".join(authorizations[:1]).strip().partition(" ")
        if self._tokens is None or len(authorizations) != 1 or kind.lower() != "bearer":
            return False
        try:
            self._tokens.token(secret.strip())
        except ServiceError:
            return False
        return True

    def _by_token(self, secret: str, scope: Scope) -> Admission:
        if self._tokens is None:
            raise ServiceError(401, say("authorization", what="a MUNGE credential, no token"))
        token = self._tokens.token(secret)
        if scope not in token.scopes:
            who = f"the token {token.name}"
            raise ServiceError(403, say("not-permitted", who=who, scope=scope))
        return Admission(f"{token.name} (token)")

    def _by_munge(self, credential: str, scope: Scope, head: str) -> Admission:
        settings = self._settings
        if not settings.munge:
            raise ServiceError(401, say("authorization", what="a token, no MUNGE credential"))
        caller = decode(credential, settings.munge_socket)
        allowed = settings.munge_allowed()[scope]
        groups = {name[1:] for name in allowed if name.startswith("@")}
        if not ({"*", caller.user, str(caller.uid)} & allowed or groups & caller.groups()):
            who = f"user {caller.user} (uid {caller.uid})"
            raise ServiceError(403, say("not-permitted", who=who, scope=scope))
        if settings.munge_bound and not caller.payload:
            raise ServiceError(401, say("munge-payload", why="has no payload"))
        return Admission(f"{caller.user} (munge)", caller.payload or None, head)


class Gatekeeper:
    """A gate that may be asked from the event loop.

    It works in its own few threads: who floods the service with credentials, or a daemon that
    hangs, keeps no reader from his answer.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._gate = Gate(settings)
        self.threads = ThreadOffload(_THREADS, _MOST_WAITING, "callers to be checked at once")

    async def knows(self, request: Request) -> bool:
        authorizations = request.headers.getlist("authorization")
        work = self.threads.run(object(), lambda: self._gate.knows(authorizations))
        try:
            return await asyncio.wait_for(work, _PATIENCE_S)
        except (TimeoutError, ServiceError):
            return False

    async def admit(self, request: Request, scope: Scope) -> Admission:
        authorizations = request.headers.getlist("authorization")
        raw = request.scope.get("raw_path") or quote(request.url.path).encode()
        query = request.scope.get("query_string", b"")
        target = bytes(raw + b"?" + query if query else raw).decode("latin-1")
        work = self.threads.run(
            object(), lambda: self._gate.admit(authorizations, scope, request.method, target)
        )
        try:
            return await asyncio.wait_for(work, _PATIENCE_S)
        except TimeoutError:
            refused = _unchecked("the token file's folder or munged hangs")
        except ServiceError as error:
            refused = error
        client = (request.scope.get("client") or ("",))[0]
        structlog.get_logger(_LOG.name).info(
            "refused", status=refused.status, client=client, why=str(refused)
        )
        raise refused


_Token = Annotated[
    object,
    Security(
        HTTPBearer(
            scheme_name="token",
            auto_error=False,
            description="A token from `colltune site token add`.",
        )
    ),
]
_Munge = Annotated[
    object,
    Security(
        APIKeyHeader(
            name="Authorization",
            scheme_name="munge",
            auto_error=False,
            description='`MUNGE` and a credential: `curl -H "Authorization: MUNGE $(munge -n)"`.',
        )
    ),
]


async def reporter(request: Request, _token: _Token, _munge: _Munge) -> Admission:
    """Return who sends what jobs report; the endpoint checks the body."""
    keeper: Gatekeeper = request.app.state.gatekeeper
    return await keeper.admit(request, Scope.SUMMARIES)


async def promoter(request: Request, _token: _Token, _munge: _Munge) -> str:
    """Return who promotes, after comparing his credential with the whole request."""
    keeper: Gatekeeper = request.app.state.gatekeeper
    admission = await keeper.admit(request, Scope.PROMOTE)
    digest = hashlib.sha256()
    async for chunk in chunks(request, _MOST_IGNORED_BYTES):
        digest.update(chunk)
    admission.check_body(digest.hexdigest())
    return admission.caller
