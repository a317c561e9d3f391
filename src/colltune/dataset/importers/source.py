"""A file to be imported: its lines, whatever its bytes, and its digest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from colltune.errors import DataError
from colltune.files.reading import opened
from colltune.files.unpacking import unpacked

_LONGEST_LINE = 1 << 20
_LINES_BETWEEN = 10_000


@dataclass(frozen=True)
class Source:
    """A file, plain or gzipped, of which only the bytes count and not its name's ending.

    `with_folder` tells that its name alone does not tell it from others. `progress` is called with
    the bytes read so far, once in a while.
    """

    path: Path
    with_folder: bool = False
    progress: Callable[[int], None] = field(default=lambda _bytes: None, compare=False)

    @property
    def name(self) -> str:
        """The path as the user gave it."""
        return str(self.path)

    @property
    def launch(self) -> str:
        """The launch's name where the user gives none: the file's, without ``.gz``."""
        name = self.path.name.removesuffix(".gz")
        return f"{self.path.absolute().parent.name}/{name}" if self.with_folder else name

    def lines(self) -> Iterator[str]:
        """Yield its lines, ended by a line feed; bytes that are no UTF-8 become a placeholder."""
        try:
            with unpacked(self.path) as (raw, content):
                text = io.TextIOWrapper(content, encoding="utf-8-sig", errors="replace")
                for number in count():
                    if number % _LINES_BETWEEN == 0:
                        self.progress(raw.tell())
                    if not (line := text.readline(_LONGEST_LINE)):
                        break
                    yield line
        except OSError as error:
            raise self.unreadable(error) from error

    def sha256(self) -> str:
        """Return the SHA-256 of its bytes, as ``sha256sum`` prints it."""
        try:
            with opened(self.path) as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: BaseException) -> DataError:
        """Return the error that says why it cannot be read."""
        if isinstance(error, FileNotFoundError):
            return DataError(f"{self.path}: no such file")
        if isinstance(error, IsADirectoryError):
            return DataError(
                f"{self.path}: a folder; name the files in it, {self.path}/*: what --set says must"
                " hold for all of them"
            )
        why = getattr(error, "strerror", None) or error
        return DataError(f"{self.path}: cannot be read to its end: {why}; was it cut short?")
