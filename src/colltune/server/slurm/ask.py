"""Asks the service from a job, with the standard library alone and within a limit of time."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from urllib.parse import urlsplit

from colltune.errors import ColltuneError, say
from colltune.files.reading import json_of
from colltune.server.slurm.job_file import LARGEST_BYTES, AnswerError

_OK = 200
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_SHOWN_CHARACTERS = 200
_FAREWELL_S = 0.1
_UNIX = "unix:"


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(
    url: str,
    path: str,
    limit_s: float,
    method: str = "GET",
    headers: Mapping[str, str] = _NO_HEADERS,
    expected: int = _OK,
) -> bytes:
    """Return what the service at `url` answers for `path`; another status than expected raises."""
    connection = _connection(url, limit_s)
    found: list[bytes | Exception] = []

    def talk() -> None:
        try:
            found.append(_talk(connection, method, path, headers, expected))
        except Exception as error:
            found.append(error)

    # neither a name look-up nor a server that sends a byte at a time heeds a socket's timeout
    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            thread.join(_FAREWELL_S)
        raise say("no-answer", AnswerError, url=url, limit_s=limit_s)
    (answer,) = found
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, ColltuneError):
        raise answer
    raise say("not-read", AnswerError, path=url, why=str(answer) or type(answer).__name__)


def _connection(url: str, limit_s: float) -> http.client.HTTPConnection:
    if url.startswith(_UNIX) and len(url) > len(_UNIX):
        socket_path = "/" + url.removeprefix(_UNIX).lstrip("/")
        return _UnixConnection(socket_path, limit_s)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
        what, like = "the address of a service", "http://HOST:PORT, https://… or unix:/SOCKET"
        raise say("malformed", AnswerError, value=url, what=what, like=like)
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=limit_s)
    return http.client.HTTPConnection(host, port, timeout=limit_s)


def _talk(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    headers: Mapping[str, str],
    expected: int,
) -> bytes:
    try:
        connection.request(method, path, headers=dict(headers))
        response = connection.getresponse()
        body = response.read(LARGEST_BYTES + 1)
    finally:
        connection.close()
    if response.status != expected:
        raise say("service-says", AnswerError, status=response.status, detail=_detail(body))
    length = response.headers.get("Content-Length", "")
    if length.isdigit() and len(body) < min(int(length), LARGEST_BYTES):
        raise say("wrong-answer", AnswerError, why=f"only {len(body)} of {length} bytes")
    return body


def _detail(body: bytes) -> str:
    try:
        told = str(json_of(body)["detail"])
    except (ValueError, KeyError, TypeError):
        told = "no reason given"
    return told[:_SHOWN_CHARACTERS]
