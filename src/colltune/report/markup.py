"""HTML in which every text is escaped by construction."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from colltune.text import printable

_LONG = 20
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Markup(str):
    """Text that is HTML already; any other text is escaped where it is put in."""

    __slots__ = ()


Child = str | int | None


def escaped(child: Child) -> str:
    """Return what stands for `child` in HTML: nothing for None, `Markup` as it is."""
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    return html.escape(printable(str(child)))


def element(name: str, *children: Child, **attributes: str | float | None) -> Markup:
    opened = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{opened}>{''.join(map(escaped, children))}</{name}>")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return html.escape(printable(value))
    return f"{value:.1f}".removesuffix(".0")


def document(title: str, style: str, body: Markup) -> str:
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        element("title", title),
        element("style", Markup(style)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("\n".join(parts))


def table(
    caption: str,
    header: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    words: Sequence[str] = (),
) -> Markup:
    """Return a table; nothing at all without rows."""
    body = [
        Markup("<tr>" + "".join(_cell(i, cell) for i, cell in enumerate(row)) + "</tr>")
        for row in rows
    ]
    if not body:
        return Markup("")
    titles = [element("th", title, scope="col") for title in header]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", *titles)),
            element("tbody", *body),
            class_=" ".join(f"w{header.index(title)}" for title in words) or None,
        ),
        class_="table",
    )


def _cell(at: int, cell: Child) -> str:
    text = escaped(cell)
    if not isinstance(cell, Markup) and len(text) > _LONG:
        # long names of algorithms may be broken
        text = text.replace("_", "_<wbr>")
    return f'<th scope="row">{text}</th>' if at == 0 else f"<td>{text}</td>"


def folded(summary: str, *children: Child, opened: bool = False) -> Markup:
    """Return children that unfold below a line of text; nothing if they are empty."""
    if not any(children):
        return Markup("")
    content = "".join(map(escaped, (element("summary", summary), *children)))
    return Markup(f"<details{' open' if opened else ''}>{content}</details>")


def beside(*parts: Markup) -> Markup:
    """Return parts that lie side by side where there is room."""
    return element("div", *(element("div", part) for part in parts if part), class_="beside")


def figure(caption: str, picture: Markup, kind: str | None = None) -> Markup:
    """Return a picture with the text that says what it shows."""
    return element("figure", element("figcaption", caption), picture, class_=kind)
