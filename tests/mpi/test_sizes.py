"""What formats compare with their message sizes."""

from __future__ import annotations

import pytest

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi.catalogue import SizeUnit, all_series, load, sizes

SMALL = '[words]\nblock = "bytes of a block"\n[formats.some-json]\nbcast = "block"\n'


def test_words_are_looked_up() -> None:
    """A format's entry is the sentence that its word stands for."""
    assert sizes.parse(SMALL, "s.toml") == {"some-json": {Collective.BCAST: "bytes of a block"}}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ('bcast = "blocks"', "s.toml: key formats.some-json.bcast: 'blocks' is not one of block"),
        ('bcasts = "block"', "s.toml: key formats.some-json.bcasts: 'bcasts' is not one of"),
        ("bcast = 3", "s.toml: key formats.some-json.bcast: 3 is not of type str"),
        ("bcast", "s.toml: not a TOML file"),
    ],
)
def test_nonsense_is_refused_by_key(wrong: str, complaint: str) -> None:
    """Unknown words, collectives and types are refused with the key that they stand at."""
    with pytest.raises(LibraryError, match=complaint):
        sizes.parse(SMALL.replace('bcast = "block"', wrong), "s.toml")


def test_words_agree_with_the_units_of_the_rules_file() -> None:
    """A collective whose rules compare a constant is told as one, and only such a one."""
    classic = sizes.compared()["openmpi-classic"]
    constant = {classic[c] for c in (Collective.BARRIER, Collective.SCAN)}
    for series in all_series("openmpi"):
        for entry in load("openmpi", series).collectives.values():
            told_as_constant = classic[entry.collective] in constant
            assert told_as_constant == (entry.size is SizeUnit.CONSTANT), entry.collective
