"""Classic rules files: what is written, what each release makes of a file, what is found."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.errors import LibraryError
from colltune.mpi import library
from colltune.mpi.formats import FORMATS, format_for
from colltune.mpi.openmpi.tuned_format import DISPATCH
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED, Programs
from colltune.mpi.rules import Call, Fault, Rules, Severity
from colltune.mpi.running import Promises
from tests.mpi.linting import lint
from tests.mpi.tables import HYDRA, intervals, table, table_of
from tests.refusals import refused

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


def test_what_makes_the_library_drop_a_file() -> None:
    """The file has no effect, and the finding tells the line at which the library gave up."""
    for text, line in (
        ("", 1),
        ("# nothing\n", 1),
        ("1\n7\n1\n0 2\n0 1 0 0\n", 5),
        ("23", 1),
        ("1\n22 0\n", 2),
        ("1\n7\n1\n0 1\n8 1 0 0\n", 5),
        ("1\n7\n1\n0 1\n0 -1 0 0\n", 5),
        ("1 7 -1", 1),
        ("{}", 1),
    ):
        for release in ("4.1.4", "5.0.11", "6.0.0"):
            file = CLASSIC.parse(text, "rules", release)
            assert file.dropped, (text, release)
            assert (line, Fault.FILE_DROPPED) in faults(text, release), (text, release)


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
    assert "5.0.6 has no file that can set the limit of requests" in older.notes[0]
    plain = table(Shape(1, 4), {(C.ALLTOALL, 4): intervals((0, "alltoall.linear_sync"))})
    assert CLASSIC.write(plain, "5.0.11").text.startswith("# Open MPI")


def test_a_file_for_6_means_the_same_to_all_releases() -> None:
    """Its bounds are written twice, so that starts and ends are the same."""
    written = CLASSIC.write(HYDRA, "6.0.0").text
    older = CLASSIC.parse(written, "rules", "5.0.11")
    for release in ("5.0.11", "6.0.0"):
        file = CLASSIC.parse(written, "rules", release)
        assert not [f for f in lint(file) if f.severity is Severity.ERROR]
        for collective, size, msize in product(
            (C.BCAST, C.ALLTOALL, C.ALLREDUCE), (2, 33, 34, 35, 1087, 1088, 1089), (0, 100, 65536)
        ):
            call = Call(collective, size, msize)
            assert file.decide(call).chosen == older.decide(call).chosen


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
        ("1\n12\n1\n0 1\n0 3 0 0\n", {(5, Fault.SOME_PROGRAMS)}),
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


def test_reasons_tell_the_rule_and_what_was_counted() -> None:
    """For explain: the line, the entry, the bytes that the library counted."""
    file = CLASSIC.parse("1\n3\n1\n0 2\n0 2 0 0\n64 1 0 0\n", "my.rules", "4.1.8")
    outcome = file.decide(Call(C.ALLTOALL, 8, 8))
    text = " ".join(outcome.reasons)
    assert "my.rules:6: the rule '64 1 0 0' applies" in text
    assert "counts 64 bytes" in text
    assert outcome.rule is not None
    assert (outcome.rule.line, outcome.rule.text) == (6, "64 1 0 0")
    assert outcome.configuration == Configuration.parse("openmpi.alltoall.linear")


GOLDEN = Path(__file__).parents[1] / "golden" / "openmpi"


def golden(name: str) -> str:
    """Return the text of a golden file."""
    return (GOLDEN / name).read_text(encoding="utf-8")


def test_a_table_is_written_as_the_golden_files_say(subtests: pytest.Subtests) -> None:
    """Rules, notes and dispatch file of the large table are exactly the recorded ones."""
    for release, programs, name in (
        ("4.1.4", ANY_LEGAL, "hydra-4.1.4"),
        ("5.0.11", ANY_LEGAL, "hydra-5.0.11"),
        ("5.0.11", MOST_PROMISED, "hydra-5.0.11-builtin"),
    ):
        with subtests.test(release=release, programs=str(programs), name=name):
            written = CLASSIC.write(HYDRA, release, programs=programs)
            notes = "".join(f"{note}\n" for note in written.notes)
            assert written.text == golden(f"{name}.rules")
            assert notes == golden(f"{name}.notes")
            assert written.texts.get(DISPATCH, "") == golden(f"{name}.dispatch")


def test_a_single_node_needs_no_dispatch_file() -> None:
    """Where no communicator spans nodes coll/han does not stand in the way."""
    rules = {(Collective.BCAST, 4): intervals((0, "bcast.pipeline"))}
    assert DISPATCH not in CLASSIC.write(table(Shape(1, 4), rules), "5.0.11").texts
    assert DISPATCH in CLASSIC.write(table(Shape(2, 2), rules), "5.0.11").texts


def test_collectives_without_han_need_no_dispatch_file() -> None:
    """Coll/han does not serve alltoall, whose rules take effect by themselves."""
    rules = {(Collective.ALLTOALL, 4): intervals((0, "alltoall.pairwise"))}
    assert DISPATCH not in CLASSIC.write(table(Shape(2, 2), rules), "5.0.11").texts


def test_a_table_without_a_choice_gives_an_empty_file() -> None:
    """When everything is left to the library the file names no collective."""
    rules = {(Collective.BCAST, 4): intervals((0, "bcast.default"))}
    written = CLASSIC.write(table(Shape(2, 2), rules), "5.0.11")
    assert CLASSIC.parse(written.text, "rules", "5.0.11").rules == ()
    assert (list(written.texts), written.notes) == ([""], ())


def test_a_table_with_gaps_is_refused(subtests: pytest.Subtests) -> None:
    """Intervals that do not cover all sizes, in order, are an error and not a guess."""
    for broken in (
        (),
        intervals((1, "bcast.binomial")),
        intervals((0, "bcast.binomial"))[:0],
        intervals((0, "alltoall.linear")),
        (*intervals((0, "bcast.binomial"), (8, "bcast.chain"))[:1],),
        (
            Interval(0, 7, Configuration.parse("openmpi.bcast.binomial")),
            Interval(9, None, Configuration.parse("openmpi.bcast.chain")),
        ),
    ):
        with (
            subtests.test(broken=broken),
            refused("intervals-of-table", LibraryError, where="bcast on 4 processes"),
        ):
            CLASSIC.write(table(Shape(1, 4), {(Collective.BCAST, 4): broken}), "5.0.11")


def test_six_gets_its_own_format() -> None:
    """Open MPI 6 reads JSON, releases before it the classic file."""
    named = {
        release: format_for("openmpi", release).name for release in ("4.1.4", "5.0.11", "6.0.0")
    }
    assert named == {
        "4.1.4": "openmpi-classic",
        "5.0.11": "openmpi-classic",
        "6.0.0": "openmpi-json",
    }


COMMENTED = """# comment with 1 2 3
2 # collectives
7 # bcast
2
0 1
0 0 0 0
16 3
0 6 0 0
8192 3 0 4096
262144 9 0 0
2 1 0 2 0 3 0 0 65536 4 0 0
"""


def parsed(text: str, release: str = "5.0.11") -> Rules:
    """Return what a release makes of a rules file."""
    return CLASSIC.parse(text, "rules", release)


_FURTHER = (Fault.NOT_EVERYWHERE, Fault.REMARK, Fault.INHERITED, Fault.FALLS_BACK)


def messages(text: str, release: str = "5.0.11") -> list[str]:
    """Return what is found beyond notes and what only reaches further than one may think."""
    found = lint(parsed(text, release))
    return [f"{f.line}: {f.message}" for f in found if f.fault not in _FURTHER]


def test_line_ends_mean_nothing(subtests: pytest.Subtests) -> None:
    """A file on one line, one number per line, or with DOS line ends says the same."""
    for join in (" ", "\n", "\r\n", "\t"):
        with subtests.test(join=join):
            numbers = [
                word for line in COMMENTED.splitlines() for word in line.partition("#")[0].split()
            ]
            job = Shape(4, 8)
            assert table_of(parsed(join.join(numbers)), "openmpi", job) == table_of(
                parsed(COMMENTED), "openmpi", job
            )


def test_what_the_library_drops_or_misreads_is_found(subtests: pytest.Subtests) -> None:
    """Each such fault is named with its line."""
    for old, new, message in (
        ("# comment", "\ufeff# comment", "rules:1: the file starts with a byte order mark"),
        (COMMENTED, "", "rules:1: the file ends where the number of collectives should follow"),
        (COMMENTED, "# nothing\n", "rules:1: the file ends"),
        (COMMENTED, '{"collectives": {}}', "rules:1: this is a JSON file"),
        ("2 # coll", "23 # coll", "rules:2: 23 collectives are announced, but there are only 22"),
        ("2 # coll", "3 # coll", "rules:11: the file ends where a collective's id"),
        ("2 # coll", "1 # coll", "rules:11: the number 2 is left over"),
        ("7 # bcast", "22 # bcast", "rules:3: there is no collective with the id 22"),
        (
            "7 # bcast",
            "5 # bcast",
            "rules:3: the library ignores the rules for the collective with the id 5",
        ),
        ("2 1 0 2", "7 1 0 2", "rules:11: bcast appears twice"),
        ("16 3", "16 4", "rules:11: message size 2 follows 262144"),
        (
            "16 3",
            "0 3",
            "rules:7: communicator size 0 appears twice in a row",
        ),
        ("0 6 0 0", "8 6 0 0", "rules:8: the first message size is 8"),
        ("8192", "262145", "rules:10: message size 262144 follows 262145"),
        ("8192", "8192.5", r"rules:9: '8192\.5' would be read as several numbers"),
        ("8192", "8,192", "rules:9: '8,192' would be read as several"),
        ("8192", "-1", "rules:9: a rule's message size is negative"),
        ("8192", "0x20", "rules:9: '0x20' would be read as octal or hexadecimal"),
        ("8192", "010", "rules:9: '010' would be read as octal"),
        ("8192", "089", "rules:9: '089' has a leading zero"),
        ("8192", "inf", "rules:9: 'inf' is not a number"),
        ("8192", str(2**63), "rules:9: the message size of this rule is too large"),
        ("8192 3", "8192 10", "rules:9: Open MPI 5.0.11 has no bcast algorithm 10"),
        ("8192 3 0 4096", "8192 3 0 4096 0", "rules:9: a rule starts in the middle"),
        ("8192 3 0 4096", "8192 3 0", "rules:10: a rule starts in the middle"),
        ("0 6 0 0", "0 6 0 0 7", "rules:8: a rule starts in the middle"),
        ("\n2 1 0 2 ", "\n9 1 0 2 ", "rules:11: gather has 2 rules"),
        ("65536 4 0 0", "65536 4 0", "rules:11: the file ends where a rule's segment size"),
    ):
        with subtests.test(old=old, new=new):
            assert old in COMMENTED
            pattern = re.compile(message.removeprefix("rules:"))
            found = messages(COMMENTED.replace(old, new, 1))
            assert any(pattern.match(fault) for fault in found), found


def test_two_process_algorithms_need_an_entry_of_exactly_two(subtests: pytest.Subtests) -> None:
    """A two-process algorithm on more processes ends the program; one process runs none."""
    for text, fine in (
        ("1 6 2  2 1 0 5 0 0  3 1 0 0 0 0", True),
        ("1 6 1  2 1 0 5 0 0", False),
        ("1 6 2  2 1 0 5 0 0  4 1 0 0 0 0", False),
        ("1 6 2  0 1 0 5 0 0  3 1 0 0 0 0", True),
    ):
        with subtests.test(text=text, fine=fine):
            ends = [f for f in messages(text) if "barrier two_proc ends programs" in f]
            assert bool(ends) != fine


def test_a_version_header_is_refused_where_it_makes_the_library_drop_the_file() -> None:
    """4.1.8 and 5.0.7 brought it; to earlier releases it is a negative number."""
    text = "rule-file-version-2\n1 3 1\n0 1\n0 4 0 0 8\n"
    for release in ("4.1.8", "5.0.7", "5.0.11"):
        assert not messages(text, release)
        assert not parsed(text, release).dropped
    for release in ("4.1.4", "4.1.7", "5.0.6"):
        assert any(
            fault.startswith("1: there is a version header") for fault in messages(text, release)
        )
        assert parsed(text, release).dropped


def test_algorithms_are_checked_against_the_release() -> None:
    """A number that only a newer release knows is refused for the older one."""
    text = "1 0 1 0 1 0 7 0 0"
    unknown = "Open MPI 4.1.8 has no allgather algorithm 7"
    assert any(unknown in fault for fault in messages(text, "4.1.8"))
    assert not any("has no allgather" in fault for fault in messages(text))


OPENMPI = library("openmpi")


def test_each_collective_has_its_own_unit(subtests: pytest.Subtests) -> None:
    """On 4 processes a threshold of 1024 is 256 per block where the library multiplies by n."""
    for collective_id, collective, last_of_first in (
        (7, "bcast", 1023),
        (2, "allreduce", 1023),
        (12, "reduce_scatter", 1023),
        (3, "alltoall", 255),
        (0, "allgather", 255),
        (13, "reduce_scatter_block", 255),
    ):
        with subtests.test(collective_id=collective_id, collective=collective):
            text = f"1 {collective_id} 1 0 2 0 1 0 0 1024 2 0 0"
            rules = CLASSIC.parse(text, "rules", "5.0.11")
            found = [
                rules.decide(Call(Collective(collective), 4, size)).chosen.algorithm
                for size in (last_of_first, last_of_first + 1)
            ]
            named = [
                OPENMPI.at("5.0.11").space.numbered(Collective(collective), n).algorithm
                for n in (1, 2)
            ]
            assert found == named


@st.composite
def decision_tables(draw: st.DrawFn) -> DecisionTable:
    """Draw a table over a few collectives, communicator sizes and thresholds."""
    nodes, ppn = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    rules = {}
    for collective in draw(st.sets(st.sampled_from(Collective), max_size=4)):
        pool = OPENMPI.at("5.0.11").portfolio(collective, (0, 512, 4096), (2, 8)).configurations
        for comm_size in draw(st.sets(st.integers(2, 9), max_size=3)):
            starts = [0, *sorted(draw(st.sets(st.integers(1, 20000), max_size=4)))]
            ends = [start - 1 for start in starts[1:]] + [None]
            rules[collective, comm_size] = tuple(
                Interval(first, last, draw(st.sampled_from(pool)))
                for first, last in zip(starts, ends, strict=True)
            )
    return DecisionTable("openmpi", Shape(nodes, ppn), rules)


def allowed(
    steps: tuple[Interval, ...], comm_size: int, msize_bytes: int, programs: Programs
) -> Configuration:
    """Return what must run: the table's choice where that is safe, else the default."""
    at = next(
        i for i in steps if i.last_bytes is None or i.first_bytes <= msize_bytes <= i.last_bytes
    )
    configuration = at.configuration
    promises = Promises(programs, element_bytes=8)
    runs = OPENMPI.at("5.0.11").runs(configuration, comm_size, promises)
    fits = not runs.why_not(msize_bytes)
    default = Configuration.default("openmpi", configuration.collective)
    return configuration if fits else default


PROGRAMS = st.builds(Programs, st.booleans(), st.booleans())
ONE_RULE = {"allgatherv", "alltoallv", "barrier", "exscan", "gather", "scan", "scatter"}


@settings(max_examples=50, deadline=None)
@given(decision_tables(), st.sampled_from(["4.1.4", "5.0.11"]), PROGRAMS)
def test_a_written_table_decides_as_the_table_wherever_that_is_safe(
    decisions: DecisionTable, release: str, programs: Programs
) -> None:
    """Read back and simulated, the file gives the table's choice, or the default."""
    written = CLASSIC.write(decisions, release, programs=programs)
    rules = CLASSIC.parse(written.text, "rules", release)
    named = {size for _, size in decisions.rules}
    near = {n for size in named for n in (size - 1, size, size + 1)} - {0, 1}
    for collective, comm_size in product({c for c, _ in decisions.rules} | {C.SCAN}, near):
        steps = decisions.rules.get((collective, comm_size), ())
        firsts = {i.first_bytes for i in steps}
        choices = {allowed(steps, comm_size, first, programs) for first in firsts}
        for msize in {m for first in firsts | {0, 10**6} for m in (first, max(0, first - 1))}:
            wanted = Configuration.default("openmpi", collective)
            if steps and collective.value not in ONE_RULE:
                wanted = allowed(steps, comm_size, msize, programs)
            elif len(choices) == 1:
                (wanted,) = choices
            assert rules.decide(Call(collective, comm_size, msize)).chosen == wanted


def test_words_that_the_library_skips_do_not_hide_the_format() -> None:
    """A title, and names between the numbers, are skipped by the library."""
    text = "bcast rules\n1\n7\n1\n0\n1\n0 @intra 6 0 0\n"
    assert FORMATS["openmpi-classic"].recognises(text)
    assert not FORMATS["openmpi-classic"].recognises("# OSU\n# Size  Avg\n1 bytes took 2.5 us\n")


def test_a_wrong_count_is_told_where_it_stands(subtests: pytest.Subtests) -> None:
    """Whatever is found behind it follows from it, and is not told."""
    lines = ["2", "3", "2", "4", "1", "0 1 0 0", "8", "2", "0 1 0 0", "64 2 0 0"]
    lines += ["7", "1", "8", "2", "0 1 0 0", "4096 2 0 0"]
    for at, right in ((0, "2"), (2, "2"), (4, "1"), (7, "2"), (11, "1"), (13, "2")):
        for wrong in (str(int(right) - 1), str(int(right) + 1)):
            text = "\n".join([*lines[:at], wrong, *lines[at + 1 :]]) + "\n"
            with subtests.test(line=at + 1, wrong=wrong):
                found = lint(FORMATS["openmpi-classic"].parse(text, "f", "5.0.8"))
                last = found[-1]
                assert (last.line, f"but {right} follow" in last.message) == (at + 1, True)
                assert last.fault in (Fault.FILE_DROPPED, Fault.MALFORMED)
    assert not [
        f
        for f in lint(FORMATS["openmpi-classic"].parse("\n".join(lines), "f", "5.0.8"))
        if f.fault in (Fault.FILE_DROPPED, Fault.MALFORMED)
    ]
