"""Lists of MPICH's control variables: read, written, decided; and what a user's own ones mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.formats import FORMATS
from colltune.mpi.mpich.environment import DEVICE_FILE, TREE_FILE
from colltune.mpi.rules import Call, Fault, Rules
from tests.mpi.linting import lint
from tests.refusals import refused

FORMAT, TREES = FORMATS["mpich-cvars"], FORMATS["mpich-json"]
C = Collective


def parsed(text: str, release: str = "5.0.2") -> Rules:
    """Return what a release makes of a list."""
    return FORMAT.parse(text, "f", release)


def always(*names: str, size: int = 8) -> DecisionTable:
    """Return a table with one choice each for communicators of a size."""
    choices = [Configuration.parse(f"mpich.{name}") for name in names]
    rules: dict[tuple[Collective, int], tuple[Interval, ...]] = {
        (choice.collective, size): (Interval(0, None, choice),) for choice in choices
    }
    return DecisionTable("mpich", Shape(2, size // 2), rules)


PIPELINED = "bcast.pipelined_tree_kary:fanout=4,segsize=1024"


def test_a_choice_is_written_with_its_parameters_and_without_the_device() -> None:
    """The variables are those under which it is measured."""
    assert FORMAT.write(always(PIPELINED), "5.0.2").text == (
        "# Written by colltune for any legal program; all ranks get the same result, which may be "
        "rounded otherwise.\n"
        "MPIR_CVAR_BCAST_DEVICE_COLLECTIVE=0\n"
        "MPIR_CVAR_BCAST_INTRA_ALGORITHM=pipelined_tree\n"
        "MPIR_CVAR_BCAST_TREE_KVAL=4\n"
        "MPIR_CVAR_BCAST_TREE_PIPELINE_CHUNK_SIZE=1024\n"
    )


def test_one_segment_is_no_pipeline() -> None:
    """A message that is not cut goes down the tree in one piece, by a list and by a tree."""
    listed = parsed(FORMAT.write(always(PIPELINED), "5.0.2").text)
    tree = TREES.parse(TREES.convert(listed, "5.0.2").text, "t", "5.0.2")
    small = Call(C.BCAST, 8, 1000, nodes=2)
    for found in (listed, tree):
        assert found.decide(small).configuration.id == "mpich.bcast.tree_kary:fanout=4"
        assert found.decide(small).chosen.id == f"mpich.{PIPELINED}"


def test_several_choices_are_left_to_the_library() -> None:
    """A variable holds one for all sizes."""
    table = DecisionTable(
        "mpich",
        Shape(1, 4),
        {
            (C.BCAST, 4): (
                Interval(0, 99, Configuration.parse("mpich.bcast.binomial")),
                Interval(100, None, Configuration.parse("mpich.bcast.scatter_ring_allgather")),
            )
        },
    )
    found = FORMAT.write(table, "5.0.2")
    assert found.notes == ("bcast: needs more than one variable; left to the library",)
    assert parsed(found.text).rules == ()


def test_the_likely_spelling_of_a_variable_is_told(subtests: pytest.Subtests) -> None:
    """MPICH ignores what it does not know, without a word."""
    for wrong, meant in (
        ("MPIR_CVAR_BCAST_INTRA_ALGORITM", "MPIR_CVAR_BCAST_INTRA_ALGORITHM"),
        ("MPIR_CVAR_Bcast_INTRA_ALGORITHM", "MPIR_CVAR_BCAST_INTRA_ALGORITHM"),
        ("MPIR_CVR_ALLREDUCE_INTRA_ALGORITHM", "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"),
        ("MPIR_CVAR_COLL_SELECTION_TUNING_JASON_FILE", TREE_FILE),
        ("MPIR_CVAR_COLL_CH4_SELECTION_TUNING_JSON_FILE", DEVICE_FILE),
        ("MPIR_CVAR_CH4_SELECTION_TUNING_JSON_FILE", DEVICE_FILE),
    ):
        with subtests.test(wrong=wrong, meant=meant):
            found = lint(parsed(f"{wrong}=x\nMPIR_CVAR_DEVICE_COLLECTIVES=none\n"))
            assert [(f.line, f.fault, f.mend) for f in found] == [
                (1, Fault.UNKNOWN, f"write {meant}")
            ]


def test_variables_of_others_are_left_alone() -> None:
    """What MPICH has beyond collectives is known; others read variables with its old prefix."""
    text = "MPIR_CVAR_CH4_NETMOD=ofi\nMPICH_GPU_SUPPORT_ENABLED=1\nMPIR_PARAM_CH4_NUM_VCIS=2\n"
    assert {(f.line, f.fault) for f in lint(parsed(text))} == {(2, Fault.REMARK)}


def test_faults_are_found(subtests: pytest.Subtests) -> None:
    """Each with what MPICH does with it."""
    for text, fault, words in (
        ("MPIR_CVAR_BCAST_INTRA_ALGORITHM=fast", Fault.ENDS_PROGRAM, "ends in MPI_Init"),
        ("MPICH_BCAST_INTRA_ALGORITHM=2", Fault.ENDS_PROGRAM, "no such algorithm"),
        ("MPIR_CVAR_IBCAST_INTRA_ALGORITHM=fast", Fault.ENDS_PROGRAM, "ends in MPI_Init"),
        ("MPIR_CVAR_BROADCAST_INTRA_ALGORITHM=nb", Fault.UNKNOWN, "has no variable"),
        ("MPIR_CVAR_BCAST_INTRA_ALGORITM=nb", Fault.UNKNOWN, "has no variable"),
        ("MPIR_CVARS_BCAST_INTRA_ALGORITHM=nb\nMPIR_CVAR_CH4_NUM_VCIS=1", Fault.UNKNOWN, ""),
        ("MPICH_BCAST_INTRA_ALGORITM=nb", Fault.UNKNOWN, "has no variable"),
        ("MPIR_CVAR_BCAST_TREE_PIPELINE_CHUNK_SIZE=1", Fault.WRONG_UNIT, "every few"),
        ("MPIR_CVAR_BCAST_SHORT_MSG_SIZE=1", Fault.NO_EFFECT, "do not affect blocking"),
        ("MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial", Fault.OUTRANKED, "by nodes"),
        ("MPIR_CVAR_BCAST_DEVICE_COLLECTIVE=False", Fault.ENDS_PROGRAM, "no switch"),
        ("MPIR_CVAR_COLLECTIVE_FALLBACK=no", Fault.ENDS_PROGRAM, "print, silent"),
        ("MPIR_CVAR_DEVICE_COLLECTIVES=maybe", Fault.ENDS_PROGRAM, "all, none, percoll"),
        ("MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM=binomial", Fault.ENDS_PROGRAM, "ipc_read"),
        ("MPIR_CVAR_IBCAST_INTRA_ALGORITHM=nb", Fault.ENDS_PROGRAM, "no such algorithm"),
        ("MPIR_CVAR_BARRIER_DISSEM_KVAL=1", Fault.HANGS, "radix below 2"),
        ("MPIR_CVAR_BARRIER_DISSEM_KVAL=x", Fault.ENDS_PROGRAM, "no number"),
        (
            "MPIR_CVAR_REDUCE_SCATTER_INTRA_ALGORITHM=noncommutative",
            Fault.ENDS_PROGRAM,
            "aborts unless all blocks are equal",
        ),
        (
            "MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=recursive_doubling",
            Fault.NOT_EVERYWHERE,
            "needs power-of-two",
        ),
        (
            "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM=pairwise\nMPIR_CVAR_ALLTOALL_BRUCKS_KVAL=4",
            Fault.NO_EFFECT,
            "no effect on pairwise",
        ),
        (
            "MPICH_SCAN_INTRA_ALGORITHM=nb\nMPIR_CVAR_SCAN_INTRA_ALGORITHM=auto",
            Fault.OVERRIDDEN,
            "MPIR_CVAR_SCAN_INTRA_ALGORITHM on line 2 has priority over",
        ),
        (
            "MPICH_SCAN_INTRA_ALGORITHM=nb\nMPICH_SCAN_INTRA_ALGORITHM=auto",
            Fault.DEAD_RULE,
            "set again on line 2",
        ),
        ("export MPIR_CVAR_X=1\nset -e", Fault.REMARK, "passed over"),
        ("MPIR_CVAR_SCAN_INTRA_ALGORITHM=nb\nexport A=1", Fault.REMARK, "not exported"),
        ("export MPIR_CVAR_SCAN_INTRA_ALGORITHM=$X", Fault.REMARK, "depends on $X"),
    ):
        with subtests.test(text=text, fault=fault):
            found = [f for f in lint(parsed(text)) if f.fault is fault]
            assert [words in f.message for f in found] == [True]
            assert 1 <= found[0].line <= 2


def test_where_it_cannot_run_the_library_decides_unless_told_otherwise() -> None:
    """A power of two is asked for at every call."""
    text = "export MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=recursive_doubling # as measured\r\n"
    found = parsed(text)
    four, six = (Call(C.ALLGATHER, size, 64) for size in (4, 6))
    assert found.decide(four).configuration.algorithm == "recursive_doubling"
    assert found.decide(six).configuration.is_default
    assert found.decide(six).chosen.algorithm == "recursive_doubling"
    strict = found.decide(six, {"MPIR_CVAR_COLLECTIVE_FALLBACK": "error"})
    assert "cannot run" in strict.ends_program


def test_the_device_goes_first_on_communicators_with_nodes() -> None:
    """Unless it is switched off for the collective, or told to stay flat (which 4.0 cannot be)."""
    text = "MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial\n"
    call = Call(C.BCAST, 8, 64, nodes=2)
    assert parsed(text).decide(call).component == "ch4 Bcast_intra_composition_alpha"
    assert parsed(text).decide(Call(C.BCAST, 8, 64, nodes=8)).configuration.algorithm == "binomial"
    off = text + "MPIR_CVAR_BCAST_DEVICE_COLLECTIVE=0\n"
    assert parsed(off).decide(call).configuration.algorithm == "binomial"
    flat = text + "MPIR_CVAR_BCAST_COMPOSITION=3\n"
    assert parsed(flat).decide(call).configuration.algorithm == "binomial"
    assert parsed(flat, "4.0.2").decide(call).component == "ch4 Bcast_intra_composition_alpha"


def test_a_wrong_name_ends_every_call() -> None:
    """MPI_Init looks at all variables."""
    found = parsed("MPIR_CVAR_BCAST_INTRA_ALGORITHM=fast\n")
    assert "ends in MPI_Init" in found.decide(Call(C.SCAN, 4, 8)).ends_program


def test_a_list_becomes_a_tree_and_back() -> None:
    """What holds for every call is kept; what does not is noted, with its line."""
    listed = parsed(FORMAT.write(always("alltoall.brucks", "bcast.binomial"), "5.0.2").text)
    tree = TREES.convert(listed, "4.2.3")
    assert tree.notes == ()
    read = TREES.parse(tree.text, "t", "4.2.3")
    assert read.decide(Call(C.BCAST, 5, 9)).chosen.algorithm == "binomial"
    back = FORMAT.convert(read, "5.0.2")
    # in-place calls of alltoall need another algorithm, and parts of communicators their own
    assert all("depends on the call" in note for note in back.notes)
    limited = parsed("MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=recursive_doubling\n")
    assert "needs power_of_two_processes" in TREES.convert(limited, "5.0.2").notes[0]


def test_the_activation_is_what_the_list_sets(tmp_path: Path) -> None:
    """No variable of MPICH names a list: all of it has to be exported."""
    path = tmp_path / "list"
    path.write_text("MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial\n", encoding="utf-8")
    assert FORMAT.activation("5.0.2", {"": str(path)}) == {
        "MPIR_CVAR_BCAST_INTRA_ALGORITHM": "binomial"
    }


def test_what_is_no_list_is_refused() -> None:
    """One clear error for a file of something else."""
    with refused("no-variables", LibraryError):
        parsed("hello\n")


def test_collectives_with_one_rule() -> None:
    """Those whose message sizes no test tells apart for all ranks."""
    assert library("mpich").at("5.0.2").one_rule == {
        *(C.ALLTOALLV, C.BARRIER, C.EXSCAN, C.GATHER, C.SCAN, C.SCATTER)
    }
