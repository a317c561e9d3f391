"""Hooks: a program and a POST are told what a run did. Their failure never changes the result."""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from colltune import process
from colltune.errors import ColltuneError, ProgramError, SiteError
from colltune.retraining.site_file import Hooks, Webhook

_LONGEST_SECRET = 4096


def notify(hooks: Hooks, facts: Mapping[str, Any]) -> dict[str, str]:
    """Tell what happened and return how each hook fared: ``sent``, or why not."""
    result = {}
    command, webhook, timeout_s = hooks.command, hooks.webhook, hooks.timeout_s
    if command is not None:
        result["command"] = _tried(lambda: _run(command, facts, timeout_s))
    if webhook is not None:
        result["webhook"] = _tried(lambda: _post(webhook, facts, timeout_s))
    return result


def _tried(send: Callable[[], None]) -> str:
    try:
        send()
    except (OSError, HTTPException, ValueError, ColltuneError) as error:
        return f"failed: {error}"
    return "sent"


def _run(command: tuple[str, ...], facts: Mapping[str, Any], timeout_s: float) -> None:
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(facts, allow_nan=False).encode())
        stdin.seek(0)
        outcome = process.run(command, timeout_s=timeout_s, stdin=stdin)
    if not outcome.ok:
        raise ProgramError(" ".join(outcome.explain().split()))


def _post(webhook: Webhook, facts: Mapping[str, Any], timeout_s: float) -> None:
    headers = {"Content-Type": "application/json"}
    if webhook.secret_file is not None:
        headers[webhook.header] = _secret(webhook.secret_file)
    body = json.dumps(facts, allow_nan=False).encode()
    request = urllib.request.Request(webhook.url, body, headers, method="POST")  # noqa: S310
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"{webhook.url} answers {error.code}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection, which would carry the secret to wherever it points."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def _secret(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            found = stream.read(_LONGEST_SECRET).partition(b"\n")[0].strip().decode("ascii")
    except OSError as error:
        raise SiteError(f"hooks.webhook.secret_file {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        found = ""
    if not found or not found.isprintable():
        raise SiteError(
            f"hooks.webhook.secret_file {file}: its first line is no secret of printable ASCII"
        )
    return found
