"""The catalogue's TOML files and their strict reader."""

from __future__ import annotations

from collections.abc import Mapping

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import catalogue
from colltune.mpi.catalogue import Algorithm, CollectiveEntry, Limit, SizeUnit
from tests.refusals import refused

SMALL = """
library = "openmpi"
series = "9.9"
first_release = "9.9.0"

[collectives.bcast]
id = 7
size = "msize"

[[collectives.bcast.algorithms]]
number = 1
name = "basic_linear"
aliases = ["linear"]
symbol = "bcast_linear"

[[collectives.bcast.algorithms]]
number = 2
name = "split_binary_tree"
parameters = ["segsize"]
limits = ["two_segments"]
fallback = "linear"
symbol = "bcast_split"
"""


def test_a_small_file_is_read_whole() -> None:
    """Every key of a file ends in the catalogue, defaults filled in."""
    assert catalogue.parse(SMALL, "small.toml").collectives == {
        Collective.BCAST: CollectiveEntry(
            Collective.BCAST,
            7,
            SizeUnit.MSIZE,
            (
                Algorithm(1, "basic_linear", "bcast_linear", ("linear",)),
                Algorithm(
                    2,
                    "split_binary_tree",
                    "bcast_split",
                    (),
                    ("segsize",),
                    frozenset({Limit.TWO_SEGMENTS}),
                    "linear",
                ),
            ),
        )
    }


SETTINGS = """
library = "mpich"
series = "9.9"
first_release = "9.9.0"
rules_file = false

[[collectives.bcast.algorithms]]
number = 1
name = "tree_kary"
parameters = ["fanout"]
variables = { fanout = "TREE_KVAL" }
defaults = { fanout = 2 }

[[collectives.bcast.algorithms]]
number = 1
name = "tree_knomial"
settings = { TREE_TYPE = "knomial_1", TREE_KVAL = 3 }
"""


def test_variants_of_an_algorithm_share_its_number() -> None:
    """They differ by the variables that are set for them; there need not be a rules file."""
    entry = catalogue.parse(SETTINGS, "settings.toml").collectives[Collective.BCAST]
    kary, knomial = entry.algorithms
    assert (kary.variables, kary.defaults) == ((("fanout", "TREE_KVAL"),), (("fanout", 2),))
    assert knomial.settings == (("TREE_KVAL", 3), ("TREE_TYPE", "knomial_1"))
    assert entry.numbered(1) == kary
    for old, new, message in (
        (", TREE_KVAL = 3", ", TREE_KVAL = 3.5", "catalogue-wrong"),
        ('settings = { TREE_TYPE = "knomial_1", TREE_KVAL = 3 }', "", "catalogue-wrong"),
        ('parameters = ["fanout"]', "", "catalogue-wrong"),
        ("rules_file = false", "", "catalogue-wrong key=collectives.bcast.id"),
    ):
        with refused(message, LibraryError):
            catalogue.parse(SETTINGS.replace(old, new), "settings.toml")


PRESETS = """
library = "intelmpi"
series = "9.9"
first_release = "9.9"
rules_file = false

[collectives.bcast]
presets = 3

[[collectives.bcast.algorithms]]
number = 2
name = "ring"
"""


def test_presets_are_numbered_and_some_are_described() -> None:
    """All numbers up to the last one are there, and each is a name of its algorithm."""
    entry = catalogue.parse(PRESETS, "presets.toml").collectives[Collective.BCAST]
    assert [(a.number, a.name, a.aliases) for a in entry.algorithms] == [
        (1, "preset1", ("1",)),
        (2, "ring", ("2",)),
        (3, "preset3", ("3",)),
    ]
    with refused("catalogue-wrong", LibraryError, what="4 is not from 1 to 3"):
        catalogue.parse(PRESETS.replace("number = 2", "number = 4"), "presets.toml")


def test_what_is_not_understood_is_refused() -> None:
    """An unknown key or value is an error that names file and key."""
    for old, new, message in (
        (
            "id = 7",
            "id = 7\nspeed = 3",
            "catalogue-wrong file=small.toml key=collectives.bcast.speed",
        ),
        ("id = 7", "", "catalogue-wrong file=small.toml key=collectives.bcast.id"),
        ("id = 7", 'id = "7"', "catalogue-wrong key=collectives.bcast.id"),
        ('size = "msize"', 'size = "half"', "catalogue-wrong key=collectives.bcast.size"),
        ("collectives.bcast", "collectives.broadcast", "catalogue-wrong"),
        ("number = 2", "number = 3", "catalogue-wrong"),
        ('["linear"]', '["split_binary_tree"]', "catalogue-wrong"),
        ('fallback = "linear"', 'fallback = "ring"', "catalogue-wrong"),
        ('["segsize"]', '["radix"]', "catalogue-wrong"),
        ('["two_segments"]', '["odd"]', "catalogue-wrong"),
        ('library = "openmpi"', "library =", "not-toml file=small.toml"),
    ):
        with refused(message, LibraryError):
            catalogue.parse(SMALL.replace(old, new), "small.toml")


def test_the_two_series_differ_by_sparbit_alone() -> None:
    """Open MPI 5.0 has the algorithms of 4.1, with the same numbers, and sparbit."""

    def algorithms(series: str) -> set[tuple[Collective, Algorithm]]:
        found = catalogue.load("openmpi", series)
        return {(c, a) for c, entry in found.collectives.items() for a in entry.algorithms}

    assert algorithms("4.1") < algorithms("5.0")
    assert {(c, a.number, a.name) for c, a in algorithms("5.0") - algorithms("4.1")} == {
        (Collective.ALLGATHER, 7, "sparbit"),
        (Collective.ALLGATHERV, 6, "sparbit"),
    }


def test_six_adds_four_algorithms_and_a_radix() -> None:
    """Open MPI 6 keeps all numbers of 5.0; its allgather 2 takes a radix of 2 or more."""
    five, six = (catalogue.load("openmpi", series).collectives for series in ("5.0", "6.0"))

    def numbers(found: Mapping[Collective, CollectiveEntry]) -> set[tuple[Collective, int, str]]:
        return {(c, a.number, a.name) for c, entry in found.items() for a in entry.algorithms}

    assert numbers(six) - numbers(five) == {
        (Collective.ALLGATHER, 2, "bruck-k-fanout"),
        (Collective.ALLGATHER, 8, "direct-messaging"),
        (Collective.ALLREDUCE, 7, "allgather_reduce"),
        (Collective.REDUCE, 8, "knomial"),
    }
    assert numbers(five) - numbers(six) == {(Collective.ALLGATHER, 2, "bruck")}
    rabenseifner = [found[Collective.ALLREDUCE].named("rabenseifner") for found in (five, six)]
    assert [a.limits for a in rabenseifner if a] == [
        {Limit.ELEMENT_PER_POWER_OF_TWO},
        {Limit.COMMUTATIVE_OR_FALLBACK},
    ]
    radixes = {(c, a.name) for c, e in six.items() for a in e.algorithms if a.minimums}
    assert radixes == {(Collective.ALLGATHER, "bruck-k-fanout"), (Collective.REDUCE, "knomial")}


def test_the_algorithms_of_han_differ_by_release() -> None:
    """4.1 lets nobody choose among them by name; 6 has one for alltoall and alltoallv."""
    chosen = {
        series: {c.value: e.han for c, e in catalogue.load("openmpi", series).collectives.items()}
        for series in ("4.1", "5.0", "6.0")
    }
    assert set(chosen["4.1"].values()) == {()}
    assert chosen["5.0"]["reduce"] == ("default", "intra", "simple", "reproducible")
    assert chosen["5.0"]["alltoall"] == ()
    assert chosen["6.0"] == chosen["5.0"] | dict.fromkeys(
        ("alltoall", "alltoallv"), ("default", "smsc")
    )


def test_every_collective_of_ours_is_there() -> None:
    """All collectives that coll/tuned lets one select are in the catalogue, and no others."""
    for series in ("4.1", "5.0", "6.0"):
        found = catalogue.load("openmpi", series)
        assert set(found.collectives) == set(Collective)
        assert {c.value: entry.id for c, entry in found.collectives.items() if entry.one_rule} == {
            "allgatherv": 1,
            "alltoallv": 4,
            "barrier": 6,
            "exscan": 8,
            "gather": 9,
            "scan": 14,
            "scatter": 15,
        }


def test_components_and_notes_are_read() -> None:
    """Priorities of components are numbers by name; a collective's note is kept as it is."""
    text = SMALL.replace("\n[coll", "priorities = { tuned = 30, han = 35 }\n[coll", 1)
    found = catalogue.parse(text.replace("id = 7", 'id = 7\nnote = "n"'), "small.toml")
    assert found.priorities == (("han", 35), ("tuned", 30))
    assert found.collectives[Collective.BCAST].note == "n"
    with refused(
        "catalogue-wrong", LibraryError, key="priorities.han", what="'x' is not of type int"
    ):
        catalogue.parse(text.replace("han = 35", 'han = "x"'), "small.toml")


def test_series_are_sorted_as_numbers() -> None:
    """The newest series comes last, also where its number has more digits."""
    for library in ("openmpi", "mpich", "intelmpi"):
        series = catalogue.all_series(library)
        numbers = [tuple(map(int, each.split("."))) for each in series]
        assert numbers == sorted(numbers)
        assert all(catalogue.load(library, each).series == each for each in series)
    assert catalogue.all_series("nompi") == ()


def test_words_agree_with_the_units_of_the_rules_file() -> None:
    """A collective whose rules compare a constant is told as one, and only such a one."""
    classic = catalogue.compared_sizes()["openmpi-classic"]
    constant = {classic[c] for c in (Collective.BARRIER, Collective.SCAN)}
    for series in catalogue.all_series("openmpi"):
        for entry in catalogue.load("openmpi", series).collectives.values():
            told_as_constant = classic[entry.collective] in constant
            assert told_as_constant == (entry.size is SizeUnit.CONSTANT), entry.collective
