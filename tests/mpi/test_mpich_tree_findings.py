"""What is found in selection trees of MPICH that are broken, or not what they seem."""

from __future__ import annotations

import json

import pytest

from colltune.errors import LibraryError
from colltune.mpi.mpich.tree import as_c_int, parsed_test
from colltune.mpi.rules import Call, Fault, Severity
from tests.mpi.linting import lint
from tests.mpi.mpich_trees import INTER, C, leaf, matching, nothing, parsed, with_bcast

BINOMIAL, RING = leaf("binomial"), leaf("scatter_ring_allgather")
FAULTY: dict[str, tuple[Fault, dict[str, object]]] = {
    "'avg_msg_size<=8' is never reached, because 'avg_msg_size<=128' comes before it": (
        Fault.UNSORTED,
        {"avg_msg_size<=128": BINOMIAL, "avg_msg_size<=8": RING, "avg_msg_size=any": BINOMIAL},
    ),
    "a chain of tests ends with 'avg_msg_size<=8'": (
        Fault.ENDS_PROGRAM,
        {"avg_msg_size<=8": BINOMIAL},
    ),
    "knows no test 'size<=8'": (Fault.ENDS_PROGRAM, {"size<=8": BINOMIAL}),
    "knows no test 'comm_sze<=4'": (
        Fault.ENDS_PROGRAM,
        {"comm_sze<=4": BINOMIAL, "any": leaf("nb")},
    ),
    "has no algorithm 'MPIR_Bcast_intra_fast'": (Fault.ENDS_PROGRAM, leaf("fast")),
    "MPIR_Scatter_intra_binomial is not an algorithm of bcast": (
        Fault.ENDS_PROGRAM,
        leaf("MPIR_Scatter_intra_binomial"),
    ),
    "MPIR_Bcast_intra_smp needs 'comm_hierarchy=parent'": (Fault.ENDS_PROGRAM, leaf("smp")),
    "'comm_size=any' is in the same object as an algorithm": (
        Fault.ENDS_PROGRAM,
        {**BINOMIAL, "comm_size=any": {}},
    ),
    "'comm_size=any' is not the last test of its chain": (
        Fault.ENDS_PROGRAM,
        {"comm_size=any": BINOMIAL, "comm_size<=4": RING},
    ),
    "MPIR_Bcast_intra_tree needs k": (Fault.HANGS, leaf("tree", tree_type="kary")),
    "'k=0': a radix below 2 never ends": (
        Fault.HANGS,
        leaf("tree", tree_type="kary", k=0, is_non_blocking=1),
    ),
    "'k=4' has no effect on MPIR_Bcast_intra_binomial": (Fault.NO_EFFECT, leaf("binomial", k=4)),
    "no tree type 'oak', so kary is used": (
        Fault.UNKNOWN,
        leaf("tree", tree_type="oak", k=2, is_non_blocking=1),
    ),
    "takes 'comm_size<8' for <= here": (
        Fault.INHERITED,
        {
            "avg_msg_size<=8": {"comm_size<8": BINOMIAL, "comm_size=any": RING},
            "avg_msg_size=any": BINOMIAL,
        },
    ),
    "reads 'avg_msg_size<=4294967297' as 'avg_msg_size<=1'": (
        Fault.MALFORMED,
        {"avg_msg_size<=4294967297": BINOMIAL, "avg_msg_size=any": RING},
    ),
    "reads 'avg_msg_size<=1k' as 'avg_msg_size<=1'": (
        Fault.MALFORMED,
        {"avg_msg_size<=1k": BINOMIAL, "avg_msg_size=any": RING},
    ),
}
"""What is said of a tree for broadcasts within one group of processes, its fault, and the tree."""


def test_a_fault_is_found_on_its_line(subtests: pytest.Subtests) -> None:
    """The message says what MPICH does with it, and the line is the one that it names."""
    for words, (fault, tests) in FAULTY.items():
        with subtests.test(words=words):
            text = with_bcast({"comm_type=intra": tests, **INTER})
            finding = matching(parsed(text), fault, words)
            assert finding is not None
            named = words.split("'")[1] if "'" in words else "algorithm"
            line = text.splitlines()[finding.line - 1]
            assert named in line or "algorithm=" in line
            assert finding.mend


def test_broadcasts_need_a_tree_that_is_an_object_for_both_types_of_communicators() -> None:
    """Calls between groups find no algorithm, and a number is none."""
    without = parsed(with_bcast({"comm_type=intra": BINOMIAL}))
    words = "calls for which 'comm_type=intra' does not hold have no algorithm"
    assert matching(without, Fault.ENDS_PROGRAM, words) is not None
    number = parsed(with_bcast({"comm_type=intra": 7, **INTER}))
    words = "the value of 'comm_type=intra' is not an object"
    assert matching(number, Fault.ENDS_PROGRAM, words) is not None


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
    assert matching(found, Fault.RANKS_DISAGREE, "gather: each rank computes") is not None


def test_a_release_knows_its_own_words(subtests: pytest.Subtests) -> None:
    """What other releases take ends a program of this one."""
    for release, text, words in (
        ("4.1.3", '"comm_avg_ppn<4"', "knows no test 'comm_avg_ppn<4'"),
        ("4.1.3", '"any"', "knows no test 'any'"),
        ("4.0.2", '"algorithm=MPIR_Barrier_intra_k_dissemination"', "has no algorithm"),
        ("4.1.3", '"algorithm=MPIR_Barrier_intra_dissemination"', "has no algorithm"),
    ):
        with subtests.test(release=release, text=text):
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


def test_numbers_are_read_as_c_reads_them(subtests: pytest.Subtests) -> None:
    """``atoi`` stops at the first other character and is cut to 32 bits."""
    for text, value in (
        ("12", 12),
        ("-3", -3),
        ("4x", 4),
        ("", 0),
        ("x", 0),
        (str(2**31), -(2**31)),
        ("9" * 40, -1),
    ):
        with subtests.test(text=text, value=value):
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


def test_what_is_no_tree_is_one_error(subtests: pytest.Subtests) -> None:
    """The message names file and line."""
    for text in ("", "[]", "7", "{", '{"a": }', "\xff{}", "nothing"):
        with subtests.test(text=text):
            with pytest.raises(LibraryError) as raised:
                parsed(text)
            assert raised.value.code in ("begins-otherwise", "tree-not-json")
            assert raised.value.values["file"] == "f"


def test_what_no_call_below_a_test_meets_is_no_finding(subtests: pytest.Subtests) -> None:
    """Tests that exclude a kind of programs, and those that an algorithm needs, count."""
    algorithm = leaf("MPIR_Reduce_scatter_intra_noncommutative")
    other = leaf("MPIR_Reduce_scatter_intra_recursive_doubling")
    below: dict[str, object] = {
        "is_block_regular=yes": {"comm_size=pow2": algorithm, "comm_size=any": other}
    }
    below["is_block_regular=no"] = other
    inter = leaf("MPIR_Reduce_scatter_inter_remote_reduce_local_scatter")
    cases: tuple[tuple[object, set[Fault]], ...] = (
        ({"is_commutative=no": below, "is_commutative=yes": other}, set()),
        (algorithm, {Fault.ENDS_PROGRAM}),
    )
    for guarded, faults in cases:
        whole = json.loads(nothing("5.0.2"))
        whole["collective=reduce_scatter"] = {"comm_type=intra": guarded, "comm_type=inter": inter}
        found = lint(parsed(json.dumps(whole, indent=1)))
        with subtests.test(faults=faults):
            assert {each.fault for each in found if "noncomm" in each.message} == faults
