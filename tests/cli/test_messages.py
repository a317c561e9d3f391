"""What verbs say of bad input: words for people, no Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Verb
from tests.cli.verb_examples import EXAMPLES, Place, replaced

_PYTHON = re.compile(
    r"Traceback|PosixPath\(|\bNone\b|\[['\"]|\(['\"]|\{['\"]|<class |<[\w.]+ object|frozenset\("
    r"|dtype|Errno|\bnp\.|Configuration\(|Shape\("
)
_BAD_FILES = {"text": b"hello \xe2\x80\xa6\n", "bytes": b"\0\xff", "json": b'{"a": [1]}'}
_BAD_WORDS = ("", "-1", "x'\u202e", "9" * 25)


def _bad(words: list[str], folder: Path) -> Iterator[list[str]]:
    """Yield the call with one word replaced by a bad one of its kind, or left out."""
    for at, word in enumerate(words):
        if at == 0 or word.startswith("-"):
            continue
        bad = list(_BAD_WORDS)
        if Path(word).exists():
            bad = [str(folder / name) for name in ("nowhere", "empty", *_BAD_FILES)]
        for wrong in bad:
            yield [*words[:at], wrong, *words[at + 1 :]]
        yield [*words[:at], *words[at + 1 :]]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_nothing_of_python_is_shown(
    name: str,
    colltune: Verb,
    tmp_path: Path,
    measurements_csv: Path,
    bundle_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each word of a call is replaced by bad ones: no traceback, object, list or None is shown."""
    folder = tmp_path / "bad"
    (folder / "empty").mkdir(parents=True)
    for kind, content in _BAD_FILES.items():
        (folder / kind).write_bytes(content)
    place = Place(tmp_path, measurements_csv, bundle_path)
    replaced(place, monkeypatch)
    monkeypatch.chdir(tmp_path)
    words = [str(word) for word in EXAMPLES[name](place)]
    for call in (words, *_bad(words, folder)):
        answer = colltune(*call)
        shown = (answer.out + answer.err).replace('{"', "").replace('["', "")
        found = _PYTHON.search(shown)
        assert found is None, (call, shown[max(0, found.start() - 200) : found.end() + 100])
