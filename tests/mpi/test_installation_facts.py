"""What an installed MPI tells of itself, read from recorded outputs, and how it is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.domain import Collective
from colltune.errors import LibraryError
from colltune.mpi import LIBRARIES
from colltune.mpi.installation_facts import (
    CatalogueDifference,
    DifferenceKind,
    InstallationFacts,
    Variable,
    compare,
)
from colltune.mpi.installation_facts.facts import highest_preset, parse
from colltune.mpi.installation_facts.mpich import (
    Cvar,
    Described,
    described,
    parse_listing,
    parse_mpivars,
)
from colltune.mpi.reference import facts
from tests.refusals import refused

RECORDED = Path(__file__).parent.parent / "golden" / "installed"
RELEASES = ("4.1.8", "5.0.11", "6.1.0a1")
BCAST, ALLGATHERV = Collective.BCAST, Collective.ALLGATHERV
NAMES = {
    1: "basic_linear",
    2: "chain",
    3: "pipeline",
    4: "split_binary_tree",
    5: "binary_tree",
    6: "binomial",
    7: "knomial",
    8: "scatter_allgather",
    9: "scatter_allgather_ring",
}
OPENMPI, MPICH, INTELMPI = (LIBRARIES[name] for name in ("openmpi", "mpich", "intelmpi"))


def recorded(name: str) -> str:
    """Return the text of a recorded output."""
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("spelling", ["-parsable", ""])
def test_ompi_info_is_read_in_all_its_spellings(release: str, spelling: str) -> None:
    """4.1, 5.0 and 6 list the same bcast algorithms, with --parsable and without."""
    told = parse(recorded(f"ompi_info-{release}{spelling}"), release, "ompi_info")
    assert told.algorithms[BCAST] == NAMES
    sparbit = {6: "sparbit"} if release != "4.1.8" else {}
    assert (
        told.algorithms[ALLGATHERV]
        == {
            1: "default",
            2: "bruck",
            3: "ring",
            4: "neighbor",
            5: "two_proc",
        }
        | sparbit
    )
    assert told.variables["coll_han_priority"] == Variable("0" if release == "4.1.8" else "35")
    assert told.variables["coll_tuned_bcast_algorithm_chain_fanout"] == Variable("4")
    assert not told.variables["coll_tuned_bcast_algorithm_count"].writable


def test_who_set_a_variable_is_told() -> None:
    """A priority that the environment sets is told with its source."""
    text = recorded("ompi_info-5.0.11-parsable")
    text = text.replace("coll_han_priority:value:35", "coll_han_priority:value:0")
    text = text.replace("coll_han_priority:source:default", "coll_han_priority:source:environment")
    assert parse(text, "5.0.11", "").variables["coll_han_priority"] == Variable("0", "environment")


def whole(release: str) -> InstallationFacts:
    """Return what an Open MPI tells that agrees with the catalogue of `release`."""
    known = OPENMPI.catalogue_of(release)
    variables = {f"coll_{name}_priority": Variable(str(n)) for name, n in known.priorities}
    for collective in known.collectives:
        told = facts(OPENMPI.at(release), collective)
        variables[told.variable] = Variable("ignore", writable=told.runtime)
        for algorithm in told.algorithms:
            for each in algorithm.parameters:
                variables[each.variable] = Variable(str(each.default))
    for collective in known.han_collectives:
        variables[f"coll_han_use_{collective}_algorithm"] = Variable("default")
        variables[f"coll_han_use_simple_{collective}"] = Variable("false")
    algorithms = {
        collective: {a.number: a.value or a.name for a in entry.algorithms}
        for collective, entry in known.collectives.items()
    }
    return InstallationFacts("openmpi", release, "ompi_info", algorithms, {}, variables)


@pytest.mark.parametrize("release", RELEASES)
def test_the_recorded_releases_agree(release: str) -> None:
    """What was recorded of bcast, allgatherv and the priorities is what the catalogue says."""
    told = parse(recorded(f"ompi_info-{release}-parsable"), release, "ompi_info")
    assert compare(OPENMPI.at(release), whole(release)) == ()
    of_file = replace(
        whole(release),
        algorithms={**whole(release).algorithms, **told.algorithms},
        variables={**whole(release).variables, **told.variables},
    )
    assert compare(OPENMPI.at(release), of_file) == ()


def differing(**changes: Variable) -> tuple[CatalogueDifference, ...]:
    """Return what differs from 5.0.11 where these variables are otherwise."""
    told = whole("5.0.11")
    return compare(OPENMPI.at("5.0.11"), replace(told, variables={**told.variables, **changes}))


def renamed(collective: Collective, algorithms: dict[int, str]) -> tuple[CatalogueDifference, ...]:
    """Return what differs from 5.0.11 where a collective has other algorithms."""
    told = whole("5.0.11")
    changed = {**told.algorithms, collective: algorithms}
    return compare(OPENMPI.at("5.0.11"), replace(told, algorithms=changed))


def test_other_algorithms_are_told() -> None:
    """New, missing, renamed and renumbered algorithms are four different things."""
    assert renamed(BCAST, NAMES | {10: "new"}) == (
        CatalogueDifference(DifferenceKind.NOT_IN_CATALOGUE, "bcast", "", "new (10)"),
    )
    assert renamed(BCAST, {n: name for n, name in NAMES.items() if n < 9}) == (
        CatalogueDifference(DifferenceKind.NOT_HERE, "bcast", "scatter_allgather_ring (9)", ""),
    )
    assert renamed(BCAST, NAMES | {7: "kary"}) == (
        CatalogueDifference(DifferenceKind.OTHER_NAME, "bcast", "knomial (7)", "kary (7)"),
    )
    assert renamed(BCAST, NAMES | {6: "knomial", 7: "binomial"}) == (
        CatalogueDifference(DifferenceKind.OTHER_NUMBER, "bcast", "knomial (7)", "knomial (6)"),
        CatalogueDifference(DifferenceKind.OTHER_NUMBER, "bcast", "binomial (6)", "binomial (7)"),
    )


def test_an_algorithm_put_in_between_moves_the_others() -> None:
    """One new name under an old number, and the old name under a new one."""
    moved = NAMES | {9: "between", 10: "scatter_allgather_ring"}
    assert renamed(BCAST, moved) == (
        CatalogueDifference(DifferenceKind.NOT_IN_CATALOGUE, "bcast", "", "between (9)"),
        CatalogueDifference(
            DifferenceKind.OTHER_NUMBER,
            "bcast",
            "scatter_allgather_ring (9)",
            "scatter_allgather_ring (10)",
        ),
    )


def test_other_variables_are_told() -> None:
    """Another default and whether it may change at run time are told with the variable's name."""
    fanout = "coll_tuned_bcast_algorithm_chain_fanout"
    assert differing(**{fanout: Variable("8", "file")}) == (
        CatalogueDifference(
            DifferenceKind.OTHER_DEFAULT, "bcast", f"{fanout}=4", f"{fanout}=8 (set: file)"
        ),
    )
    assert differing(coll_tuned_bcast_algorithm=Variable("ignore", writable=False)) == (
        CatalogueDifference(
            DifferenceKind.RUN_TIME, "bcast", "can change at run time", "cannot change at run time"
        ),
    )
    told = whole("5.0.11")
    without = {n: v for n, v in told.variables.items() if n != fanout}
    assert compare(OPENMPI.at("5.0.11"), replace(told, variables=without)) == (
        CatalogueDifference(DifferenceKind.NO_SUCH_VARIABLE, "bcast", fanout, ""),
    )


def test_what_is_set_here_is_told() -> None:
    """An algorithm or a selection of components that the user or the site has set."""
    bcast = "coll_tuned_bcast_algorithm"
    assert differing(**{bcast: Variable("pipeline", "environment")}) == (
        CatalogueDifference(
            DifferenceKind.SET_HERE, "bcast", "", f"{bcast}=pipeline (set: environment)"
        ),
    )
    assert differing(coll=Variable("^tuned", "file")) == (
        CatalogueDifference(DifferenceKind.SET_HERE, "components", "", "coll=^tuned (set: file)"),
    )
    text = 'MCA (-) coll tuned: parameter "a" (current value: "x", data source: file, level: 2)'
    assert parse(text, "5.0.11", "").variables == {"a": Variable("x", "file")}


def test_components_that_decide_first_are_told() -> None:
    """Another priority of a known component, and a foreign one that outranks coll/tuned."""
    assert differing(coll_han_priority=Variable("0", "environment")) == (
        CatalogueDifference(
            DifferenceKind.OTHER_PRIORITY,
            "coll/han",
            "priority 35",
            "priority 0 (set: environment)",
        ),
    )
    assert differing(coll_hcoll_priority=Variable("90")) == (
        CatalogueDifference(DifferenceKind.OTHER_COMPONENT, "coll/hcoll", "", "priority 90"),
    )
    assert differing(coll_ucc_priority=Variable("10")) == ()
    assert differing(coll_han_use_alltoall_algorithm=Variable("default")) == (
        CatalogueDifference(DifferenceKind.NOT_IN_CATALOGUE, "coll/han", "", "alltoall"),
    )
    told = whole("5.0.11")
    without = {n: v for n, v in told.variables.items() if n != "coll_han_priority"}
    assert compare(OPENMPI.at("5.0.11"), replace(told, variables=without)) == (
        CatalogueDifference(DifferenceKind.OTHER_COMPONENT, "coll/han", "priority 35", ""),
    )


def test_other_algorithms_of_han_are_told() -> None:
    """coll/han's algorithms are compared by number where both sides tell them."""
    told = parse(recorded("ompi_info-5.0.11-parsable"), "5.0.11", "")
    assert told.han == {BCAST: {0: "default", 1: "intra", 2: "simple"}}
    same = replace(whole("5.0.11"), han=told.han)
    assert compare(OPENMPI.at("5.0.11"), same) == ()
    other = replace(same, han={BCAST: {0: "default", 1: "simple"}})
    assert compare(OPENMPI.at("5.0.11"), other) == (
        CatalogueDifference(
            DifferenceKind.OTHER_NAME,
            "coll/han bcast",
            "default (0), intra (1), simple (2)",
            "default (0), simple (1)",
        ),
    )


def test_collectives_on_one_side_only_are_told() -> None:
    """A collective that only one of them knows is a difference by itself."""
    told = whole("5.0.11")
    only: dict[Collective, Mapping[int, str]] = {
        c: names for c, names in told.algorithms.items() if c is not Collective.SCAN
    }
    assert compare(OPENMPI.at("5.0.11"), replace(told, algorithms=only)) == (
        CatalogueDifference(DifferenceKind.NOT_HERE, "scan", "has a choice of algorithms", ""),
    )


def test_presets_are_compared_by_their_number() -> None:
    """impi_info tells the highest preset; 2021.15 has 22 for bcast, 2021.6 had 18."""
    assert highest_preset(recorded("impi_info-2021.15")) == 22
    assert highest_preset("I_MPI_ADJUST_X\n  MPI Datatype:\n    MPI_CHAR\n") is None
    presets = {
        collective: max(a.number for a in entry.algorithms)
        for collective, entry in INTELMPI.catalogue_of("2021.6").collectives.items()
    }
    variables = {f"I_MPI_ADJUST_{c.upper()}": Variable("", writable=False) for c in presets}
    told = InstallationFacts(
        "intelmpi", "2021.6", "impi_info", presets=presets, variables=variables
    )
    assert compare(INTELMPI.at("2021.6"), told) == ()
    told = replace(told, presets=presets | {BCAST: 22})
    assert compare(INTELMPI.at("2021.6"), told) == (
        CatalogueDifference(
            DifferenceKind.OTHER_RANGE, "bcast", "presets 1 to 18", "presets 1 to 22"
        ),
    )


def test_control_variables_are_read_as_both_programs_print_them() -> None:
    """The listing of cvars.c and that of mpivars give the same variables."""
    listed = parse_listing(recorded("cvars-5.0.2"))
    assert listed == parse_mpivars(recorded("mpivars-5.0.2"))
    assert listed["MPIR_CVAR_BCAST_TREE_KVAL"] == Cvar(
        "2", "k value for tree (kary, knomial, etc.) based bcast", True
    )
    found = parse_listing("a\tread-only\t0\ttext\\nmore\nnoise\n")
    assert found == {"a": Cvar("0", "text\nmore", False)}


def test_names_are_found_in_descriptions() -> None:
    """The list has lost its line ends in 4.0; known names are told apart all the same."""
    for release, last in (("4.0.2", "scatter_ring_allgather"), ("5.0.2", "tree")):
        text = parse_listing(recorded(f"cvars-{release}"))["MPIR_CVAR_BCAST_INTRA_ALGORITHM"].text
        entry = MPICH.catalogue_of(release).collectives[BCAST]
        known = list(dict.fromkeys(a.value or a.name for a in entry.algorithms))
        assert described(text, known) == [Described(name, certain=True) for name in known]
        assert known[-1] == last


def test_unknown_names_without_line_ends_are_uncertain() -> None:
    """A name that nobody knows is given with the word that ran into it, and marked."""
    text = "Variable to selectauto - InternalFILE)nb   - Force nbnew - Force new"
    assert described(text, ["nb"]) == [Described("nb", True), Described("nbnew", False)]


def test_a_release_without_a_catalogue_is_refused() -> None:
    """Nothing is compared with the catalogue of another release."""
    with refused("release-unsupported", LibraryError):
        compare(OPENMPI.at("3.1.6"), whole("5.0.11"))


NONSENSE = [
    "",
    "\x00\x01\udcff",
    "mca:coll:tuned:param:coll_tuned_bcast_algorithm:enumerator:value:" + "9" * 5000 + ":x",
    "mca:coll:tuned:param:coll_tuned_bcast_algorithm:enumerator:value:-1:x",
    'MCA coll x: parameter "a" (current value: "',
    "a\tint\t\t\t--5=x 7\t",
    "\tA=1\tSCOPE_ALL\t\tMPI_INT\t\t",
    "range: 0-" + "9" * 5000,
]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_not_taken_for_numbers(text: str) -> None:
    """Whatever a program prints is read without an error, and nothing is made up from it."""
    assert parse(text, "5.0.11", "").algorithms in ({}, {BCAST: {}})
    assert isinstance(parse_listing(text), dict)
    assert isinstance(parse_mpivars(text), dict)
    assert highest_preset(text) is None
    assert described(text, []) == []


@settings(max_examples=50)
@given(st.data())
def test_damaged_outputs_are_read_without_an_error(data: st.DataObject) -> None:
    """A recorded output with something else in its middle is read, and compared, all the same."""
    name = data.draw(st.sampled_from(["ompi_info-4.1.8", "ompi_info-5.0.11-parsable"]))
    text = recorded(name)
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text()) + text[data.draw(st.integers(at, len(text))) :]
    compare(OPENMPI.at("5.0.11"), parse(damaged, "5.0.11", ""))
    parse_listing(damaged)
    parse_mpivars(damaged)


def test_a_priority_beyond_all_numbers_is_ignored() -> None:
    """A priority that is no number of any sense is left out rather than compared."""
    assert differing(coll_hcoll_priority=Variable("9" * 5000)) == ()
