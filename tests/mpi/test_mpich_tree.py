"""MPICH's selection tree: written whole, read as each release reads it, decided as it searches."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.mpi.mpich.functions import functions_of
from colltune.mpi.mpich.tree import Facts, Known, cut, leaves, merged, search
from colltune.mpi.rules import Call, Fault, Severity
from tests.mpi.linting import lint
from tests.mpi.mpich_trees import (
    FORMAT,
    RELEASES,
    C,
    job_table,
    matching,
    nothing,
    parsed,
    steps,
    written,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "mpich"


def test_the_file_is_the_one_that_was_looked_at(subtests: pytest.Subtests) -> None:
    """The whole text of both files is as it was when it ran on the real library."""
    for release in ("4.0.2", "5.0.2"):
        with subtests.test(release=release):
            found = FORMAT.write(job_table(release), release)
            for end, text in found.texts.items():
                assert text == (GOLDEN / f"tree-{release}{end}.json").read_text(encoding="utf-8")
            assert found.notes == ()


def test_a_file_is_complete(subtests: pytest.Subtests) -> None:
    """All 44 collectives are there, every chain ends, and there is nothing to find."""
    for release in RELEASES:
        with subtests.test(release=release):
            for text in (written(release), nothing(release)):
                document = json.loads(text)
                assert len(document) == 44
                assert list(lint(parsed(text, release))) == []


def test_cutting_and_merging_keep_every_decision(subtests: pytest.Subtests) -> None:
    """On random calls within what is known, the smaller tree leads to the same function."""
    for release in RELEASES:
        with subtests.test(release=release):
            rng = random.Random(release)
            for name, own in functions_of(release).own_trees.items():
                if name not in list(Collective):
                    continue
                for _ in range(150):
                    size, low = rng.randrange(2, 40), rng.choice([0, 1, 9, 2049, 12_288, 600_000])
                    high = low + rng.choice([0, 5, 400_000])
                    known = Known({"comm_size": (size, size), "avg_msg_size": (low, high)})
                    smaller = merged(cut(own, known))
                    call = Call(
                        Collective(name),
                        size,
                        rng.randint(low, high),
                        nodes=rng.randint(1, size),
                        in_place=rng.random() < 0.3,
                        commutative=rng.random() < 0.7,
                        builtin_operation=rng.random() < 0.5,
                        element_bytes=rng.choice([1, 8]),
                    )
                    facts = Facts(call, functions_of(release).knows_parts)
                    found = [search(tree, facts).leaf for tree in (own, smaller)]
                    assert found[0] == found[1]


def test_what_an_algorithm_needs_is_asked_for(subtests: pytest.Subtests) -> None:
    """Outside of its limits a choice is left to the library; MPICH itself would not look."""
    for release in RELEASES:
        with subtests.test(release=release):
            found = parsed(written(release), release)
            eight = Call(C.ALLREDUCE, 8, 1024, nodes=2)
            few = Call(C.ALLREDUCE, 8, 1024, nodes=2, element_bytes=256)
            own = Call(C.ALLREDUCE, 8, 1024, nodes=2, builtin_operation=False)
            assert found.decide(eight).configuration.algorithm == "reduce_scatter_allgather"
            assert found.decide(few).configuration.is_default
            assert found.decide(own).configuration.is_default
            in_place = Call(C.ALLTOALL, 8, 64, nodes=2, in_place=True)
            assert found.decide(in_place).configuration.is_default
            ordered = Call(C.REDUCE_SCATTER, 8, 64, nodes=2, commutative=False)
            assert found.decide(ordered).configuration.is_default


def test_layouts_are_told_apart(subtests: pytest.Subtests) -> None:
    """Four processes on one node, on two, on four, and on three get what the table says of them."""
    for release in RELEASES:
        with subtests.test(release=release):
            found = parsed(written(release), release)
            chosen = {
                n: found.decide(Call(C.BCAST, 4, 64, nodes=n)).chosen.algorithm
                for n in (1, 2, 3, 4)
            }
            assert chosen[1] == "scatter_recursive_doubling_allgather"
            assert chosen[2] == "scatter_ring_allgather"
            assert chosen[4] == "default"
            # up to 4.1 no test tells an average of 1.3 from one of 2
            assert chosen[3] == ("scatter_ring_allgather" if release < "4.2" else "default")


def test_an_uneven_layout_that_cannot_be_told_is_noted() -> None:
    """6 processes on 3 nodes: 4.1 takes 4 nodes for them, 4.2 does not."""
    table = DecisionTable(
        "mpich", Shape(6, 2), {}, {(C.BCAST, Shape(3, 2)): steps((0, "bcast.binomial"))}
    )
    assert "uneven layouts" in FORMAT.write(table, "4.1.3").notes[0]
    assert FORMAT.write(table, "4.2.3").notes == ()


def test_sizes_are_in_the_units_of_each_collective() -> None:
    """Blocks of allgather are summed over all processes; a buffer of bcast is taken as it is."""
    document = json.loads(written("5.0.2"))
    text = json.dumps(document["collective=allgather"])
    assert f"total_msg_size<={1024 * 8}" in text
    assert "avg_msg_size<=4095" in json.dumps(document["collective=bcast"])


def test_what_no_test_can_hold_is_left_to_the_library() -> None:
    """A C int ends at 2 GiB of all processes' blocks."""
    table = DecisionTable(
        "mpich",
        Shape(1, 8),
        {(C.ALLGATHER, 8): steps((0, "allgather.brucks"), (1 << 29, "allgather.ring"))},
    )
    found = FORMAT.write(table, "5.0.2")
    assert "sizes above 268435455 bytes" in found.notes[0]
    read = parsed(found.text)
    assert read.decide(Call(C.ALLGATHER, 8, 268_435_455)).chosen.algorithm == "brucks"
    assert read.decide(Call(C.ALLGATHER, 8, 268_435_456)).chosen.is_default


def test_scan_and_gather_get_one_rule_or_none() -> None:
    """No test is defined for scan, and gather's ranks would disagree."""
    table = DecisionTable(
        "mpich",
        Shape(1, 4),
        {
            (C.SCAN, 4): steps((0, "scan.recursive_doubling"), (64, "scan.default")),
            (C.GATHER, 4): steps((0, "gather.binomial")),
        },
    )
    found = FORMAT.write(table, "5.0.2")
    assert [note.partition(" ")[0] for note in found.notes] == ["scan"]
    assert parsed(found.text).decide(Call(C.GATHER, 4, 64)).chosen.algorithm == "binomial"


def test_a_file_never_ends_with_a_page() -> None:
    """MPICH maps it into memory and reads on to the next zero byte."""
    text = nothing("5.0.2")
    padded = text.rstrip("\n") + " " * (-len(text.rstrip("\n")) % 4096)
    assert len(padded) % 4096 == 0
    found = parsed(padded)
    assert [f.fault for f in lint(found)] == [Fault.ENDS_PROGRAM]
    assert lint(found)[0].severity is Severity.ERROR
    assert all(len(written(release)) % 4096 for release in RELEASES)


def in_job(release: str, **variables: str) -> dict[str, str]:
    """Return a job's variables, with a tree's path and the device out of the way."""
    return FORMAT.activation(release, {"": "/nowhere/tree.json"}) | {
        f"MPIR_CVAR_{name}": value for name, value in variables.items()
    }


def test_who_decides_in_a_job() -> None:
    """Without the variable no file is read; then the device, a variable, and the tree last."""
    found = parsed(written("5.0.2"))
    call = Call(C.BCAST, 8, 8192, nodes=2)
    assert found.decide(call, {}).configuration.is_default
    assert found.decide(call, in_job("5.0.2")).configuration.algorithm == "scatter_ring_allgather"
    device = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": "/nowhere/tree.json"}
    outcome = found.decide(call, device)
    assert outcome.component == "ch4 Bcast_intra_composition_alpha"
    assert outcome.configuration.is_default
    assert outcome.chosen.algorithm == "scatter_ring_allgather"
    forced = found.decide(call, in_job("5.0.2", BCAST_INTRA_ALGORITHM="binomial"))
    assert forced.configuration.algorithm == "binomial"
    wrong = found.decide(call, in_job("5.0.2", REDUCE_INTRA_ALGORITHM="fast"))
    assert "ends in MPI_Init" in wrong.ends_program


def test_a_variable_that_cannot_run_leaves_it_to_the_tree() -> None:
    """Silently, unless fall-backs are errors."""
    found = parsed(written("5.0.2"))
    call = Call(C.ALLREDUCE, 8, 32, nodes=2, element_bytes=8)
    job = in_job("5.0.2", ALLREDUCE_INTRA_ALGORITHM="reduce_scatter_allgather")
    assert found.decide(call, job).configuration.algorithm == "recursive_doubling"
    strict = found.decide(call, job | {"MPICH_COLLECTIVE_FALLBACK": "error"})
    assert "cannot run" in strict.ends_program


def test_the_device_file_is_read_where_it_can_be(tmp_path: Path) -> None:
    """It leaves to the tree exactly the calls for which the tree chooses."""
    made = FORMAT.write(job_table("5.0.2"), "5.0.2")
    paths = {end: str(tmp_path / f"tree{end}") for end in made.texts}
    for end, path in paths.items():
        Path(path).write_text(made.texts[end], encoding="utf-8")
    job = FORMAT.activation("5.0.2", paths, Shape(2, 4))
    # the device's file is found beside the main one
    assert FORMAT.activation("5.0.2", {"": paths[""]}) == job
    found = parsed(made.text)
    chosen = found.decide(Call(C.BCAST, 8, 8192, nodes=2), job)
    assert (chosen.configuration.algorithm, chosen.component) == ("scatter_ring_allgather", "")
    left = found.decide(Call(C.BCAST, 8, 1 << 20, nodes=2), job)
    assert left.configuration.is_default
    assert left.component == "ch4 Bcast_intra_composition_gamma" or not left.component
    reduce = found.decide(Call(C.REDUCE, 8, 64, nodes=2), job)
    assert reduce.component == "ch4 Reduce_intra_composition_beta"


def test_renamed_functions_are_converted_and_unknown_ones_told() -> None:
    """Barrier's dissemination got a radix with 4.1; rings of allreduce came with it."""
    table = DecisionTable(
        "mpich",
        Shape(1, 4),
        {
            (C.BARRIER, 4): steps((0, "barrier.k_dissemination:fanout=2")),
            (C.ALLREDUCE, 4): steps((0, "allreduce.ring")),
        },
    )
    new = parsed(written("5.0.2", table))
    old = FORMAT.convert(new, "4.0.2")
    assert "has no MPIR_Allreduce_intra_ring; left to the library" in old.notes[0]
    assert "is MPIR_Barrier_intra_dissemination in MPICH 4.0.2" in old.notes[1]
    read = parsed(old.text, "4.0.2")
    assert [f for f in lint(read) if f.severity is Severity.ERROR] == []
    assert read.decide(Call(C.BARRIER, 4, 0)).chosen.algorithm == "dissemination"
    assert read.decide(Call(C.ALLREDUCE, 4, 64)).chosen.is_default
    again = parsed(FORMAT.convert(read, "5.0.2").text)
    assert again.decide(Call(C.BARRIER, 4, 0)).chosen.id == "mpich.barrier.k_dissemination:fanout=2"


def test_a_tree_of_somebody_else_is_read_by_its_names() -> None:
    """Leaves without our mark are choices, also where the library would choose the same."""
    text = nothing("5.0.2").replace('"left_to_library": {}', "")
    found = parsed(text)
    assert found.decide(Call(C.ALLGATHER, 6, 64)).chosen.algorithm == "brucks"
    assert matching(found, Fault.NOT_EVERYWHERE, "the device splits bcast") is not None
    assert all(rule.configuration is not None for rule in found.rules)
    assert {len(path) > 0 for path, _ in leaves(functions_of("5.0.2").own_trees["bcast"])} == {True}
