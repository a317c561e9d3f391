"""Answers as they go out, kept ready for the next client who asks the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from colltune.domain import Shape
from colltune.server.job_counts import CountedRequest

Headers = tuple[tuple[bytes, bytes], ...]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
_OVERHEAD_BYTES = 1500

CONTENT_POLICY = "Content-Security-Policy"
CLOSED_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    f" {CLOSED_POLICY}"
)
"""Of the page, whose scripts and styles are files of the service."""


class GivenArm(NamedTuple):
    """The arm that a job was given in a slot, with the bundle."""

    job: str
    slot: str
    arm: str
    bundle_id: str


@dataclass(frozen=True)
class ResponseDocument:
    """What a request is answered with.

    ``etag`` is empty where the content is not to be kept; ``bundle_id`` is what it was made from;
    ``headers`` are sent in addition to the usual ones; ``kept`` and ``replaced`` name the
    collectives whose default was kept or replaced; ``demanded`` are the library, release and shape
    of each job, ``asked`` what a request for a job's files asked for and got, ``given`` its arm;
    ``is_for_job`` tells that it is what a batch system's hooks ask for.
    """

    body: bytes
    media_type: str
    etag: str = ""
    bundle_id: str = ""
    headers: Mapping[str, str] | None = None
    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    demanded: tuple[tuple[str, str, Shape], ...] = ()
    asked: CountedRequest | None = None
    given: GivenArm | None = None
    is_for_job: bool = False


Recipe = tuple[Callable[..., ResponseDocument], tuple[object, ...]]
"""A function of a state and these arguments, which makes another state's answer to the same."""


class Answer:
    """A document with its headers, and how often it went out since that was last counted."""

    __slots__ = ("body", "document", "etag", "headers", "hits", "recipe", "route", "short_headers")

    def __init__(
        self, document: ResponseDocument, route: str, recipe: Recipe | None = None
    ) -> None:
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


class Lru(Generic[Key, Value]):
    """Keeps so many entries of so many bytes in all, the last used ones; safe among threads.

    ``size_bytes`` weighs an entry; one heavier than a quarter of all is not kept. ``dropped`` is
    called with every value that leaves.
    """

    def __init__(
        self,
        max_entries: int,
        max_bytes: int,
        size_bytes: Callable[[Key, Value], int],
        dropped: Callable[[Value], None] = lambda _value: None,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._size_bytes = size_bytes
        self._dropped = dropped
        self._found: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def get(self, key: Key) -> Value | None:
        with self._lock:
            value = self._found.get(key)
            if value is not None:
                self._found.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        size = self._size_bytes(key, value)
        if size > self._max_bytes // 4:
            return
        gone = []
        with self._lock:
            old = self._found.pop(key, None)
            if old is not None:
                self.bytes -= self._size_bytes(key, old)
                gone.append(old)
            self._found[key] = value
            self.bytes += size
            while len(self._found) > self._max_entries or self.bytes > self._max_bytes:
                first, least = self._found.popitem(last=False)
                self.bytes -= self._size_bytes(first, least)
                gone.append(least)
        for value_gone in gone:
            self._dropped(value_gone)

    def values(self) -> list[Value]:
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[Key, Value]]:
        """Return all keys and values, the least recently used first."""
        with self._lock:
            return list(self._found.items())

    def __len__(self) -> int:
        return len(self._found)


Answers = Lru[tuple[str, bytes], Answer]
"""By path and query."""


def answer_bytes(key: tuple[str, bytes], answer: Answer) -> int:
    return _OVERHEAD_BYTES + len(key[0]) + len(key[1]) + len(answer.body)
