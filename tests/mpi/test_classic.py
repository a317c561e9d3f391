"""Classic rules files as each Open MPI release takes them."""

from __future__ import annotations

import pytest

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi.file_format import Call, Fault, Severity
from colltune.mpi.formats import FORMATS
from tests.mpi.linting import lint
from tests.mpi.tables import HYDRA, intervals, table

C = Collective
CLASSIC = FORMATS["openmpi-classic"]
SIZES = "1 7 3  3 1 0 3 0 0  5 1 0 5 0 0  7 2 0 7 0 0 1024 8 0 0"
GOOD = "1\n7\n2\n0 1\n0 0 0 0\n4 3\n0 6 0 0\n8192 3 0 4096\n262144 9 0 0\n"


def chosen(text: str, release: str, call: Call) -> str:
    """Return the algorithm that a file chooses for a call."""
    return CLASSIC.parse(text, "rules", release).decide(call).chosen.algorithm


def faults(text: str, release: str = "5.0.11") -> set[tuple[int, Fault]]:
    """Return what is found in a file."""
    found = lint(CLASSIC.parse(text, "rules", release))
    return {(finding.line, finding.fault) for finding in found}


def test_releases_take_sizes_in_their_own_ways(subtests: pytest.Subtests) -> None:
    """Up to 5.0 a size is where an entry starts, in 6.x where the next one does."""
    for release, algorithms in (
        ("4.1.8", ["pipeline", "pipeline", "pipeline", "binary_tree", "binary_tree", "knomial"]),
        ("6.0.0", ["pipeline", "binary_tree", "binary_tree", "knomial", "knomial", "knomial"]),
    ):
        with subtests.test(release=release, algorithms=algorithms):
            found = [chosen(SIZES, release, Call(C.BCAST, size, 9)) for size in range(2, 8)]
            assert found == algorithms


def test_sizes_out_of_order_are_taken_in_the_order_of_the_file() -> None:
    """5.0 goes on while sizes are not larger; 6.x takes the first range in which a size lies."""
    text = "1 7 1 0 4  0 1 0 0  100 3 0 0  50 5 0 0  200 6 0 0"
    at = {
        release: [chosen(text, release, Call(C.BCAST, 4, m)) for m in (60, 99, 120, 200)]
        for release in ("5.0.11", "6.0.0")
    }
    assert at["5.0.11"] == ["basic_linear", "basic_linear", "binary_tree", "binomial"]
    assert at["6.0.0"] == ["basic_linear", "basic_linear", "binary_tree", "binomial"]
    falling = "1 7 1 0 3  0 1 0 0  100 3 0 0  50 5 0 0"
    assert chosen(falling, "5.0.11", Call(C.BCAST, 4, 70)) == "basic_linear"
    entries = "1 7 3  0 1 0 1 0 0  8 1 0 3 0 0  4 1 0 5 0 0"
    assert [chosen(entries, "5.0.11", Call(C.BCAST, n, 9)) for n in (4, 8)] == [
        "basic_linear",
        "binary_tree",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("# nothing\n", 1),
        ("1\n7\n1\n0 2\n0 1 0 0\n", 5),
        ("23", 1),
        ("1\n22 0\n", 2),
        ("1\n7\n1\n0 1\n8 1 0 0\n", 5),
        ("1\n7\n1\n0 1\n0 -1 0 0\n", 5),
        ("1 7 -1", 1),
        ("{}", 1),
    ],
)
@pytest.mark.parametrize("release", ["4.1.4", "5.0.11", "6.0.0"])
def test_what_makes_the_library_drop_a_file(text: str, line: int, release: str) -> None:
    """The file has no effect, and the finding tells the line at which the library gave up."""
    file = CLASSIC.parse(text, "rules", release)
    assert file.dropped
    assert (line, Fault.FILE_DROPPED) in faults(text, release)
    outcome = file.decide(Call(C.BCAST, 4, 9))
    assert outcome.configuration.is_default
    assert any("drops rules as a whole" in reason for reason in outcome.reasons)
    with pytest.raises(LibraryError, match="nothing to convert"):
        CLASSIC.convert(file, release)


def test_a_limit_of_requests_needs_a_header_and_the_same_line() -> None:
    """In version 2 a fifth number on the line is the limit; in version 1 it shifts everything."""
    body = "1\n3\n1\n0 2\n0 4 0 0 8\n64 4 0 0\n"
    file = CLASSIC.parse(f"rule-file-version-2\n{body}", "rules", "5.0.11")
    ids = [file.decide(Call(C.ALLTOALL, 4, m)).chosen.id for m in (0, 16)]
    assert ids == ["openmpi.alltoall.linear_sync:requests=8", "openmpi.alltoall.linear_sync"]
    assert CLASSIC.parse(f"rule-file-version-2\n{body}", "rules", "5.0.6").dropped
    assert (5, Fault.MALFORMED) not in faults(f"rule-file-version-2\n{body}")
    assert (5, Fault.MALFORMED) in faults(body)


def test_requests_are_written_for_releases_that_read_them() -> None:
    """Such a file has a header; without its rule there is none, and older releases get a note."""
    limited = table(
        Shape(1, 4), {(C.ALLTOALL, 4): intervals((0, "alltoall.linear_sync:requests=8"))}
    )
    written = CLASSIC.write(limited, "5.0.11")
    assert written.text.startswith("rule-file-version-2\n")
    assert not written.notes
    older = CLASSIC.write(limited, "5.0.6")
    assert not older.text.startswith("rule")
    assert "no file of 5.0.6 can tell the limit of requests" in older.notes[0]
    plain = table(Shape(1, 4), {(C.ALLTOALL, 4): intervals((0, "alltoall.linear_sync"))})
    assert CLASSIC.write(plain, "5.0.11").text.startswith("# Open MPI")


def test_a_file_for_6_means_the_same_to_all_releases() -> None:
    """Its bounds are written twice, so that starts and ends are the same."""
    written = CLASSIC.write(HYDRA, "6.0.0").text
    for release in ("5.0.11", "6.0.0"):
        file = CLASSIC.parse(written, "rules", release)
        assert not [f for f in lint(file) if f.severity is Severity.ERROR]
        for size in (2, 33, 34, 35, 1087, 1088, 1089):
            for msize in (0, 100, 8192, 65536):
                for collective in (C.BCAST, C.ALLTOALL, C.ALLREDUCE):
                    call = Call(collective, size, msize)
                    old = CLASSIC.parse(written, "rules", "5.0.11").decide(call)
                    assert file.decide(call).chosen == old.chosen


def test_what_the_lint_finds(subtests: pytest.Subtests) -> None:
    """Each fault, with its line and weight, and nothing else."""
    for text, expected in (
        (GOOD, {(0, Fault.NOT_EVERYWHERE)}),
        ("1\n3\n1\n0 1\n0 2 0 0\n", set()),
        ("1\n3\n1\n0 1\n0 2 0 0\n7 7\n", {(6, Fault.DEAD_RULE)}),
        ("1\n5\n1\n0 1\n0 2 0 0\n", {(2, Fault.UNKNOWN)}),
        ("2\n3\n1\n0 1\n0 2 0 0\n3\n0\n", {(6, Fault.DEAD_RULE)}),
        ("1\n3\n1\n8 1\n0 2 0 0\n", {(4, Fault.INHERITED)}),
        ("1\n3\n1\n0 1\n0 9 0 0\n", {(5, Fault.ENDS_PROGRAM)}),
        ("1\n3\n1\n0 1\n0 5 0 0\n", {(5, Fault.ENDS_PROGRAM)}),
        ("1\n3\n1\n0 1\n0 2 4 64\n", {(5, Fault.NO_EFFECT)}),
        ("1\n3\n2\n0 1\n0 0 0 0\n64 2\n0 2 0 0\n9 1 0 0\n", {(8, Fault.WRONG_UNIT)}),
        ("1\n3\n1\n0 2\n0 2 0 0\n0 1 0 0\n", {(6, Fault.DEAD_RULE)}),
        ("1\n3\n1\n0 3\n0 2 0 0\n64 1 0 0\n32 3 0 0\n", {(7, Fault.UNSORTED)}),
        ("1\n4\n1\n0 2\n0 1 0 0\n8 2 0 0\n", {(4, Fault.DEAD_RULE)}),
        ("1\n1\n1\n0 2\n0 1 0 0\n8 2 0 0\n", {(4, Fault.RANKS_DISAGREE)}),
        ("1\n12\n1\n0 1\n0 3 0 0\n", {(5, Fault.COMMUTATIVE_ONLY)}),
        ("1\n1\n1\n0 1\n0 6 0 0\n", {(5, Fault.WRONG_RESULT)}),
        ("1\n1\n1\n7 1\n0 4 0 0\n", {(4, Fault.INHERITED), (5, Fault.FALLS_BACK)}),
        (f"1\n3\n1\n0 1\n0 2 0 {2**40}\n", {(5, Fault.MALFORMED)}),
        ("1\n7\n1\n0 1\n0 6 0 1\n", {(0, Fault.NOT_EVERYWHERE), (5, Fault.WRONG_UNIT)}),
        ("1\n3\n1\n0 1\n0 0 0 9\n", {(5, Fault.NO_EFFECT)}),
        ("rule-file-version-2\n1\n3\n1\n0 1\n0 2 0 0\n", {(1, Fault.REMARK)}),
        (
            "1\n3\n3\n0 1\n0 0 0 0\n6 3\n0 1 0 0\n100 2 0 0\n1000 3 0 0\n"
            "10 3\n0 2 0 0\n100 1 0 0\n1000 3 0 0\n",
            {(10, Fault.WRONG_UNIT)},
        ),
    ):
        with subtests.test(text=text, expected=expected):
            assert faults(text) == expected


def test_6_uses_entries_for_other_communicators() -> None:
    """A file that was meant for 5.0 is wrong for 6.x, entry by entry."""
    found = faults(SIZES.replace("  ", "\n"), "6.0.0")
    assert Fault.OTHER_RELEASE in {fault for _, fault in found}
    assert not {fault for _, fault in faults(GOOD)} & {Fault.OTHER_RELEASE}


def test_a_radix_below_2_hangs_6() -> None:
    """Bruck's algorithm of 6.x never ends with a fan-out of 0."""
    text = "1\n0\n1\n0 1\n0 2 0 0\n"
    assert (5, Fault.HANGS) in faults(text, "6.0.0")
    assert (
        "never ends"
        in CLASSIC.parse(text, "f", "6.0.0").decide(Call(C.ALLGATHER, 4, 8)).ends_program
    )
    assert Fault.HANGS not in {fault for _, fault in faults(text, "5.0.11")}


def test_communicators_and_sizes_at_which_it_changes() -> None:
    """Bounds of entries, and thresholds divided by the processes, rounded up."""
    file = CLASSIC.parse("1 3 2  4 1 0 1 0 0  6 3 0 2 0 0  100 3 0 0 1000 1 0 0", "f", "5.0.11")
    assert file.comm_sizes(C.ALLTOALL) == (2, 6)
    assert file.switch_points(C.ALLTOALL, 6) == (0, 17, 167)
    assert file.switch_points(C.ALLTOALL, 7) == (0, 15, 143)
    assert file.switch_points(C.BCAST, 7) == (0,)
    names = [file.decide(Call(C.ALLTOALL, 7, m)).chosen.algorithm for m in (14, 15, 142, 143)]
    assert names == ["pairwise", "modified_bruck", "modified_bruck", "linear"]


def test_conversion_keeps_ranges_and_tells_what_is_lost() -> None:
    """Entries keep their communicators; what the other release lacks is left to the library."""
    text = "2\n0\n1\n16 2\n0 4 0 0\n65536 7 0 0\n3\n2\n0 1\n0 0 0 0\n8 1\n0 4 0 0\n"
    converted = CLASSIC.convert(CLASSIC.parse(text, "f", "5.0.11"), "4.1.8")
    assert len(converted.notes) == 1
    assert converted.notes[0].startswith("line 6: left to the library:")
    again = CLASSIC.parse(converted.text, "f", "4.1.8")
    for size in (2, 7, 8, 16, 100):
        assert again.decide(Call(C.ALLGATHER, size, 8)).chosen.algorithm == "ring"
        assert again.decide(Call(C.ALLGATHER, size, 1 << 20)).chosen.is_default
        kept = again.decide(Call(C.ALLTOALL, size, 8)).chosen
        assert kept.is_default == (size < 8)


def test_a_file_can_be_huge_or_nonsense() -> None:
    """Counts, numbers and words of any size end in findings."""
    for text in (
        f"{2**62} 7 1",
        f"1 7 {2**62}",
        f"1 7 1 0 {2**62} 0 1 0 0",
        "9" * 6000,
        "1 7 1 " * 5000,
        "\udcff\udcfe 1 7 1 0 1 0 1 0 0",
        "é" * 100,
    ):
        file = CLASSIC.parse(text, "f", "5.0.11")
        assert lint(file)


def test_an_empty_table_is_an_empty_file() -> None:
    """It names no collective, is not dropped, and decides nothing."""
    for release in ("4.1.4", "5.0.11", "6.0.0"):
        written = CLASSIC.write(DecisionTable("openmpi", Shape(2, 2), {}), release)
        file = CLASSIC.parse(written.text, "f", release)
        assert (file.dropped, file.rules, lint(file)) == ("", (), ())


def test_reasons_tell_the_rule_and_what_was_counted() -> None:
    """For explain: the line, the entry, the bytes that the library counted."""
    file = CLASSIC.parse("1\n3\n1\n0 2\n0 2 0 0\n64 1 0 0\n", "my.rules", "4.1.8")
    outcome = file.decide(Call(C.ALLTOALL, 8, 8))
    text = " ".join(outcome.reasons)
    assert "my.rules:6: the rule '64 1 0 0' holds" in text
    assert "counts 64 bytes" in text
    assert outcome.rule is not None
    assert (outcome.rule.line, outcome.rule.text) == (6, "64 1 0 0")
    assert outcome.configuration == Configuration.parse("openmpi.alltoall.linear")
