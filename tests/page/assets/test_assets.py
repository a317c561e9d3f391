"""The page's files keep to what makes them safe and usable offline."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.page.assets.colours import SHEET

PAGE = SHEET.parent
SCRIPTS = sorted(PAGE.glob("*.js"))
FORBIDDEN = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|\bFunction\("
)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_everything_is_loaded_from_beside_the_page() -> None:
    """No file of the page names another host, and what index.html loads is there."""
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z0-9-]+\.[a-z]", text), file.name
    tags = _Tags()
    tags.feed((PAGE / "index.html").read_text(encoding="utf-8"))
    loaded = [a.get("src") or a["href"] for t, a in tags.found if t in ("script", "link")]
    assert len(loaded) == 3
    assert all(src and (PAGE / src.removeprefix("page/")).is_file() for src in loaded)


def test_nothing_is_inline() -> None:
    """index.html has no script, style or handler of its own, as its policy asks."""
    tags = _Tags()
    tags.feed((PAGE / "index.html").read_text(encoding="utf-8"))
    for tag, attributes in tags.found:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_data_never_becomes_markup(subtests: pytest.Subtests) -> None:
    """No script uses what parses markup or code, and imports only what lies beside it."""
    for script in SCRIPTS:
        with subtests.test(script=script):
            text = script.read_text(encoding="utf-8")
            assert not re.search(FORBIDDEN, text)
            for name in re.findall(r'^(?:import|\}) .*from "([^"]+)"', text, re.M):
                assert (PAGE / name).is_file()
