"""Answers as they go out, kept ready for the next client who asks the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from colltune.domain import Shape

Headers = tuple[tuple[bytes, bytes], ...]
_OVERHEAD_BYTES = 1500


@dataclass(frozen=True)
class Demanded:
    """What a job asked for."""

    library: str
    release: str
    shape: Shape


@dataclass(frozen=True)
class Document:
    """What a request is answered with.

    ``etag`` is empty where the content is not to be kept; ``bundle_id`` is what it was made from;
    ``headers`` go beside the usual ones;
    ``kept`` and ``replaced`` count the collectives whose default was kept or replaced, by name;
    ``demanded`` are the jobs' shapes that it is for.
    """

    body: bytes
    media_type: str
    etag: str = ""
    bundle_id: str = ""
    headers: Mapping[str, str] | None = None
    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    demanded: tuple[Demanded, ...] = ()


Recipe = tuple[Callable[..., Document], tuple[object, ...]]
"""A function of a state and these arguments."""


class Answer:
    """A document with its headers made, and how often it went out since that was last counted."""

    __slots__ = ("body", "document", "etag", "headers", "hits", "recipe", "route", "short_headers")

    def __init__(self, document: Document, route: str, recipe: Recipe | None = None) -> None:
        self.document = document
        self.route = route
        self.recipe = recipe
        self.body = document.body
        self.etag = document.etag.encode()
        told = {"X-Colltune-Bundle": document.bundle_id} if document.bundle_id else {}
        told |= document.headers or {}
        more = [(name.lower().encode(), value.encode()) for name, value in told.items()]
        kept = [(b"etag", self.etag)] if self.etag else []
        self.short_headers: Headers = (*kept, (b"cache-control", b"no-cache"), *more)
        self.headers: Headers = (
            (b"content-type", document.media_type.encode()),
            (b"content-length", str(len(self.body)).encode()),
            *self.short_headers,
        )
        self.hits = 0

    def is_known(self, if_none_match: bytes) -> bool:
        """Tell whether a client who sends this ``If-None-Match`` has it already."""
        if not self.etag or not if_none_match:
            return False
        if if_none_match == self.etag:
            return True
        known = [tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b",")]
        return self.etag in known or known == [b"*"]


def answer_bytes(key: tuple[str, bytes], answer: Answer) -> int:
    """Return what an answer weighs in memory, about."""
    return _OVERHEAD_BYTES + len(key[0]) + len(key[1]) + len(answer.body)
