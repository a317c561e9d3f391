"""MPICH's selection tree: written whole, read as each release reads it, decided as it searches."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from colltune.domain import Collective, Configuration, DecisionTable, Interval, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Call, Fault, Finding, ParsedFile, Severity
from colltune.mpi.formats import FORMATS
from colltune.mpi.mpich import builtin
from colltune.mpi.mpich.facts import Facts, search
from colltune.mpi.mpich.tree import Known, as_c_int, cut, leaves, merged, parsed_test

RELEASES = ("4.0.2", "4.1.3", "4.2.3", "4.3.2", "5.0.2")
FORMAT = FORMATS["mpich-json"]
GOLDEN = Path(__file__).parents[1] / "golden" / "mpich"
C = Collective


def steps(*found: tuple[int, str]) -> tuple[Interval, ...]:
    """Return adjacent intervals from (first size, ``bcast.binomial``) pairs."""
    ends = [first - 1 for first, _ in found[1:]] + [None]
    return tuple(
        Interval(first, last, Configuration.parse(f"mpich.{text}"))
        for (first, text), last in zip(found, ends, strict=True)
    )


def job_table(release: str) -> DecisionTable:
    """Return a table with what the writer treats in ways of its own, for 2 nodes of 4."""
    return DecisionTable(
        "mpich",
        Shape(2, 4),
        {
            (C.BCAST, 8): steps(
                (0, "bcast.binomial"),
                (4096, "bcast.scatter_ring_allgather"),
                (1 << 20, "bcast.default"),
            ),
            (C.ALLGATHER, 8): steps((0, "allgather.brucks"), (1025, "allgather.ring")),
            (C.ALLREDUCE, 8): steps(
                (0, "allreduce.recursive_doubling"), (64, "allreduce.reduce_scatter_allgather")
            ),
            (C.ALLTOALL, 8): steps((0, "alltoall.pairwise")),
            (C.REDUCE_SCATTER, 8): steps((0, "reduce_scatter.pairwise")),
        },
        {
            (C.BCAST, Shape(1, 4)): steps((0, "bcast.scatter_recursive_doubling_allgather")),
            (C.BCAST, Shape(2, 2)): steps((0, "bcast.scatter_ring_allgather")),
        },
    )


def written(release: str, table: DecisionTable | None = None) -> str:
    """Return the main file of a table."""
    return FORMAT.write(table or job_table(release), release).text


def nothing(release: str) -> str:
    """Return a file in which all is left to the library."""
    return written(release, DecisionTable("mpich", Shape(1, 2), {}))


def parsed(text: str, release: str = "5.0.2") -> ParsedFile:
    """Return what a release makes of a text."""
    return FORMAT.parse(text, "f", release)


def with_bcast(tree: object, release: str = "5.0.2") -> str:
    """Return a complete file with another tree for bcast."""
    whole = json.loads(nothing(release))
    whole["collective=bcast"] = tree
    return json.dumps(whole, indent=1) + "\n"


def leaf(name: str, **parameters: object) -> dict[str, object]:
    """Return a leaf of bcast, or of the function named in full."""
    function = name if name.startswith("MPIR_") else f"MPIR_Bcast_intra_{name}"
    return {f"algorithm={function}": {f"{n}={v}": {} for n, v in parameters.items()}}


INTER = {"comm_type=inter": leaf("MPIR_Bcast_inter_remote_send_local_bcast")}


@pytest.mark.parametrize("release", ["4.0.2", "5.0.2"])
def test_the_file_is_the_one_that_was_looked_at(release: str) -> None:
    """The whole text of both files is as it was when it ran on the real library."""
    found = FORMAT.write(job_table(release), release)
    for end, text in found.texts.items():
        assert text == (GOLDEN / f"tree-{release}{end}.json").read_text(encoding="utf-8")
    assert found.notes == ()


@pytest.mark.parametrize("release", RELEASES)
def test_a_file_is_complete(release: str) -> None:
    """All 44 collectives are there, every chain ends, and there is nothing to find."""
    for text in (written(release), nothing(release)):
        document = json.loads(text)
        assert len(document) == 44
        assert list(parsed(text, release).findings) == []


@pytest.mark.parametrize("release", RELEASES)
def test_cutting_and_merging_keep_every_decision(release: str) -> None:
    """On random calls within what is known, the smaller tree leads to the same function."""
    rng = random.Random(release)
    for name, own in builtin.tree_of(release).items():
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
            found = [search(tree, Facts(call), release).leaf for tree in (own, smaller)]
            assert found[0] == found[1]


@pytest.mark.parametrize("release", RELEASES)
def test_what_an_algorithm_needs_is_asked_for(release: str) -> None:
    """Outside of its limits a choice is left to the library; MPICH itself would not look."""
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


@pytest.mark.parametrize("release", RELEASES)
def test_layouts_are_told_apart(release: str) -> None:
    """Four processes on one node, on two, on four, and on three get what the table says of them."""
    found = parsed(written(release), release)
    chosen = {n: found.decide(Call(C.BCAST, 4, 64, nodes=n)).chosen.algorithm for n in (1, 2, 3, 4)}
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
    assert [f.fault for f in found.findings] == [Fault.ENDS_PROGRAM]
    assert found.findings[0].severity is Severity.WARNING
    assert all(len(written(release)) % 4096 for release in RELEASES)


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
        Fault.UNKNOWN,
        "knows no test 'size<=8'",
    ),
    (
        "unknown algorithm",
        with_bcast({"comm_type=intra": leaf("fast"), **INTER}),
        Fault.UNKNOWN,
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


def matching(found: ParsedFile, fault: Fault, words: str) -> Finding | None:
    """Return the finding of that kind with these words."""
    return next((f for f in found.findings if f.fault is fault and words in f.message), None)


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
    assert matching(found, Fault.UNKNOWN, words) is not None
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
    assert [f for f in parsed(text).findings if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '{"a": }', "\xff{}", "nothing"])
def test_what_is_no_tree_is_one_error(text: str) -> None:
    """The message names file and line."""
    with pytest.raises(LibraryError, match=r"^f:1: "):
        parsed(text)


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
    assert [f for f in read.findings if f.severity is Severity.ERROR] == []
    assert read.decide(Call(C.BARRIER, 4, 0)).chosen.algorithm == "dissemination"
    assert read.decide(Call(C.ALLREDUCE, 4, 64)).chosen.is_default
    again = parsed(FORMAT.convert(read, "5.0.2").text)
    assert again.decide(Call(C.BARRIER, 4, 0)).chosen.id == "mpich.barrier.k_dissemination:fanout=2"


def test_a_tree_of_somebody_else_is_read_by_its_names() -> None:
    """Leaves without our mark are choices, also where the library would choose the same."""
    text = nothing("5.0.2").replace('"left_to_library": {}', "")
    found = parsed(text)
    assert found.decide(Call(C.ALLGATHER, 6, 64)).chosen.algorithm == "brucks"
    assert matching(found, Fault.OUTRANKED, "the device takes bcast") is not None
    assert all(rule.configuration is not None for rule in found.rules)
    assert {len(path) > 0 for path, _ in leaves(builtin.tree_of("5.0.2")["bcast"])} == {True}
