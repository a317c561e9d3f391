"""MUNGE credentials, decoded by the daemon of this host through its library.

A service with many threads and large models need not fork ``unmunge`` for each request. A call may
take some seconds where the daemon hangs, so it belongs in a thread.
"""

from __future__ import annotations

import ctypes
import functools
import grp
import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path

from colltune.server.errors import ServiceError

_LIBRARY = "libmunge.so.2"
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")
_OPT_SOCKET = 8
_SUCCESS, _SOCKET_ERROR = 0, 6
_HOW = 'make a new one for each request, with -H "Authorization: MUNGE $(munge -n)"'
_REASONS = {
    15: f"expired; {_HOW}",
    16: "made in the future: the clocks of the two hosts differ",
    17: f"used before; {_HOW}",
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
        raise ServiceError(401, f"this is not a MUNGE credential; {_HOW}")
    library = _library()
    context = library.munge_ctx_create()
    if not context:
        raise ServiceError(503, "the MUNGE library has no memory left", retry_s=30)
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


def _refuse(error: int, told: str) -> None:
    if error == _SOCKET_ERROR:
        raise ServiceError(
            503,
            f"the service's MUNGE daemon does not answer ({told}). Its administrator should "
            "start munged; a token also works.",
            retry_s=30,
        )
    if error != _SUCCESS:
        why = _REASONS.get(error, f"refused by the MUNGE daemon ({told})")
        raise ServiceError(401, f"this MUNGE credential is {why}")


@functools.cache
def _library() -> ctypes.CDLL:
    """Load the library, with the types of what is called; ``free`` is the C library's."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise ServiceError(
            503,
            "the service cannot check MUNGE credentials, because it has no libmunge. Its "
            "administrator should install munge; a token also works.",
            retry_s=30,
        ) from None
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
