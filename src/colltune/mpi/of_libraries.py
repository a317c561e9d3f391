"""What the registered libraries have, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

Source = TypeVar("Source")
Item = TypeVar("Item")


class OfLibraries(Mapping[str, Item], Generic[Source, Item]):
    """What the libraries have that are registered when it is asked for.

    Parameters
    ----------
    sources
        Returns what there is now, by name.
    made
        Returns an item of its source.
    """

    def __init__(
        self, sources: Callable[[], Mapping[str, Source]], made: Callable[[Source], Item]
    ) -> None:
        self._sources, self._made = sources, made

    def __getitem__(self, name: str) -> Item:
        return self._made(self._sources()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources())

    def __len__(self) -> int:
        return len(self._sources())
