"""Files for coll/han: what is written, what each release makes of a file, what is found."""

from __future__ import annotations

import pytest

from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.openmpi.decide.han_calls import HanLevel
from colltune.mpi.openmpi.han.format import OpenMpiHan
from colltune.mpi.openmpi.han.rules import HanFile, choices
from colltune.mpi.openmpi.releases import catalogue_of
from colltune.mpi.rules import Call, Fault
from tests.mpi.linting import lint
from tests.mpi.tables import HYDRA, intervals, normal, table, table_of
from tests.refusals import refused

FORMAT = OpenMpiHan()
C = Collective
EXAMPLE = """1
bcast
1
global_communicator
1
1
3
0 han @simple
4096 tuned
1048576 han @intra
"""


def parse(text: str, release: str = "5.0.11") -> HanFile:
    """Return what a release makes of a file."""
    parsed = FORMAT.parse(text, "han.rules", release)
    assert isinstance(parsed, HanFile)
    return parsed


def chosen(parsed: HanFile, collective: Collective, comm_size: int, msize: int) -> str:
    """Return what a file chooses on two nodes."""
    return parsed.decide(Call(collective, comm_size, msize, 2)).chosen.algorithm


def found(text: str, release: str = "5.0.11") -> list[tuple[int, Fault]]:
    """Return lines and faults of what is found."""
    return [(f.line, f.fault) for f in lint(parse(text, release))]


def rules(*lines: str, collective: str = "bcast", level: str = "2", sizes: str = "1") -> str:
    """Return a file with one level of one collective, whose rules begin on line 6."""
    return "\n".join(("1", collective, "1", level, f"{sizes} 1 {len(lines)}", *lines))


def test_a_table_of_components_is_written() -> None:
    """Exactly the communicators of the table are named; all others stay with coll/han."""
    given_table = table(
        Shape(4, 8),
        {
            (C.BCAST, 32): intervals((0, "bcast.han_simple"), (4096, "bcast.tuned")),
            (C.BCAST, 31): intervals((0, "bcast.adapt")),
            (C.BARRIER, 32): intervals((0, "barrier.basic")),
        },
    )
    written = FORMAT.write(given_table, "5.0.11")
    assert written.notes == ()
    assert written.text.split("\n")[2:] == [
        *("2", "barrier", "1", "global_communicator", "3"),
        *("1 1", "0 han", "32 1", "0 basic", "33 1", "0 han"),
        *("bcast", "1", "global_communicator", "4"),
        *("1 1", "0 han", "31 1", "0 adapt", "32 2", "0 han @simple", "4096 tuned"),
        *("33 1", "0 han", ""),
    ]
    assert table_of(parse(written.text), "openmpi", Shape(4, 8)) == normal(given_table)


def test_in_4_1_the_own_choice_is_tuned() -> None:
    """There coll/han must be raised, so that all that nobody chose is sent back to coll/tuned."""
    given_table = table(Shape(2, 2), {(C.REDUCE, 4): intervals((0, "reduce.han"))})
    written = FORMAT.write(given_table, "4.1.8")
    assert "reduce\n1\n2\n3\n1 1\n0 tuned\n4 1\n0 han\n5 1\n0 tuned\n" in written.text
    assert "scatter\n1\n2\n1\n1 1\n0 tuned\n" in written.text
    parsed = parse(written.text, "4.1.8")
    assert table_of(parsed, "openmpi", Shape(2, 2)) == normal(given_table)
    assert parsed.decide(Call(C.REDUCE, 4, 64, 2)).component == "han"
    assert parsed.decide(Call(C.SCATTER, 4, 64, 2)).component == "tuned"
    assert FORMAT.activation("4.1.8", {"": "/a/han"})["OMPI_MCA_coll_han_priority"] == "35"
    assert "OMPI_MCA_coll_han_priority" not in FORMAT.activation("5.0.11", {"": "/a/han"})


def test_what_is_no_component_is_left_out_with_a_note() -> None:
    """Algorithms of coll/tuned, and collectives that coll/han does not serve."""
    written = FORMAT.write(HYDRA, "5.0.11")
    assert any("openmpi.gather.binomial is not a component" in note for note in written.notes)
    assert any("does not serve alltoall" in note for note in written.notes)
    two = table(
        Shape(2, 2), {(C.BARRIER, 4): intervals((0, "barrier.basic"), (8, "barrier.tuned"))}
    )
    assert "always looks it up with 0 bytes" in FORMAT.write(two, "5.0.11").notes[0]
    assert not parse(FORMAT.write(two, "5.0.11").text).dropped


def test_what_can_be_chosen_differs_by_release() -> None:
    """4.1 names no algorithms of coll/han; 6 serves alltoall."""

    def names(release: str, collective: Collective) -> list[str]:
        return [c.algorithm for c in choices(catalogue_of(release), collective)]

    assert names("4.1.8", C.BCAST) == ["default", "basic", "adapt", "han"]
    assert names("5.0.11", C.REDUCE) == [
        *("default", "basic", "tuned", "adapt"),
        *("han_intra", "han_simple", "han_reproducible"),
    ]
    assert names("5.0.11", C.ALLTOALL) == ["default"]
    assert names("6.0.0", C.ALLTOALL) == ["default", "basic", "tuned", "han_smsc"]


def test_the_example_of_the_fact_sheet() -> None:
    """Verified on 5.0.11: 16 bytes han simple, 4 KiB and more coll/tuned, 1 MiB and more han."""
    parsed = parse(EXAMPLE)
    assert lint(parsed) == ()
    assert [chosen(parsed, C.BCAST, 6, m) for m in (16, 4096, 70000, 1 << 20)] == [
        *("han_simple", "tuned", "tuned", "han_intra")
    ]
    outcome = parsed.decide(Call(C.BCAST, 6, 16, 2))
    assert (outcome.component, outcome.configuration.algorithm) == ("han", "han_simple")
    assert len(outcome.inner) == 2
    one_node = parsed.decide(Call(C.BCAST, 6, 16, 1))
    assert (one_node.component, one_node.configuration.is_default) == ("tuned", True)
    assert one_node.chosen.algorithm == "han_simple"


def test_the_last_that_is_not_too_large_counts() -> None:
    """Sizes are looked through from the end of the file, so that unsorted ones are dead."""
    text = rules("0 han", "64 tuned", "8 basic", sizes="3\n1 1\n0 tuned\n8 1\n0 basic\n")
    # the last entry is for one process and more: everything
    parsed = parse(text)
    assert [chosen(parsed, C.BCAST, 16, m) for m in (0, 8, 64)] == ["default", "basic", "basic"]
    assert [fault for _, fault in found(text)].count(Fault.UNSORTED) == 2
    assert (6, Fault.DEAD_RULE) in found(text)


def test_of_equal_collectives_and_levels_the_last_counts() -> None:
    """Whatever stood before is never looked at, whichever levels it has."""
    once = "bcast\n1\n2\n1\n1 1\n0 {}\n"
    text = "2\n" + once.format("basic") + once.format("tuned")
    assert chosen(parse(text), C.BCAST, 4, 8) == "tuned"
    assert found(text) == [(4, Fault.DEAD_RULE)]
    twice = "1\nbcast\n2\n2\n1\n1 1\n0 basic\n2\n1\n1 1\n0 adapt\n"
    assert chosen(parse(twice), C.BCAST, 4, 8) == "adapt"
    inner = parse("2\n" + once.format("basic") + once.format("tuned").replace("\n2\n", "\n1\n"))
    assert chosen(inner, C.BCAST, 4, 8) == "default"
    assert inner.match_at(C.BCAST, HanLevel.INTER_NODE, 4, 8) is not None


def test_what_the_library_forgets_as_a_whole(subtests: pytest.Subtests) -> None:
    """It is found with its line, and nothing of the file is in effect."""
    for release, text, line, why in (
        ("5.0.11", "", 1, "ends where the number of collectives"),
        ("5.0.11", "0", 1, "the file has no collective"),
        ("5.0.11", "1\nBcast", 2, "'Bcast' is not a collective"),
        ("5.0.11", "1\n22\n", 2, "'22' is not a collective"),
        ("5.0.11", rules("0 tuned", level="everywhere"), 4, "'everywhere' is not a level"),
        ("5.0.11", rules("0 tuned", level="3"), 4, "'3' is not a level"),
        ("5.0.11", rules("0 tuned", sizes="1 2"), 5, "first communicator size is 2"),
        ("5.0.11", rules("0 tuned").replace("1 1 1", "1 0 1"), 5, "first communicator size is 0"),
        ("5.0.11", rules("8 tuned"), 6, "first message size is 8"),
        ("5.0.11", rules("-1 tuned"), 6, "first message size is 18446744073709551615"),
        ("5.0.11", rules("0 6"), 6, "'6' is not a component"),
        ("5.0.11", rules("0 xhc"), 6, "'xhc' is not a component"),
        ("5.0.11", rules("0 han@simple"), 6, "'han@simple' is not a component"),
        ("5.0.11", rules("0 han @fast"), 6, "no algorithm 'fast' for bcast"),
        ("5.0.11", rules("0 han @3"), 6, "no algorithm '3' for bcast"),
        ("5.0.11", rules("0 han").replace("1 1 1", "1 1 9"), 6, "ends where a message size"),
    ):
        with subtests.test(release=release, text=text):
            parsed = parse(text, release)
            assert why in parsed.dropped
            dropped = [f for f in lint(parsed) if f.fault is Fault.FILE_DROPPED]
            assert [f.line for f in dropped] == [line]


def test_names_of_levels_shift_what_4_1_reads() -> None:
    """It skips letters up to the next number, which is taken for the level."""
    assert parse(EXAMPLE, "4.1.8").dropped
    text = "1\nbcast\n1\nglobal_communicator\n1 1 1 1\n0 tuned\n"
    faults = [fault for _, fault in found(text, "4.1.8")]
    assert Fault.OTHER_RELEASE in faults
    assert chosen(parse(text, "4.1.8"), C.BCAST, 4, 8) != "tuned"


def test_what_is_found(subtests: pytest.Subtests) -> None:
    """Each fault is found on its line."""
    for release, text, line, fault in (
        ("5.0.11", rules("0 libnbc"), 6, Fault.FALLS_BACK),
        ("6.0.0", rules("0 xhc"), 6, Fault.FALLS_BACK),
        ("5.0.11", rules("0 han", level="0"), 6, Fault.FALLS_BACK),
        ("5.0.11", rules("0 tuned", level="1"), 4, Fault.NO_EFFECT),
        ("5.0.11", rules("0 tuned", collective="scan"), 2, Fault.NO_EFFECT),
        ("5.0.11", rules("0 tuned", collective="gatherv"), 2, Fault.NO_EFFECT),
        ("5.0.11", rules("0 tuned", "9 basic", collective="barrier"), 7, Fault.DEAD_RULE),
        ("5.0.11", rules("0 tuned", "0 basic"), 6, Fault.DEAD_RULE),
        ("5.0.11", rules("0 han [4096]"), 6, Fault.NO_EFFECT),
        ("5.0.11", rules("0 tuned @x", "7 han"), 7, Fault.MALFORMED),
        ("5.0.11", rules("0 tuned") + "\n7", 7, Fault.MALFORMED),
        ("5.0.11", rules(), 5, Fault.REMARK),
        ("4.1.8", rules("0 tuned"), 0, Fault.NOT_EVERYWHERE),
        ("5.0.11", rules("0 han @simple", collective="allgatherv"), 6, Fault.ENDS_PROGRAM),
    ):
        with subtests.test(release=release, text=text):
            assert (line, fault) in found(text, release)


def test_what_programs_die_of() -> None:
    """The library looks up an algorithm in a list that is not there."""
    parsed = parse(rules("0 han @simple", collective="scan"))
    assert parsed.decide(Call(C.BCAST, 4, 64, 2)).ends_program
    assert not parsed.decide(Call(C.BCAST, 4, 64, 2), {}).ends_program
    with refused("nothing-to-convert", LibraryError):
        FORMAT.convert(parsed, "5.0.11")


def test_converting_between_releases() -> None:
    """Names become numbers; what 4.1 cannot say, and whose the own choice is, is noted."""
    converted = FORMAT.convert(parse(EXAMPLE), "4.1.8")
    assert converted.text.split("\n")[2:] == [
        *("1", "bcast", "1", "2", "1", "1 3", "0 han", "4096 tuned", "1048576 han", "")
    ]
    assert [note.partition(":")[0] for note in converted.notes] == ["line 0", "line 8", "line 10"]
    six = parse(rules("0 xhc", "8 tuned", "4 basic"), "6.0.0")
    converted = FORMAT.convert(six, "5.0.11")
    assert [note.partition(":")[0] for note in converted.notes] == ["line 6", "line 5"]
    assert converted.text.endswith("1\n1 2\n0 han\n4 basic\n")
    served_by_6 = FORMAT.convert(parse(rules("0 tuned", collective="alltoall"), "6.0.0"), "5.0.11")
    assert "coll/han does not serve it" in served_by_6.notes[0]
    assert not parse(served_by_6.text).dropped


def test_what_looks_like_it() -> None:
    """Components between numbers tell it from a file for coll/tuned; comments do not count."""
    assert FORMAT.recognises("# a comment\n" + EXAMPLE)
    assert not FORMAT.recognises("1 # collectives\n7\n1\n0 1\n0 6 0 0 # 0 tuned\n")
    assert not FORMAT.recognises('{"collectives": {}}')


CRASHING = intervals((0, "allreduce.tuned"), (64, "allreduce.default"))


def raised(path: str) -> dict[str, str]:
    """Return the environment in which 4.1 reads a file."""
    return FORMAT.activation("4.1.8", {"": path})


def test_in_4_1_no_file_sends_an_allreduce_away() -> None:
    """It would crash: neither written, nor converted, and found where it stands."""
    reduced = {(C.BCAST, 4): intervals((0, "bcast.han")), (C.ALLREDUCE, 4): CRASHING}
    written = FORMAT.write(table(Shape(2, 2), reduced), "4.1.8")
    assert "allreduce\n1\n2\n1\n1 1\n0 han\n" in written.text
    assert "bcast\n1\n2\n3\n1 1\n0 tuned\n" in written.text
    assert "# coll/han serves every allreduce across nodes" in written.text
    assert sum("allreduce" in note for note in written.notes) == 1
    away = "1\nallreduce\n1\n2\n1\n1 3\n0 tuned\n64 han\n128 basic\n"
    ends = [f for f in lint(parse(away, "4.1.8")) if f.fault is Fault.ENDS_PROGRAM]
    assert [f.line for f in ends] == [7, 9]
    assert not any(f.fault is Fault.ENDS_PROGRAM for f in lint(parse(away, "5.0.11")))
    converted = FORMAT.convert(parse(away, "5.0.11"), "4.1.8")
    assert "tuned" not in converted.text
    assert "basic" not in converted.text
    assert not any(f.fault is Fault.ENDS_PROGRAM for f in lint(parse(converted.text, "4.1.8")))
    call = Call(C.ALLREDUCE, 4, 8, nodes=2)
    assert parse(away, "4.1.8").decide(call, raised("/a")).ends_program
