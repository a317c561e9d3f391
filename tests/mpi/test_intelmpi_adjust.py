"""What Intel MPI makes of I_MPI_ADJUST_* variables: every row was timed on a real one."""

from __future__ import annotations

import pytest

from colltune.domain import Collective
from colltune.mpi.intelmpi.adjust import AdjustFile, AdjustFormat
from colltune.mpi.rules import Call, Fault
from tests.mpi.linting import lint

FORMAT = AdjustFormat()
RELEASE = "2021.18.1"
VALUE = "I_MPI_ADJUST_BCAST='{}'\n"


def parse(text: str) -> AdjustFile:
    """Return what the release makes of a list."""
    return FORMAT.parse(text, "list.sh", RELEASE)


def ran(value: str, comm_size: int = 4) -> str:
    """Return the presets that run for messages of 100, 300, 1000 and 4000 bytes."""
    parsed = parse(VALUE.format(value))
    calls = (Call(Collective.BCAST, comm_size, msize) for msize in (100, 300, 1000, 4000))
    found = (parsed.decide(call).configuration.algorithm for call in calls)
    return " ".join(algorithm.removeprefix("preset") for algorithm in found)


def test_what_runs_by_message_size(subtests: pytest.Subtests) -> None:
    """Upper ends in order; lower ends are not looked at; the last entry goes on."""
    for value, expected in (
        ("3", "3 3 3 3"),
        ("3:0-300", "3 3 3 3"),
        ("3:0-300;15", "3 3 15 15"),
        ("3:300;15", "3 3 15 15"),
        (" 3 : 0-300 ; 15 ", "3 3 15 15"),
        ("3:0-300;15:301-1000;", "3 3 15 15"),
        ("15:0-300;3;15", "15 15 3 3"),
        ("15:0-1000;3:0-300;15:0-2000;3:0-8000", "15 15 15 3"),
        ("3:0-300;15:301-600;3:601-1000;15", "3 3 3 15"),
        ("15:0-100,200-300;3", "15 15 3 3"),
        ("15:200-1000,0-100;3", "15 15 15 3"),
        ("3:0-300;15:0-300", "15 15 15 15"),
        ("3:0-300;15:0-300;3", "15 15 3 3"),
        ("3:300-100;15", "3 3 3 3"),
        ("3:300-100,100-200;15", "3 3 3 3"),
        ("3:0-1k;15", "15 15 15 15"),
        ("3:0-300abc;15", "3 3 15 15"),
        ("3:;15", "3 3 3 3"),
        ("3;0-1024", "3 3 3 3"),
        ("15,3", "15 15 15 15"),
        ("3;abc", "3 3 3 3"),
        ("3;;15", "3 3 3 3"),
        ("3;15:0-max", "3 3 3 3"),
        ("15:0-300,3:5", "15 15 15 15"),
        ("15:0-300 3", "15 15 15 15"),
        ("15:0-300:3", "15 15 15 15"),
        ("+3", "3 3 3 3"),
        ("03", "3 3 3 3"),
        ("3.0", "3 3 3 3"),
        ("0x3", "default default default default"),
        ("3:0-300;0", "3 3 default default"),
        ("3:0-300;99:301-5000", "3 3 1 1"),
        ("4294967299", "3 3 3 3"),
        ("3:0-4294967396;15", "3 15 15 15"),
        ("3:0-2147483647;15", "3 3 3 3"),
    ):
        with subtests.test(value=value, expected=expected):
            assert ran(value) == expected


def test_what_is_rejected_as_a_whole(subtests: pytest.Subtests) -> None:
    """After a message, and what the library would run without the variable runs."""
    for value in (
        *("abc", "-1", "3:0-300;abc", "3:0-300;;15", '"3:0-300;15"', "99999999999999999999"),
        *("3:0-99999999999999999999;15", "3:-5;15", "3:0-max;15", "3:0-;15", "3:abc;15"),
        *("3:0-300;-1:301-100000", "3:2147483648;15", "3:0-2147483648;15"),
        *("3:0-max@3-4;15", "3:0-300,15:301-1000", "3:1k-2000;15", "3:0 -300;15", "3:200-100;abc"),
    ):
        with subtests.test(value=value):
            assert ran(value) == "default default default default"
            faults = [f.fault for f in lint(parse(VALUE.format(value)))]
            assert faults == [(Fault.RULE_DROPPED)]


def test_a_number_of_processes_makes_sizes_be_lost(subtests: pytest.Subtests) -> None:
    """The last entry of a range of processes holds for all sizes; the lint tells."""
    for value, expected in (
        ("3:0-300@4-4;15", ("3", "3", "15")),
        ("3:0-300@3-4;15:0-300@5-6", ("3", "3", "15")),
        ("3:@3-4;15", ("3", "3", "15")),
        ("3:300@4;15:0-10@5;3", ("3", "3", "15")),
        ("15;3:0-300@3-4", ("15", "15", "15")),
        ("3:0-300@3-4;15:301-5000@3-4;3:0-300@5-6;15:301-5000@5-6", ("15", "15", "15")),
        ("3:0-300@1-6;15:0-5000@1-6;3:0-4000@1-6", ("3", "3", "3")),
    ):
        with subtests.test(value=value, expected=expected):
            assert tuple(ran(value, n) for n in (3, 4, 5)) == tuple(
                " ".join([e] * 4) for e in expected
            )
            errors = [
                f.message for f in lint(parse(VALUE.format(value))) if f.fault is Fault.DEAD_RULE
            ]
            assert any("message sizes are not compared" in message for message in errors)


def test_lines(subtests: pytest.Subtests) -> None:
    """With and without export and quotes; a shell ends a value at a semicolon."""
    for line, read in (
        ("I_MPI_ADJUST_BCAST=3:0-300;15", "3 3 15 15"),
        ("export I_MPI_ADJUST_BCAST='3:0-300;15'", "3 3 15 15"),
        ('export I_MPI_ADJUST_BCAST="3:0-300;15"; # why', "3 3 15 15"),
        ("export I_MPI_ADJUST_BCAST=3:0-300;15", "3 3 3 3"),
        ("export I_MPI_ADJUST_BCAST=3", "3 3 3 3"),
        ("I_MPI_ADJUST_BCAST=1\nI_MPI_ADJUST_BCAST=3", "3 3 3 3"),
        ("I_MPI_ADJUST_BCAST='3:0-300;15'\r", "3 3 15 15"),
    ):
        with subtests.test(line=line, read=read):
            parsed = parse(f"# a comment\n\n{line}\n")
            calls = (Call(Collective.BCAST, 4, msize) for msize in (100, 300, 1000, 4000))
            found = (parsed.decide(call).configuration.algorithm for call in calls)
            assert " ".join(algorithm.removeprefix("preset") for algorithm in found) == read


def test_findings(subtests: pytest.Subtests) -> None:
    """Each row of what the library takes without a word, on the line of the variable."""
    for value, fault in (
        ("3:0-1k;15", Fault.MALFORMED),
        ("3:300-100;15", Fault.MALFORMED),
        ("15;3:0-10", Fault.DEAD_RULE),
        ("15:0-1000;3:0-300;1", Fault.DEAD_RULE),
        ("15:0-1000;3:0-1000;1", Fault.DEAD_RULE),
        ("15:100-200;3:300-400;1", Fault.INHERITED),
        ("15:0-100;3:50-400;1", Fault.UNSORTED),
        ("15:0-100", Fault.INHERITED),
        ("99", Fault.FALLS_BACK),
        ("0", Fault.REMARK),
        ("3.0", Fault.MALFORMED),
        ("", Fault.MALFORMED),
    ):
        with subtests.test(value=value, fault=fault):
            found = [(f.line, f.fault) for f in lint(parse("\n" + VALUE.format(value)))]
            assert (2, fault) in found


def test_nothing_is_read_after_an_entry_without_a_range(subtests: pytest.Subtests) -> None:
    """What stands there is never reached, and draws no message."""
    for never in ("99", "abc", "0", ""):
        with subtests.test(never=never):
            found = lint(parse(VALUE.format(f"3;{never};4")))
            assert {f.fault for f in found} == {Fault.DEAD_RULE}


def test_other_lines_and_variables() -> None:
    """What sets nothing, no collective, or one that is not known here."""
    parsed = parse(
        "rubbish\nexport I_MPI_ADJUST_FOO=1\nexport I_MPI_ADJUST_ALLTOALLW=1\n"
        "export I_MPI_FABRICS=shm\nexport I_MPI_ADJUST_BCAST=1;2\n"
    )
    assert [(f.line, f.fault) for f in lint(parsed)] == [
        (1, Fault.REMARK),
        (2, Fault.UNKNOWN),
        (3, Fault.REMARK),
        (4, Fault.REMARK),
        (5, Fault.MALFORMED),
    ]


def test_the_likely_spelling_of_a_variable_is_told(subtests: pytest.Subtests) -> None:
    """The library ignores what it does not know; parameters of a collective are others."""
    for wrong, meant in (
        ("I_MPI_ADJUST_BCASST", "I_MPI_ADJUST_BCAST"),
        ("I_MPI_ADJST_BCAST", "I_MPI_ADJUST_BCAST"),
        ("I_MPI_ADJUST_REDUCE_SCATER", "I_MPI_ADJUST_REDUCE_SCATTER"),
        ("I_MPI_ADJUST_Allreduce", "I_MPI_ADJUST_ALLREDUCE"),
    ):
        with subtests.test(wrong=wrong, meant=meant):
            found = lint(parse(f"I_MPI_ADJUST_SCAN=1\n{wrong}=1\nI_MPI_ADJUST_BCAST_SEGMENT=1\n"))
            assert [(f.line, f.fault) for f in found] == [(2, Fault.UNKNOWN), (3, Fault.REMARK)]
            assert found[0].mend == f"write {meant}"


def test_collectives_that_the_library_has_no_variable_for(subtests: pytest.Subtests) -> None:
    """It prints a message and ignores them."""
    for name in ("NEIGHBOR_ALLGATHER", "INEIGHBOR_ALLGATHER", "IFOO", "FOO_BAR"):
        with subtests.test(name=name):
            (finding,) = lint(parse(f"I_MPI_ADJUST_SCAN=1\nI_MPI_ADJUST_{name}=1\n"))
            assert finding.fault is Fault.UNKNOWN


def test_a_variable_of_the_job_goes_before_the_list() -> None:
    """The file's rule is told as what was chosen."""
    outcome = parse(VALUE.format("3")).decide(
        Call(Collective.BCAST, 4, 64), {"I_MPI_ADJUST_BCAST": "15"}
    )
    assert (outcome.chosen.algorithm, outcome.configuration.algorithm) == ("preset3", "preset15")
    assert outcome.rule is None
