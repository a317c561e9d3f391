"""A cache that forgets what was not used for longest, bounded in entries and in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Lru(Generic[Key, Value]):
    """Keeps at most so many entries of at most so many bytes in all; safe among threads."""

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
        """Return the value of `key`, which counts as used, or None."""
        with self._lock:
            value = self._found.get(key)
            if value is not None:
                self._found.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        """Keep `value`, and forget what is too much."""
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
        """Return all values, the least recently used first."""
        with self._lock:
            return list(self._found.values())

    def items(self) -> list[tuple[Key, Value]]:
        """Return all keys and values, the least recently used first."""
        with self._lock:
            return list(self._found.items())

    def __len__(self) -> int:
        return len(self._found)
