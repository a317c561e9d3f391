"""Reading a report's HTML back."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"link", "meta", "wbr"}
Table = list[list[str]]


@dataclass
class Page(HTMLParser):
    """What a page holds.

    ``tables`` are (caption, rows) with the header as the first row; ``pictures`` the titles of the
    pictures; ``attributes`` all (tag, name, value); ``unbalanced`` tags that were not closed.
    """

    tables: list[tuple[str, Table]] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    unbalanced: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []

    @classmethod
    def of(cls, text: str) -> Page:
        """Parse `text`."""
        page = cls()
        page.feed(text)
        page.close()
        page.unbalanced += page._open
        return page

    def table(self, caption: str, *, number: int = 0) -> Table:
        """Return the rows of the table whose caption begins with `caption`, without the header."""
        return [rows for told, rows in self.tables if told.startswith(caption)][number][1:]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append(("", []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][1][-1].append("")
        elif tag == "title" and self._open[-2:-1] == ["svg"]:
            self.pictures.append("")
        elif tag in ("h1", "h2", "h3"):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """Note the end of a tag."""
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        """Note a text."""
        if "style" in self._open:
            return
        self.text += data
        last = self._open[-1] if self._open else ""
        if last == "caption":
            caption, rows = self.tables[-1]
            self.tables[-1] = (caption + data, rows)
        elif last == "title" and self._open[-2:-1] == ["svg"]:
            self.pictures[-1] += data
        elif last in ("h1", "h2", "h3"):
            self.headings[-1] += data
        if ("td" in self._open or "th" in self._open) and "svg" not in self._open:
            self.tables[-1][1][-1][-1] += data
