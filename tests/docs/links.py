"""Where links of pages lead to, without a network: files and the places within them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
_LOADED_BY_LINK = frozenset(
    {"stylesheet", "icon", "preload", "prefetch", "manifest", "modulepreload"}
)
_STYLE_URL = re.compile(r"""url\(\s*["']?(?P<url>[^"')]+)|@import\s+["'](?P<imported>[^"']+)""")
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_OUTSIDE = ("http", "https", "mailto")


@dataclass
class Page:
    """What a page refers to, loads, and offers as places to lead to."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to."""
        values = {name: value or "" for name, value in attrs}
        self.page.places |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.page.links.append(values["href"])
        elif tag == "link" and _LOADED_BY_LINK & set(values.get("rel", "").split()):
            self.page.loaded.append(values.get("href", ""))
        elif values.get(_LOADED.get(tag, "")):
            self.page.loaded.append(values[_LOADED[tag]])


@cache
def html_page(file: Path) -> Page:
    """Return what an HTML page refers to."""
    reader = _Reader()
    reader.feed(file.read_text(encoding="utf-8"))
    return reader.page


@cache
def markdown_page(file: Path) -> Page:
    """Return what a Markdown page, or the text of a notebook, refers to."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    page, tokens = Page(), MarkdownIt().enable("table").parse(text)
    for token in _all(tokens):
        if token.type in ("html_block", "html_inline"):
            reader = _Reader()
            reader.feed(token.content)
            page.links += reader.page.links
            page.loaded += reader.page.loaded
            page.places |= reader.page.places
        elif token.type == "link_open":
            page.links.append(str(token.attrs["href"]))
        elif token.type == "image":
            page.loaded.append(str(token.attrs["src"]))
    page.places |= set(_slugs(tokens))
    return page


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())


def _slugs(tokens: list[Token]) -> Iterator[str]:
    """Yield the places of headings, as code-hosting sites and MyST name them."""
    seen: dict[str, int] = {}
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            words = tokens[at + 1].children or ()
            text = "".join(word.content for word in words if word.type in ("text", "code_inline"))
            slug = _NOT_IN_SLUG.sub("", text.lower()).replace(" ", "-")
            number = seen.get(slug, 0)
            seen[slug] = number + 1
            yield f"{slug}-{number}" if number else slug


def _read(file: Path) -> Page | None:
    if file.suffix == ".html":
        return html_page(file)
    return markdown_page(file) if file.suffix in (".md", ".ipynb") else None


def broken(files: Iterable[Path], root: Path) -> list[str]:
    """Return links and images of `files` that lead nowhere, or out of `root`."""
    found = []
    for file in files:
        page = _read(file) or Page()
        for target in dict.fromkeys([*page.links, *page.loaded]):
            why = _wrong(target, file, page, root)
            if why:
                found.append(f"{file.relative_to(root)}: {target}: {why}")
    return found


def _wrong(target: str, file: Path, page: Page, root: Path) -> str:
    parts = urlsplit(target)
    if parts.scheme in (*_OUTSIDE, "data"):
        return ""
    if parts.scheme or parts.netloc or parts.path.startswith("/"):
        return "leads to a place of this machine"
    there = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
    if not there.is_relative_to(root.resolve()):
        return "leads out of the pages"
    if not there.exists():
        return "there is no such file"
    other = page if not parts.path else _read(there)
    place = unquote(parts.fragment)
    return f"there is no #{place}" if place and other and place not in other.places else ""


def external_resources(root: Path) -> list[str]:
    """Return what built pages and their styles below `root` would load from elsewhere."""
    found = []
    for file in sorted(root.rglob("*.html")):
        found += [f"{file.name}: {url}" for url in html_page(file).loaded if _is_elsewhere(url)]
    for file in sorted(root.rglob("*.css")):
        for match in _STYLE_URL.finditer(file.read_text(encoding="utf-8")):
            url = match["url"] or match["imported"]
            if _is_elsewhere(url):
                found.append(f"{file.name}: {url}")
    return found


def _is_elsewhere(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("", "data") or bool(parts.netloc)
