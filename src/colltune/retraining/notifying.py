"""Hooks: an email and a POST that tell what a run did. Their failure never changes the result."""

from __future__ import annotations

import json
import smtplib
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import EmailMessage
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from colltune.errors import ColltuneError, SiteError
from colltune.retraining.site_file import Email, Hooks, Webhook

_LONGEST_SECRET = 4096


def notify(hooks: Hooks, subject: str, text: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """Tell what happened and return how each hook fared: ``sent``, or why not."""
    result = {}
    if hooks.email is not None:
        result["email"] = _tried(lambda: _mail(hooks.email, subject, text, hooks.timeout_s))
    if hooks.webhook is not None:
        result["webhook"] = _tried(lambda: _post(hooks.webhook, facts, hooks.timeout_s))
    return result


def _tried(send: Any) -> str:
    try:
        send()
    except (OSError, smtplib.SMTPException, HTTPException, ValueError, ColltuneError) as error:
        return f"failed: {error}"
    return "sent"


def _mail(email: Email, subject: str, text: str, timeout_s: float) -> None:
    message = EmailMessage()
    message["Subject"] = " ".join(subject.split())
    message["From"] = email.sender
    message["To"] = ", ".join(email.to)
    message.set_content(text)
    with smtplib.SMTP(email.host, email.port, timeout=timeout_s) as host:
        if email.starttls:
            host.starttls(context=ssl.create_default_context())
        host.send_message(message)


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

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> None:
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
