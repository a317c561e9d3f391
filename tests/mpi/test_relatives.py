"""Relatives of MPICH: told honestly, never written for."""

from __future__ import annotations

from functools import partial

import pytest

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import library, relatives
from colltune.mpi.catalogue import all_series, load
from colltune.mpi.formats import format_for
from colltune.mpi.reference import REFERENCES
from colltune.mpi.relatives import OwnAlgorithms, Relative, Switch

SMALL = """
name = "near"
title = "Near MPI"
releases = "1.0"
relative_of = "mpich"
summary = "S."
sources = ["a log"]

[[algorithms]]
collective = "bcast"
variable = "B"
values = ["1 binomial"]

[[variables]]
name = "V"
values = "bytes"
default = "64"
collectives = ["bcast"]
meaning = "m"

[[variables]]
name = "W"
values = "0 or 1"
default = "0"
meaning = "n"
"""
BCAST = OwnAlgorithms(Collective.BCAST, "B", ("1 binomial",))
V = Switch("V", "bytes", "64", "m", (Collective.BCAST,))
W = Switch("W", "0 or 1", "0", "n")


def test_a_file_is_read_whole() -> None:
    """Every key of a file ends in the relative."""
    assert relatives.parse(SMALL, "s.toml") == Relative(
        "near", "Near MPI", "1.0", "mpich", "", "S.", ("a log",), (BCAST,), (V, W)
    )


def test_a_collective_has_its_own_switches_and_those_of_several() -> None:
    """What names no collective concerns all of them."""
    near = relatives.parse(SMALL, "s.toml")
    assert near.about(Collective.BCAST) == ((BCAST,), (V, W))
    assert near.about(Collective.SCAN) == ((), (W,))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('collective = "bcast"', 'collective = "bcats"', "collective: 'bcats' is not one of"),
        ('title = "Near MPI"', "", "key title: missing"),
        ('default = "64"', "default = 64", r"key variables\[0\]\.default: 64 is not of type str"),
        ('meaning = "n"', 'meaning = "n"\nunit = "B"', r"key variables\[1\]\.unit: unknown key"),
    ],
)
def test_nonsense_is_refused_by_key(old: str, new: str, complaint: str) -> None:
    """Missing and unknown keys, types and collectives are refused with the key."""
    with pytest.raises(LibraryError, match=complaint):
        relatives.parse(SMALL.replace(old, new), "s.toml")


@pytest.mark.parametrize("name", relatives.names())
def test_a_relative_is_known_by_sources_and_never_written(name: str) -> None:
    """Each names its sources and its origin; to measure with it or write for it is an error."""
    known = relatives.load(name)
    assert known.name == name
    assert known.sources
    assert known.algorithms or known.variables
    assert known.relative_of in REFERENCES
    assert known.series in ("", *all_series(known.relative_of))
    for asked in (library, partial(format_for, release="1.0.0")):
        with pytest.raises(LibraryError, match=f"neither measures .* catalog {name}`"):
            asked(name)


def test_mvapichs_own_names_are_not_mpichs() -> None:
    """What MVAPICH adds is not in the catalogue of the MPICH that it derives from."""
    mvapich = relatives.load("mvapich")
    shared = load(mvapich.relative_of, mvapich.series).collectives
    for own in mvapich.algorithms:
        names = {a.value or a.name for a in shared[own.collective].algorithms}
        assert not names & {value.partition(":")[0] for value in own.values}
        assert own.variable == f"MPIR_CVAR_{own.collective.upper()}_INTRA_ALGORITHM"
