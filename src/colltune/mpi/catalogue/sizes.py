"""What each format of configuration files compares with its message sizes, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from colltune.domain import Collective
from colltune.mpi.catalogue.toml_table import Table

_FILE = Path(__file__).parent / "sizes.toml"


@cache
def compared() -> Mapping[str, Mapping[Collective, str]]:
    """Return for each format that has message sizes what is compared with them, by collective."""
    return parse(_FILE.read_text(encoding="utf-8"), _FILE.name)


def parse(text: str, source: str) -> dict[str, dict[Collective, str]]:
    """Return what is written in `text`; `source` names it in messages."""
    top = Table.parse(text, source)
    words_table, formats = top.table("words"), top.table("formats")
    words = {name: words_table.string(name) for name in words_table.names_left()}
    top.close()
    return {name: _format(formats.table(name), words) for name in formats.names_left()}


def _format(table: Table, words: Mapping[str, str]) -> dict[Collective, str]:
    found = {}
    for name in table.names_left():
        collective, word = table.member(name, Collective, name), table.string(name)
        if word not in words:
            raise table.fail(name, f"{word!r} is not one of {', '.join(words)}")
        found[collective] = words[word]
    return found
