"""What stands around a worker: its socket, how uvicorn runs it, who started it, and its log."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import resource
import signal
import socket
import stat
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from colltune.errors import say
from colltune.process import end_with_parent
from colltune.server.settings import TRUSTED_PEER

APP = "colltune.server.app:worker_app"
_GRACE_S = 10
_KEEP_ALIVE_S = 30
_MOST_CONNECTIONS = 4096
_FILES_FOR_OTHERS = 128
_CONNECT_S = 1.0
_SECRET_NAMES = re.compile(r"authorization|token|secret|password|credential|cookie", re.IGNORECASE)
_SECRETS = re.compile(r"((?:\b[Bb]earer +)|(?:\bMUNGE:)|(?:\bcolltune_(?=[\w-]{40})))[^\s\"',]+")
_HIDDEN = "[hidden]"
_Event = MutableMapping[str, Any]


def uvicorn_config(app: str = APP, *, workers: int = 1, **more: Any) -> uvicorn.Config:
    """Return how uvicorn runs `app`, ``module:factory``; `more` are options of its own."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else files - _FILES_FOR_OTHERS
    return uvicorn.Config(
        app,
        factory=True,
        http="colltune.server.connections:BoundedProtocol",
        loop="colltune.server.connections:Loop",
        ws="none",
        workers=workers,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=max(64, min(_MOST_CONNECTIONS, room)),
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        **more,
    )


def settle_in() -> None:
    """Take a working folder that exists, and open the standard streams that are closed.

    A socket that took the number of a standard stream would be written to, and libuv would not
    close it; a removed folder is one in which no worker can be started.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # the lowest free number, which is this one
            os.open(os.devnull, os.O_RDWR)
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        os.chdir("/")


def end_with_supervisor() -> None:
    """End when the process that started this worker does, which would otherwise keep the socket.

    Where there is no such process, nothing happens: a service goes on without the shell that it
    was started from.
    """
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return
    end_with_parent()
    if os.getppid() != supervisor.pid:
        os.kill(os.getpid(), signal.SIGTERM)


def tcp_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        why = getattr(error, "strerror", None) or error
        at, option = f"{host} port {port}", "--host or --port"
        raise say("cannot-listen", address=at, why=why, option=option) from error
    found.set_inheritable(True)
    return found


def unix_socket(path: Path, mode: int) -> socket.socket:
    """Return a unix socket bound to `path`, with permissions `mode`.

    A socket on which nobody listens any more is replaced; nothing else is.
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
        raise say("cannot-listen", address=path, why=why, option="--uds") from error
    found.set_inheritable(True)
    return found


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(None, "it exists and is not a socket")
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


def who_may_name_clients(found: socket.socket) -> str | None:
    """Return uvicorn's ``forwarded_allow_ips`` for a socket; None: as the environment has it.

    Over a unix socket everybody who can open it would be believed; there it depends on the user at
    the other end, unless the socket's permissions already choose who may open it.
    """
    if found.family != socket.AF_UNIX:
        return None
    is_for_all = Path(found.getsockname()).stat().st_mode & stat.S_IWOTH
    believes_all = os.environ.get("FORWARDED_ALLOW_IPS", "").strip() == "*"
    return "*" if believes_all and not is_for_all else TRUSTED_PEER


def address(found: socket.socket, *, tls: bool) -> str:
    if found.family == socket.AF_UNIX:
        return f"unix:{found.getsockname()}"
    host, port = found.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def without_secrets(_logger: Any, _method: str, event: _Event) -> _Event:
    """Hide what is called like a secret or looks like one."""
    for name, value in event.items():
        if _SECRET_NAMES.search(name):
            event[name] = _HIDDEN
        elif isinstance(value, str):
            event[name] = _SECRETS.sub(rf"\1{_HIDDEN}", value)
    return event


def _without_colours(_logger: Any, _method: str, event: _Event) -> _Event:
    event.pop("color_message", None)
    return event


def log_as_json(level: str) -> None:
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _without_colours,
            without_secrets,
            structlog.processors.JSONRenderer(),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers.clear()
    # the service logs requests by itself, if it is to
    logging.getLogger("uvicorn.access").disabled = True
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
