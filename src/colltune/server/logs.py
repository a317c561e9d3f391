"""Logs: one line of JSON each on standard error, without secrets."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_SECRET_NAMES = re.compile(r"authorization|token|secret|password|credential|cookie", re.IGNORECASE)
_SECRETS = re.compile(r"((?:\b[Bb]earer +)|(?:\bMUNGE:)|(?:\bcolltune_(?=[\w-]{40})))[^\s\"',]+")
_HIDDEN = "[hidden]"
Event = MutableMapping[str, Any]


def without_secrets(_logger: Any, _method: str, event: Event) -> Event:
    """Hide what is called like a secret or looks like one."""
    for name, value in event.items():
        if _SECRET_NAMES.search(name):
            event[name] = _HIDDEN
        elif isinstance(value, str):
            event[name] = _SECRETS.sub(rf"\1{_HIDDEN}", value)
    return event


def _without_colours(_logger: Any, _method: str, event: Event) -> Event:
    event.pop("color_message", None)
    return event


def configure(level: str) -> None:
    """Make structlog and the standard library's loggers write JSON to standard error."""
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
