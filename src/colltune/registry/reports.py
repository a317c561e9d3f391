"""Reports in a registry, numbered like its events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from colltune.errors import BundleError
from colltune.files.reading import json_of
from colltune.registry.store import Store

KINDS = ("drift", "verify", "retrain")
FORMAT = "colltune-registry-report"
FORMAT_VERSION = 1
_FILE = re.compile(r"(\d{8})\.json")


def put(store: Store, kind: str, content: Mapping[str, Any]) -> None:
    report = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "content": dict(content),
    }
    try:
        text = json.dumps(report, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BundleError(f"a report on {kind} that is no JSON: {error}") from error
    number = max(numbers(store, kind, fresh=True), default=0) + 1
    while not store.create(key(kind, number), text.encode()):
        number += 1


def latest(store: Store, kind: str) -> dict[str, Any] | None:
    """Return the content of the latest report that can be read."""
    for number in sorted(numbers(store, kind), reverse=True):
        found = _content(store.read(key(kind, number)))
        if found is not None:
            return found
    return None


def numbers(store: Store, kind: str, *, fresh: bool = False) -> list[int]:
    if kind not in KINDS:
        raise BundleError(f"there is no report on {kind[:80]!a}; known: {', '.join(KINDS)}")
    matches = (_FILE.fullmatch(name) for name in store.names(f"reports/{kind}", fresh=fresh))
    return [int(match[1]) for match in matches if match]


def key(kind: str, number: int) -> str:
    return f"reports/{kind}/{number:08d}.json"


def _content(text: bytes | None) -> dict[str, Any] | None:
    try:
        report = json_of(text or b"")
        if report["format"] != FORMAT or report["format_version"] > FORMAT_VERSION:
            return None
        content = report["content"]
    except (ValueError, TypeError, KeyError):
        return None
    return content if isinstance(content, dict) else None
