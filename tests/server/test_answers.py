"""A bounded cache."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from colltune.server.answers import Lru


def test_what_was_not_used_for_longest_goes_first() -> None:
    """Using an entry keeps it; what leaves is handed on."""
    gone: list[str] = []
    cache: Lru[int, str] = Lru(2, 100, lambda _key, value: len(value), gone.append)
    cache.put(1, "a")
    cache.put(2, "b")
    assert cache.get(1) == "a"
    cache.put(3, "c")
    assert (cache.get(2), gone) == (None, ["b"])
    assert cache.items() == [(1, "a"), (3, "c")]
    cache.put(1, "A")
    assert gone == ["b", "a"]
    assert cache.values() == ["c", "A"]


def test_what_is_too_large_is_not_kept() -> None:
    """An entry that would push out most others is left out, and pushes out none."""
    cache: Lru[int, str] = Lru(10, 100, lambda _key, value: len(value))
    cache.put(1, "a" * 25)
    cache.put(2, "b" * 26)
    assert cache.get(2) is None
    assert cache.get(1) is not None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60))
def test_bounds_hold_always(puts: list[tuple[int, int]]) -> None:
    """Neither entries nor bytes exceed their bound, and the bytes are those that are there."""
    cache: Lru[int, str] = Lru(5, 80, lambda _key, value: len(value))
    for key, size in puts:
        cache.put(key, "x" * size)
        assert len(cache) <= 5
        assert cache.bytes == sum(map(len, cache.values())) <= 80
