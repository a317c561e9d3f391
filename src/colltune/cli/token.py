"""`colltune site token …`: who may write to the service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import Mark, TextTable, Verbatim, marked, output
from colltune.cli.options import Json
from colltune.errors import TokenFileError, UsageError, say, unknown

if TYPE_CHECKING:
    from datetime import datetime

    from colltune.server.auth.token_file import Token


@dataclass(frozen=True)
class RevokedToken:
    """What `site token revoke` prints."""

    revoked: str
    """whose it was"""
    left: int
    """tokens that are left"""


token = typer.Typer(
    help="Create, list and revoke the tokens of clients that may write to the service.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Tokens = Annotated[
    Path,
    typer.Option(
        "--tokens",
        metavar="FILE",
        envvar="COLLTUNE_SERVER_TOKENS",
        help="File with the hashed tokens, as in `colltune serve --tokens`.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, such as nightly-ci.")]


@token.command("add")
def add(
    name: Name,
    tokens: Tokens,
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="SCOPE",
            help="What the token allows: measurements (send measurements), promote (promote "
            "bundles and roll back), summaries (report what jobs cost); repeatable.",
        ),
    ],
    expires: Annotated[
        str,
        typer.Option(metavar="WHEN", help="Expiry: 90d, a UTC date such as 2027-01-31, or never."),
    ] = "365d",
    json: Json = False,
) -> None:
    """Create a token and print it. It is shown only once, because only its hash is stored.

    A running service accepts it at once.

    Example: colltune site token add nightly-ci --tokens /etc/colltune/tokens --scope promote
    """
    from colltune.server.auth import token_file

    scopes, until = _scopes(scope), _until(expires)
    token_file.check_name(name)
    secret = token_file.new_token()
    with _changed(tokens) as entries:
        if any(entry.name == name for entry in entries):
            raise say("token-exists", path=tokens, name=name)
        hashed = token_file.digest(secret)
        entries.append(made := token_file.NewToken(name, scopes, hashed, until, token=secret))
    once = f"the token of {name} is shown only now; store it where only its user can read it"
    output(made, [Verbatim(secret)], json=json, warnings=[once])


@token.command("list")
def list_(tokens: Tokens, json: Json = False) -> None:
    """Show the tokens' names, what they are good for, and until when.

    Example: colltune site token list --tokens /etc/colltune/tokens
    """
    from datetime import UTC, datetime

    entries = _read(tokens)
    now = datetime.now(UTC)
    rows = [[e.name, ", ".join(sorted(e.scopes)), _validity(e, now)] for e in entries]
    table = TextTable(("name", "scopes", "valid"), rows, wrap=("scopes", "valid"))
    output(entries, [table], json=json)


@token.command("revoke")
def revoke(name: Name, tokens: Tokens, json: Json = False) -> None:
    """Remove a token; a service that is running refuses it from now on.

    Example: colltune site token revoke nightly-ci --tokens /etc/colltune/tokens
    """
    with _changed(tokens) as entries:
        left = [entry for entry in entries if entry.name != name]
        if len(left) == len(entries):
            known = [entry.name for entry in entries] or ["none"]
            raise unknown("token", name, known, TokenFileError).of(str(tokens))
        entries[:] = left
    output(RevokedToken(name, len(left)), [f"{name} is revoked"], json=json)


@contextmanager
def _changed(path: Path) -> Iterator[list[Token]]:
    """Yield the file's tokens, to be changed and written back, one at a time."""
    from colltune.files import insist_writable, locked
    from colltune.server.auth import token_file

    insist_writable(path, folder=False)
    with locked(path.with_name(f".{path.name}.lock")):
        entries = list(_read(path)) if path.exists() or path.is_symlink() else []
        yield entries
        token_file.write(path, entries)


def _read(path: Path) -> tuple[Token, ...]:
    """Return the tokens of a file, whose owner is trusted by who names it."""
    from contextlib import suppress

    from colltune.server.auth import token_file

    owner = None
    with suppress(OSError):
        owner = path.stat().st_uid
    return token_file.read(path, owner)


def _scopes(names: list[str]) -> frozenset[Any]:
    from colltune.server.auth.token_file import Scope

    for name in names:
        if name not in [*Scope]:
            raise unknown("--scope", name, Scope, UsageError)
    return frozenset(map(Scope, names))


def _until(text: str) -> datetime | None:
    """Return the UTC time that `text` stands for."""
    from datetime import UTC, datetime, timedelta

    if text == "never":
        return None
    now = datetime.now(UTC)
    try:
        if text.endswith("d") and text[:-1].isdecimal():
            return (now + timedelta(days=int(text[:-1]))).replace(microsecond=0)
        moment = datetime.fromisoformat(text)
        until = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        what, like = "a time for --expires", "90d, 2027-01-31 or never"
        raise say("malformed", UsageError, value=text, what=what, like=like) from None
    if until <= now:
        raise say("not-allowed", UsageError, value=text, wanted="in the future (--expires)")
    return until


def _validity(entry: Token, now: datetime) -> str:

    if entry.expires is None:
        return "never expires"
    if entry.is_expired(now):
        return marked(f"expired {entry.expires.isoformat()}", Mark.DOUBTFUL)
    return f"until {entry.expires.isoformat()}"
