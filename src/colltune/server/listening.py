"""The socket that a service listens on."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from colltune.errors import OutputError

_BACKLOG = 2048
_CONNECT_S = 1.0


def tcp(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 takes a free one.

    Raises
    ------
    OutputError
        If that is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        why = getattr(error, "strerror", None) or error
        raise OutputError(
            f"cannot listen on {host} port {port}: {why}; choose another --host or --port"
        ) from error
    found.set_inheritable(True)
    return found


def unix(path: Path, mode: int) -> socket.socket:
    """Return a unix socket bound to `path`, with permissions `mode`.

    A socket on which nobody listens any more is replaced; nothing else is.

    Raises
    ------
    OutputError
        If that is not possible.
    """
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        # nobody may connect before the permissions are right
        mask = os.umask(0o777 & ~mode)
        try:
            found.bind(str(path))
        finally:
            os.umask(mask)
        path.chmod(mode)
    except (OSError, ValueError) as error:
        found.close()
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot listen on {path}: {why}; choose another --uds") from error
    found.set_inheritable(True)
    return found


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(None, "exists and is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(None, "another service listens there")


def address(found: socket.socket, *, tls: bool) -> str:
    """Return where a socket is reached, for people."""
    if found.family == socket.AF_UNIX:
        return f"unix:{found.getsockname()}"
    host, port = found.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
