"""Where reductions give the bits of the library's own decision, and who obeys that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi import library
from colltune.mpi.bits import BitFacts, Differ, MeasuredBits, common
from colltune.mpi.formats import FORMATS
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.programs import Programs, Results, bits_of, parse
from colltune.mpi.rules import Call
from colltune.mpi.running import EVERYWHERE, Promises, Refusal, RunningRange
from tests.mpi.programs_measured import BITS, Measured, measured

__all__ = ["measured"]
SAME_BITS = Programs(same_types=True, builtin_operations=True, results=Results.SAME_BITS)
DOUBLING = Configuration.parse("openmpi.allreduce.recursive_doubling")
RING = Configuration.parse("openmpi.allreduce.ring")
CHAIN = Configuration.parse("openmpi.bcast.chain:fanout=4,segsize=0")
PROMISES = Promises(SAME_BITS)


def test_ranges_have_in_common_what_both_have() -> None:
    """Ends belong to a range."""
    assert common(((0, 8), (16, 32)), ((4, 16), (32, 64))) == ((4, 8), (16, 16), (32, 32))
    assert common(((0, 8),), ()) == ()


def test_facts_are_written_once_for_all_that_are_alike() -> None:
    """What is written reads back, and configurations with the same facts share a row."""
    some = BitFacts(frozenset({Differ.PLACES}), {2: ((0, 64),), 4: ((0, 64),)}, {2: ((0, 8),)})
    facts = {"ring": some, "segmented_ring:segsize=1024": some, "linear": BitFacts()}
    told = MeasuredBits.of((2, 4), 64, 12, facts)
    assert len(told.rows) == 2
    lines = "\n".join(told.lines())
    before = '{"library": "openmpi", "release": "9.9", "processes": [2], "calls": 1, "allreduce": '
    text = f'{before}{{"modes": [], "bits": {{{lines}}}}}}}'
    bits = parse(text, "text").bits[Collective.ALLREDUCE]
    assert bits.facts == facts
    assert (bits.processes, bits.bytes, bits.calls) == ((2, 4), 64, 12)


@pytest.mark.parametrize(
    ("runs", "first", "last", "pieces"),
    [
        (EVERYWHERE, 0, None, [(0, None, True)]),
        (RunningRange(None, "never"), 5, 9, [(5, 9, False)]),
        (RunningRange(8, "small"), 0, None, [(0, 7, False), (8, None, True)]),
        (RunningRange(8, "small"), 8, 9, [(8, 9, True)]),
        (
            RunningRange(0, parts=((0, 8), (16, 32))),
            4,
            None,
            [(4, 8, True), (9, 15, False), (16, 32, True), (33, None, False)],
        ),
        (RunningRange(0, parts=((0, 8), (16, 32))), 20, 24, [(20, 24, True)]),
        (RunningRange(10, parts=((0, 16),)), 0, 12, [(0, 9, False), (10, 12, True)]),
    ],
)
def test_a_range_is_cut_where_a_configuration_may_not_run(
    runs: RunningRange, first: int, last: int | None, pieces: list[tuple[int, int | None, bool]]
) -> None:
    """Pieces follow each other without a gap."""
    assert list(runs.pieces(first, last)) == pieces


def test_a_reduction_gives_the_bits_that_were_measured(measured: Measured) -> None:
    """On the layout that was measured, in the sizes between which all were the same."""
    measured(BITS)
    bound = library("openmpi").at("5.0.11")
    assert bound.runs(DOUBLING, Shape(1, 4), PROMISES).parts == ((0, 1048576),)
    assert bound.runs(DOUBLING, Shape(1, 3), PROMISES).parts == ((0, 2992), (8192, 65536))
    runs = bound.runs(DOUBLING, Shape(1, 3), PROMISES)
    assert [bool(runs.why_not_at(size)) for size in (2992, 4096, 8192, 65537)] == [0, 1, 0, 1]
    own = Promises(replace(SAME_BITS, builtin_operations=False))
    assert bound.runs(DOUBLING, Shape(1, 4), own).parts == ((0, 4096),)
    assert bound.runs(DOUBLING, Shape(1, 3), own).refusal is Refusal.OTHER_BITS


def test_what_is_not_known_keeps_the_default(measured: Measured) -> None:
    """Other numbers of processes, several nodes, other releases, ranks that disagree."""
    measured(BITS)
    mpi = library("openmpi")
    bound = mpi.at("5.0.11")
    for place in (Shape(1, 5), Shape(2, 2), 4, None):
        assert bound.runs(DOUBLING, place, PROMISES).refusal is Refusal.OTHER_BITS, place
    assert not bound.runs(DOUBLING, 4, replace(PROMISES, one_node=True)).refusal
    assert mpi.at("5.0.7").runs(DOUBLING, Shape(1, 4), PROMISES).refusal is Refusal.OTHER_BITS
    assert not bits_of(RING, "openmpi", "5.0.11")[0].as_default(4, own=False)
    for one in (CHAIN, Configuration.default("openmpi", Collective.ALLREDUCE)):
        assert bound.runs(one, Shape(2, 4), PROMISES) == EVERYWHERE


@pytest.mark.parametrize(
    ("differs", "known"), [("sizes", True), ("layouts", False), ("default", False)]
)
def test_on_several_nodes_holds_what_does_not_depend_on_them(
    measured: Measured, differs: str, known: bool
) -> None:
    """Neither of an algorithm nor of the library's own decision, however processes lie."""
    rows = [
        f'[[allreduce.bits.algorithms]]\nof = ["{name}"]\ndiffer = [{told}]\n'
        'builtin = {"4" = "0-64"}\nown = {}\n'
        for name, told in (
            ("default", '"layouts"' * (differs == "default")),
            ("recursive_doubling", f'"{differs}"' * (differs != "default")),
        )
    ]
    head = '[allreduce.bits]\nprocesses = [4]\nbytes = 64\ncalls = 9\nlayouts = ["2x2"]\n'
    measured(
        'library = "openmpi"\nrelease = "5.0.11"\nprocesses = [4]\ncalls = 9\n'
        f"[allreduce]\nmodes = []\n{head}{''.join(rows)}"
    )
    bound = library("openmpi").at("5.0.11")
    for place in (Shape(2, 2), Shape(4, 1), 4):
        runs = bound.runs(DOUBLING, place, PROMISES)
        assert (runs.refusal is None) is known, place
        assert not known or runs.parts == ((0, 64),)
    assert bound.runs(DOUBLING, Shape(1, 4), PROMISES).parts == ((0, 64),)


def test_nothing_that_was_measured_is_lost_by_what_comes_later() -> None:
    """Nodes were tried once; what was not tried there is not known there."""
    ranges = {2: ((0, 64),), 4: ((0, 64),)}
    every = {"default": BitFacts(builtin=ranges), "ring": BitFacts(builtin=ranges)}
    on_nodes = MeasuredBits.of((2, 4), 64, 12, every, ["2x2"])
    more = {"default": BitFacts(), "linear": BitFacts(builtin={8: ((0, 8),)})}
    for processes in ((2, 4, 8), (8,)):
        found = on_nodes.joined(MeasuredBits.of(processes, 64, 6, more))
        assert (found.processes, found.layouts) == ((2, 4, 8), ("2x2",))
        assert {name for name, facts in found.facts.items() if facts.anywhere} == {
            "default",
            "ring",
        }
        assert found.facts["linear"].differ == {Differ.LAYOUTS}
        assert found.facts["ring"].builtin == ranges
    again = MeasuredBits.of((2, 4), 64, 12, {"default": BitFacts()}, ["2x2"])
    assert on_nodes.joined(again) == again


def test_a_default_that_changes_is_met_by_nothing(measured: Measured) -> None:
    """Some libraries reduce otherwise in the first calls on a communicator."""
    default = 'of = ["default"]\ndiffer = ["{}"]\nbuiltin = {{}}\nown = {{}}\n'
    default = f"[[allreduce.bits.algorithms]]\n{default}"
    bound = library("openmpi").at("5.0.11")
    for differ, refusal in (("launches", Refusal.OTHER_BITS), ("sizes", None)):
        measured(BITS.replace("\n[reduce]", default.format(differ) + "\n[reduce]"))
        assert bound.runs(DOUBLING, Shape(1, 4), PROMISES).refusal is refusal


def test_intel_mpi_decides_by_machine(measured: Measured) -> None:
    """What was measured on one machine does not tell what another one does by default."""
    facts = BITS.replace("openmpi", "intelmpi").replace("5.0.11", "2021.18.1")
    measured(facts.replace('"recursive_doubling"', '"preset1"'))
    preset = Configuration.parse("intelmpi.allreduce.preset1")
    assert bits_of(preset, "intelmpi", "2021.18.1")[0].as_default(4, own=False)
    for mpi in (library("intelmpi"), with_libcolltune(library("intelmpi"))):
        assert mpi.at("2021.18.1").runs(preset, Shape(1, 4), PROMISES).first_bytes is None


def test_releases_between_two_that_agree_are_known(measured: Measured) -> None:
    """Where they differ, only what both have is."""
    measured(BITS.replace("5.0.11", "5.0.3"))
    measured(BITS.replace('"2 4" = "0-1048576"', '"2 4" = "0-1024"'))
    mpi = library("openmpi")
    for release, parts in (("5.0.3", 1048576), ("5.0.7", 1024), ("5.0.11", 1024)):
        runs = mpi.at(release).runs(DOUBLING, Shape(1, 4), PROMISES)
        assert runs.parts == ((0, parts),), release
    assert mpi.at("5.0.12").runs(DOUBLING, Shape(1, 4), PROMISES).refusal is Refusal.OTHER_BITS


@pytest.mark.parametrize("name", ["openmpi-classic", "openmpi-json", "openmpi-table"])
def test_a_file_leaves_other_sizes_to_the_library(name: str, measured: Measured) -> None:
    """What a table chooses for all sizes is written where the bits are known, and told."""
    measured(BITS)
    form, whole = FORMATS[name], Interval(0, None, DOUBLING)
    table = DecisionTable("openmpi", Shape(1, 3), {(Collective.ALLREDUCE, 3): (whole,)})
    release = "5.0.11" if name != "openmpi-json" else "6.0.0"
    if name == "openmpi-json":
        measured(BITS.replace("5.0.11", "6.0.0"))
    written = form.write(table, release, programs=SAME_BITS)
    rules = form.parse(written.texts[""], "text", release)
    for size, chosen in ((2992, DOUBLING), (4096, None), (8192, DOUBLING), (65544, None)):
        outcome = rules.decide(Call(Collective.ALLREDUCE, 3, size))
        told = outcome.chosen if not outcome.chosen.is_default else None
        assert told == chosen, size
    assert written.notes
    nodes = replace(table, shape=Shape(3, 1))
    assert DOUBLING.algorithm not in form.write(nodes, release, programs=SAME_BITS).texts[""]
