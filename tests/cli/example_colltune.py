"""`colltune` as one of `verb_examples` calls it: NAME FOLDER DATA BUNDLE [OPTION…]."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from colltune.cli import main
from tests.cli.verb_examples import EXAMPLES, Place, replaced

if __name__ == "__main__":
    name, folder, data, bundle, *options = sys.argv[1:]
    place = Place(Path(folder), Path(data), Path(bundle))
    replaced(place, pytest.MonkeyPatch())
    words = [str(word) for word in EXAMPLES[name](place)]
    at = words.index("--") if "--" in words else len(words)
    sys.argv = ["colltune", *words[:at], *options, *words[at:]]
    main()
