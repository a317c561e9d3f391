"""What is found in selection trees of MPICH that are broken, or not what they seem."""

from __future__ import annotations

import json

import pytest

from colltune.errors import LibraryError
from colltune.mpi.file_format import Call, Fault, Severity
from colltune.mpi.mpich.tree import as_c_int, parsed_test
from tests.mpi.linting import lint
from tests.mpi.mpich_trees import (
    INTER,
    C,
    leaf,
    matching,
    nothing,
    parsed,
    with_bcast,
)

FAULTY: list[tuple[str, str, Fault, str]] = [
    (
        "sorted as text",
        with_bcast(
            {
                "comm_type=intra": {
                    "avg_msg_size<=128": leaf("binomial"),
                    "avg_msg_size<=8": leaf("scatter_ring_allgather"),
                    "avg_msg_size=any": leaf("binomial"),
                },
                **INTER,
            }
        ),
        Fault.UNSORTED,
        "'avg_msg_size<=8' is never reached: 'avg_msg_size<=128' stands before it",
    ),
    (
        "no end",
        with_bcast({"comm_type=intra": {"avg_msg_size<=8": leaf("binomial")}, **INTER}),
        Fault.ENDS_PROGRAM,
        "a chain of tests ends with 'avg_msg_size<=8'",
    ),
    (
        "between groups",
        with_bcast({"comm_type=intra": leaf("binomial")}),
        Fault.ENDS_PROGRAM,
        "calls for which 'comm_type=intra' does not hold find no algorithm",
    ),
    (
        "unknown key",
        with_bcast({"comm_type=intra": {"size<=8": leaf("binomial")}, **INTER}),
        Fault.ENDS_PROGRAM,
        "knows no test 'size<=8'",
    ),
    (
        "unknown algorithm",
        with_bcast({"comm_type=intra": leaf("fast"), **INTER}),
        Fault.ENDS_PROGRAM,
        "has no algorithm 'MPIR_Bcast_intra_fast'",
    ),
    (
        "of another collective",
        with_bcast({"comm_type=intra": leaf("MPIR_Scatter_intra_binomial"), **INTER}),
        Fault.ENDS_PROGRAM,
        "MPIR_Scatter_intra_binomial is no algorithm of bcast",
    ),
    (
        "parameters missing",
        with_bcast({"comm_type=intra": leaf("tree", tree_type="kary"), **INTER}),
        Fault.HANGS,
        "MPIR_Bcast_intra_tree needs k",
    ),
    (
        "radix",
        with_bcast(
            {"comm_type=intra": leaf("tree", tree_type="kary", k=0, is_non_blocking=1), **INTER}
        ),
        Fault.HANGS,
        "'k=0': a radix below 2 never ends",
    ),
    (
        "parameter without effect",
        with_bcast({"comm_type=intra": leaf("binomial", k=4), **INTER}),
        Fault.NO_EFFECT,
        "'k=4' has no effect on MPIR_Bcast_intra_binomial",
    ),
    (
        "type of tree",
        with_bcast(
            {"comm_type=intra": leaf("tree", tree_type="oak", k=2, is_non_blocking=1), **INTER}
        ),
        Fault.UNKNOWN,
        "no tree type 'oak' in a file; kary is taken",
    ),
    (
        "less than below a call's test",
        with_bcast(
            {
                "comm_type=intra": {
                    "avg_msg_size<=8": {
                        "comm_size<8": leaf("binomial"),
                        "comm_size=any": leaf("scatter_ring_allgather"),
                    },
                    "avg_msg_size=any": leaf("binomial"),
                },
                **INTER,
            }
        ),
        Fault.INHERITED,
        "takes 'comm_size<8' for <= here",
    ),
    (
        "beyond a C int",
        with_bcast(
            {
                "comm_type=intra": {
                    "avg_msg_size<=4294967297": leaf("binomial"),
                    "avg_msg_size=any": leaf("scatter_ring_allgather"),
                },
                **INTER,
            }
        ),
        Fault.MALFORMED,
        "reads 'avg_msg_size<=4294967297' as 'avg_msg_size<=1'",
    ),
    (
        "a bound with a unit",
        with_bcast(
            {
                "comm_type=intra": {
                    "avg_msg_size<=1k": leaf("binomial"),
                    "avg_msg_size=any": leaf("scatter_ring_allgather"),
                },
                **INTER,
            }
        ),
        Fault.MALFORMED,
        "reads 'avg_msg_size<=1k' as 'avg_msg_size<=1'",
    ),
    (
        "a misspelt test beside any",
        with_bcast(
            {"comm_type=intra": {"comm_sze<=4": leaf("binomial"), "any": leaf("nb")}, **INTER}
        ),
        Fault.ENDS_PROGRAM,
        "knows no test 'comm_sze<=4'",
    ),
    (
        "smp everywhere",
        with_bcast({"comm_type=intra": leaf("smp"), **INTER}),
        Fault.ENDS_PROGRAM,
        "MPIR_Bcast_intra_smp needs 'comm_hierarchy=parent'",
    ),
    (
        "a test beside an algorithm",
        with_bcast({"comm_type=intra": {**leaf("binomial"), "comm_size=any": {}}, **INTER}),
        Fault.ENDS_PROGRAM,
        "'comm_size=any' stands beside an algorithm",
    ),
    (
        "any first",
        with_bcast(
            {
                "comm_type=intra": {
                    "comm_size=any": leaf("binomial"),
                    "comm_size<=4": leaf("scatter_ring_allgather"),
                },
                **INTER,
            }
        ),
        Fault.ENDS_PROGRAM,
        "'comm_size=any' is not the last test of its chain",
    ),
    (
        "value of another kind",
        with_bcast({"comm_type=intra": 7, **INTER}),
        Fault.ENDS_PROGRAM,
        "the value of 'comm_type=intra' is no object",
    ),
]


@pytest.mark.parametrize(
    ("text", "fault", "words"), [f[1:] for f in FAULTY], ids=[f[0] for f in FAULTY]
)
def test_a_fault_is_found_on_its_line(text: str, fault: Fault, words: str) -> None:
    """The message says what MPICH does with it, and the line is the one that it names."""
    finding = matching(parsed(text), fault, words)
    assert finding is not None
    named = words.split("'")[1] if "'" in words else "algorithm"
    line = text.splitlines()[finding.line - 1]
    assert named in line or "algorithm=" in line
    assert finding.mend


def test_missing_collectives_are_named() -> None:
    """Programs end without them, and the message has all their names."""
    whole = json.loads(nothing("5.0.2"))
    del whole["collective=ibarrier"], whole["collective=scan"]
    found = parsed(json.dumps(whole))
    finding = matching(found, Fault.ENDS_PROGRAM, "no ibarrier, scan")
    assert finding is not None
    assert "no leaf below the root" in found.decide(Call(C.SCAN, 4, 8)).ends_program


def test_a_size_that_is_not_defined_ends_the_call() -> None:
    """avg_msg_size is defined for four collectives; allgather is none of them."""
    whole = json.loads(nothing("5.0.2"))
    ring, end = leaf("MPIR_Allgather_intra_ring"), leaf("MPIR_Allgather_intra_brucks")
    tests = {"avg_msg_size<=8": ring, "avg_msg_size=any": end}
    whole["collective=allgather"]["comm_type=intra"] = tests
    found = parsed(json.dumps(whole, indent=1))
    finding = matching(found, Fault.ENDS_PROGRAM, "avg_msg_size is not defined for allgather")
    assert finding is not None
    assert finding.mend == "use total_msg_size or count"
    assert "is not defined for it" in found.decide(Call(C.ALLGATHER, 4, 8)).ends_program


def test_the_same_bounds_for_all_communicators_look_like_blocks() -> None:
    """A known tuner writes sizes per process where MPICH compares totals."""
    whole = json.loads(nothing("5.0.2"))
    ring, brucks = leaf("MPIR_Allgather_intra_ring"), leaf("MPIR_Allgather_intra_brucks")
    sizes = {"total_msg_size<=64": brucks, "total_msg_size<=1024": ring, "total_msg_size=any": ring}
    whole["collective=allgather"]["comm_type=intra"] = {
        **{f"comm_size<={size}": sizes for size in (8, 16, 32)},
        "comm_size=any": ring,
    }
    found = parsed(json.dumps(whole, indent=1))
    assert matching(found, Fault.WRONG_UNIT, "allgather has the same bounds") is not None


def test_sizes_of_gather_make_ranks_disagree() -> None:
    """Its size comes from arguments that MPI ignores at the root of an in-place call."""
    whole = json.loads(nothing("5.0.2"))
    tests = {
        "total_msg_size<=64": leaf("MPIR_Gather_intra_binomial"),
        "total_msg_size=any": leaf("MPIR_Gather_allcomm_nb"),
    }
    whole["collective=gather"]["comm_type=intra"] = tests
    found = parsed(json.dumps(whole, indent=1))
    assert matching(found, Fault.RANKS_DISAGREE, "gather: ranks compute") is not None


@pytest.mark.parametrize(
    ("release", "text", "words"),
    [
        ("4.1.3", '"comm_avg_ppn<4"', "knows no test 'comm_avg_ppn<4'"),
        ("4.1.3", '"any"', "knows no test 'any'"),
        ("4.0.2", '"algorithm=MPIR_Barrier_intra_k_dissemination"', "has no algorithm"),
        ("4.1.3", '"algorithm=MPIR_Barrier_intra_dissemination"', "has no algorithm"),
    ],
)
def test_a_release_knows_its_own_words(release: str, text: str, words: str) -> None:
    """What other releases take ends a program of this one."""
    tree = f'{{"collective=barrier": {{{text}: {{"comm_size=any": {{}}}}}}}}'
    found = parsed(tree, release)
    assert matching(found, Fault.ENDS_PROGRAM, words) is not None
    assert found.decide(Call(C.BARRIER, 4, 0)).ends_program


def test_less_than_means_it_until_a_call_is_looked_at() -> None:
    """Among tests of communicators 8 is not below 8; further down from a test of the call it is."""
    inner = {"comm_size<8": leaf("binomial"), "comm_size=any": leaf("scatter_ring_allgather")}
    before = parsed(with_bcast({"comm_type=intra": inner, **INTER}))
    tests = {"avg_msg_size<=99": inner, "avg_msg_size=any": leaf("binomial")}
    after = parsed(with_bcast({"comm_type=intra": tests, **INTER}))
    eight = Call(C.BCAST, 8, 9)
    assert before.decide(eight).chosen.algorithm == "scatter_ring_allgather"
    assert after.decide(eight).chosen.algorithm == "binomial"
    assert after.decide(Call(C.BCAST, 9, 9)).chosen.algorithm == "scatter_ring_allgather"


def test_the_last_of_two_algorithms_counts() -> None:
    """The first one is found to be dead."""
    text = with_bcast({"comm_type=intra": leaf("binomial"), **INTER})
    doubled = text.replace(
        '"algorithm=MPIR_Bcast_intra_binomial": {}',
        '"algorithm=MPIR_Bcast_intra_smp": {},\n"algorithm=MPIR_Bcast_intra_binomial": {}',
    )
    found = parsed(doubled)
    assert matching(found, Fault.DEAD_RULE, "the last algorithm of an object counts") is not None
    assert found.decide(Call(C.BCAST, 4, 8)).chosen.algorithm == "binomial"


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("-3", -3), ("4x", 4), ("", 0), ("x", 0), (str(2**31), -(2**31)), ("9" * 40, -1)],
)
def test_numbers_are_read_as_c_reads_them(text: str, value: int) -> None:
    """``atoi`` stops at the first other character and is cut to 32 bits."""
    assert as_c_int(text) == value


def test_keys_that_are_no_tests() -> None:
    """A key without a relation is no test, except ``any``."""
    assert parsed_test("comm_size") is None
    any_test = parsed_test("any")
    assert any_test is not None
    assert any_test.is_any


def test_comments_and_blanks_in_keys_are_taken() -> None:
    """json-c takes comments and trailing commas, and MPICH blanks in keys."""
    text = nothing("5.0.2").replace('"collective=bcast"', '/* first */ "collective = bcast"')
    assert [f for f in lint(parsed(text)) if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"a": }', "\xff{}", "nothing"])
def test_what_is_no_tree_is_one_error(text: str) -> None:
    """The message names file and line."""
    with pytest.raises(LibraryError, match=r"^f:1: "):
        parsed(text)
