"""What is found in classic rules files that are broken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune.domain import Shape
from colltune.mpi.file_format import Fault, ParsedFile
from colltune.mpi.formats import FORMATS
from tests.mpi.linting import lint
from tests.mpi.tables import table_of

GOOD = """# comment with 1 2 3
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


def parsed(text: str, release: str = "5.0.11") -> ParsedFile:
    """Return what a release makes of a rules file."""
    return FORMATS["openmpi-classic"].parse(text, "rules", release)


_FURTHER = (Fault.NOT_EVERYWHERE, Fault.REMARK, Fault.INHERITED, Fault.FALLS_BACK)


def faults(text: str, release: str = "5.0.11") -> list[str]:
    """Return what is found beyond notes and what only reaches further than one may think."""
    found = lint(parsed(text, release))
    return [f"{f.line}: {f.message}" for f in found if f.fault not in _FURTHER]


def test_line_ends_mean_nothing(subtests: pytest.Subtests) -> None:
    """A file on one line, one number per line, or with DOS line ends says the same."""
    for join in (" ", "\n", "\r\n", "\t"):
        with subtests.test(join=join):
            numbers = [
                word for line in GOOD.splitlines() for word in line.partition("#")[0].split()
            ]
            job = Shape(4, 8)
            assert table_of(parsed(join.join(numbers)), "openmpi", job) == table_of(
                parsed(GOOD), "openmpi", job
            )


def test_what_the_library_drops_or_misreads_is_found(subtests: pytest.Subtests) -> None:
    """Each such fault is named with its line."""
    for old, new, message in (
        ("# comment", "\ufeff# comment", "rules:1: starts with a byte order mark"),
        (GOOD, "", "rules:1: the file ends where the number of collectives should follow"),
        (GOOD, "# nothing\n", "rules:1: the file ends"),
        (GOOD, '{"collectives": {}}', "rules:1: a JSON file"),
        ("2 # coll", "23 # coll", "rules:2: 23 collectives, but there are only 22"),
        ("2 # coll", "3 # coll", "rules:11: the file ends where a collective's id"),
        ("2 # coll", "1 # coll", "rules:11: the number 2 is left over"),
        ("7 # bcast", "22 # bcast", "rules:3: there is no collective with the id 22"),
        ("7 # bcast", "5 # bcast", "rules:3: rules for the collective with the id 5 are ignored"),
        ("2 1 0 2", "7 1 0 2", "rules:11: bcast stands twice"),
        ("16 3", "16 4", "rules:11: message size 2 follows 262144"),
        ("16 3", "0 3", "rules:7: communicator size 0 follows 0, whose entry is never used"),
        ("0 6 0 0", "8 6 0 0", "rules:8: the first message size is 8"),
        ("8192", "262145", "rules:10: message size 262144 follows 262145"),
        ("8192", "8192.5", r"rules:9: '8192\.5' would be read as several numbers"),
        ("8192", "8,192", "rules:9: '8,192' would be read as several"),
        ("8192", "-1", "rules:9: a rule's message size is negative"),
        ("8192", "0x20", "rules:9: '0x20' would be read as octal or hexadecimal"),
        ("8192", "010", "rules:9: '010' would be read as octal"),
        ("8192", "089", "rules:9: '089' has a leading zero"),
        ("8192", "inf", "rules:9: 'inf' is not a number"),
        ("8192", str(2**63), "rules:9: a rule's message size is too large"),
        ("8192 3", "8192 10", "rules:9: Open MPI 5.0.11 has no bcast algorithm 10"),
        ("8192 3 0 4096", "8192 3 0 4096 0", "rules:9: a rule starts in the middle"),
        ("8192 3 0 4096", "8192 3 0", "rules:10: a rule starts in the middle"),
        ("0 6 0 0", "0 6 0 0 7", "rules:8: a rule starts in the middle"),
        ("\n2 1 0 2 ", "\n9 1 0 2 ", "rules:11: 2 rules for gather"),
        ("65536 4 0 0", "65536 4 0", "rules:11: the file ends where a rule's segment size"),
    ):
        with subtests.test(old=old, new=new):
            assert old in GOOD
            pattern = re.compile(message.removeprefix("rules:"))
            found = faults(GOOD.replace(old, new, 1))
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
            ends = [f for f in faults(text) if "barrier two_proc ends programs" in f]
            assert bool(ends) != fine


def test_a_version_header_is_refused_where_it_makes_the_library_drop_the_file() -> None:
    """4.1.8 and 5.0.7 brought it; to earlier releases it is a negative number."""
    text = "rule-file-version-2\n1 3 1\n0 1\n0 4 0 0 8\n"
    for release in ("4.1.8", "5.0.7", "5.0.11"):
        assert not faults(text, release)
        assert not parsed(text, release).dropped
    for release in ("4.1.4", "4.1.7", "5.0.6"):
        assert any(fault.startswith("1: a version header") for fault in faults(text, release))
        assert parsed(text, release).dropped


def test_algorithms_are_checked_against_the_release() -> None:
    """A number that only a newer release knows is refused for the older one."""
    text = "1 0 1 0 1 0 7 0 0"
    unknown = "Open MPI 4.1.8 has no allgather algorithm 7"
    assert any(unknown in fault for fault in faults(text, "4.1.8"))
    assert not any("has no allgather" in fault for fault in faults(text))


@given(st.text(alphabet="0123456789 \n#-.x", max_size=60))
def test_any_text_is_read_or_dropped(text: str) -> None:
    """No text makes the reader fail; what is dropped is told as a finding, too."""
    file = parsed(text)
    told = any(finding.fault is Fault.FILE_DROPPED for finding in lint(file))
    assert bool(file.dropped) == told
