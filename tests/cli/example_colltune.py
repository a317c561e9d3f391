"""`colltune` as `verb_examples` calls it, one verb after the other, and every help.

FOLDER DATA BUNDLE; behind what each call printed stand a form feed, its name and its status.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from colltune.cli import main
from tests.cli.verb_examples import EXAMPLES, Place, commands, replaced


def _calls(folder: Path, data: Path, bundle: Path) -> Iterator[tuple[str, Sequence[object]]]:
    for name, words in EXAMPLES.items():
        own = folder / name.replace(" ", "-")
        own.mkdir()
        place = Place(own, data, bundle)
        with pytest.MonkeyPatch.context() as patch:
            replaced(place, patch)
            yield name, words(place)
    every = [name for name, _ in commands()]
    groups = [name.rpartition(" ")[0] for name in every]
    for name in dict.fromkeys([*groups, *every]):
        yield f"help {name}".strip(), (*name.split(), "--help")


if __name__ == "__main__":
    for name, words in _calls(*map(Path, sys.argv[1:])):
        sys.argv = ["colltune", *map(str, words)]
        status: object = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code
        sys.stdout.write(f"\f{name}: {status}\n")
        sys.stdout.flush()
