"""What Intel MPI makes of I_MPI_TUNING files: every row was timed on 2021.6 to 2021.18.1."""

from __future__ import annotations

import pytest

from colltune.domain import Collective
from colltune.mpi.formats import FORMATS
from colltune.mpi.intelmpi.tuning import TuningFile, TuningFormat
from colltune.mpi.rules import Call, Fault
from tests.mpi.linting import lint

FORMAT = FORMATS["intelmpi-json"]
RELEASE = "2021.18.1"
THREE = '{"comm_id=-1": {"msg_size=-1": {"BCAST=3": {}}}}'
FIFTEEN = '{"comm_id=-1": {"msg_size=-1": {"BCAST=15": {}}}}'


def parse(text: str, release: str = RELEASE) -> TuningFile:
    """Return what a release makes of a file."""
    parsed = TuningFormat().parse(text, "tuning.json", release)
    assert isinstance(parsed, TuningFile)
    return parsed


def sizes(*keys: tuple[str, str]) -> str:
    """Return a file with message sizes and leaves of bcast, for all communicators."""
    inside = ", ".join(f'"msg_size={key}": {below}' for key, below in keys)
    return f'{{"coll=Bcast": {{"ppn=-1": {{"comm_size=-1": {{"comm_id=-1": {{{inside}}}}}}}}}}}'


def leaf(preset: object) -> str:
    """Return an object that names a preset of bcast."""
    return f'{{"BCAST={preset}": {{}}}}'


def ran(text: str, msize: int, comm_size: int = 4, nodes: int = 1) -> str:
    """Return the algorithm that runs for a bcast."""
    call = Call(Collective.BCAST, comm_size, msize, nodes)
    return parse(text).decide(call).configuration.algorithm.removeprefix("preset")


def test_message_sizes(subtests: pytest.Subtests) -> None:
    """First end that is not below, in order; else the last; numbers are cut to 32 bits."""
    for keys, expected in (
        ((("300", "3"), ("-1", "15")), ("3", "3", "15", "15")),
        ((("300", "15"), ("1000", "3")), ("15", "15", "3", "3")),
        ((("-1", "15"), ("300", "3")), ("15", "15", "15", "15")),
        ((("1000", "15"), ("300", "3"), ("-1", "3")), ("15", "15", "15", "3")),
        ((("300", "15"), ("300", "3"), ("-1", "3")), ("3", "3", "3", "3")),
        ((("1000", "15"), ("300", "3"), ("1000", "15"), ("-1", "15")), ("15",) * 4),
        ((("300", "15"), ("1000", "15"), ("300", "3"), ("-1", "15")), ("3", "3", "15", "15")),
        ((("300.7", "3"), ("-1", "15")), ("3", "3", "15", "15")),
        (((" 300", "3"), ("-1", "15")), ("3", "3", "15", "15")),
        ((("+300k", "3"), ("-1", "15")), ("3", "3", "15", "15")),
        ((("abc", "3"), ("-1", "15")), ("15",) * 4),
        ((("-2", "3"), ("-1", "15")), ("3",) * 4),
        ((("9223372036854775808", "3"), ("-1", "15")), ("3",) * 4),
        ((("2147483648", "3"), ("-1", "15")), ("3",) * 4),
        ((("4294967396", "3"), ("-1", "15")), ("3", "15", "15", "15")),
        ((("300", "3"), ("-1", "4294967311")), ("3", "3", "15", "15")),
        ((("300", "3"), ("-1", "15x")), ("3", "3", "15", "15")),
        ((("300", "3"), ("-1", "015")), ("3", "3", "15", "15")),
        ((("300", "3"), ("-1", "+15")), ("3", "3", "default", "default")),
        ((("300", "3"), ("-1", "0xf")), ("3", "3", "default", "default")),
        ((("300", "3"), ("-1", "-2")), ("3", "3", "default", "default")),
        ((("300", "3"), ("-1", "2147483648")), ("3", "3", "default", "default")),
        ((("300", "99"), ("-1", "3")), ("1", "1", "3", "3")),
    ):
        with subtests.test(keys=keys, expected=expected):
            text = sizes(*((key, leaf(preset)) for key, preset in keys))
            assert tuple(ran(text, msize) for msize in (100, 300, 1000, 4000)) == expected


def test_communicator_sizes(subtests: pytest.Subtests) -> None:
    """They are ends, too; an empty object behind others is the built-in logic."""
    for ends, expected in (
        ((("4", THREE), ("-1", FIFTEEN)), "3 3 15 15"),
        ((("4", THREE), ("6", FIFTEEN)), "3 3 15 15"),
        ((("5", FIFTEEN), ("4", THREE), ("-1", THREE)), "15 15 15 3"),
        ((("-1", FIFTEEN), ("4", THREE)), "15 15 15 15"),
        ((("4.9", THREE), ("-1", FIFTEEN)), "3 3 15 15"),
        ((("4", THREE), ("5", "{}"), ("-1", THREE)), "3 3 default 3"),
    ):
        with subtests.test(ends=ends, expected=expected):
            inside = ", ".join(f'"comm_size={end}": {below}' for end, below in ends)
            text = f'{{"coll=Bcast": {{"ppn=-1": {{{inside}}}}}}}'
            assert [ran(text, 64, n) for n in (3, 4, 5, 6)] == expected.split()


def test_processes_per_node_are_those_of_the_communicator() -> None:
    """Three of six processes on one node have a ppn of 3; three on three nodes one of 1."""
    text = (
        f'{{"coll=Bcast": {{"ppn=2": {{"comm_size=-1": {THREE}}},'
        f' "ppn=-1": {{"comm_size=-1": {FIFTEEN}}}}}}}'
    )
    assert (ran(text, 64, 2), ran(text, 64, 3), ran(text, 64, 3, nodes=3)) == ("3", "15", "3")


def test_levels(subtests: pytest.Subtests) -> None:
    """Sizes count only below a comm_id, processes only above it; other names are no levels."""
    for inside, expected in (
        ('"msg_size=300": LEAF15, "msg_size=-1": LEAF3', "3 3 3 3"),
        ('"msg_size=-1": LEAF15, "msg_size=300": LEAF3', "15 15 15 15"),
        ('"msg_size=1000": LEAF3, "msg_size=300": LEAF15', "15 15 15 15"),
        ('"comm_id=-1": {"msg_size=300": LEAF15, "msg_size=-1": LEAF3}', "15 3 15 3"),
        ('"comm_id=5": {"msg_size=300": LEAF15, "msg_size=-1": LEAF3}', "15 3 15 3"),
        ('"comm_id=0": {"msg_size=-1": LEAF3}, "comm_id=-1": {"msg_size=-1": LEAF15}', "15 " * 4),
        ('"comm_size=4": LEAF15, "comm_size=-1": LEAF3', "15 15 3 3"),
        ('"msg_size=-1": {"comm_size=4": LEAF15, "comm_size=-1": LEAF3}', "15 15 3 3"),
        (
            '"comm_id=-1": {"msg_size=300": {"comm_size=4": LEAF15, "comm_size=-1": LEAF3},'
            ' "msg_size=-1": {"comm_size=-1": LEAF3}}',
            "3 3 3 3",
        ),
        ('"BCAST=3": {}', "3 3 3 3"),
        ('"BCAST=3": null', "3 3 3 3"),
        ('"bcast=3": {}', "3 3 3 3"),
        ('"FOO=3": {}', "default " * 4),
        ('"PPN=-1": {"comm_size=-1": LEAF3}', "default " * 4),
    ):
        with subtests.test(inside=inside, expected=expected):
            below = inside.replace("LEAF15", leaf(15)).replace("LEAF3", leaf(3))
            text = f'{{"coll=Bcast": {{{below}}}}}'
            found = [ran(text, msize, n) for n in (4, 5) for msize in (100, 1000)]
            assert found == expected.split()


def test_what_the_library_reads_though_it_is_no_json(subtests: pytest.Subtests) -> None:
    """Comments, single quotes, commas at ends, what follows, and other collectives."""
    for text in (
        '{"coll=Bcast": {"ppn=-1": {"comm_size=-1": THREE,},},}',
        '/* x */ {"coll=Bcast": {"ppn=-1": {"comm_size=-1": THREE}}} // y\n',
        '{"coll=Bcast": {"ppn=-1": {"comm_size=-1": THREE}}} garbage',
        '{"coll=Bcast": {"ppn=-1": {"comm_size=-1": THREE}}}{}',
        '{\r\n"coll=Bcast":\r\n{"ppn=-1": {"comm_size=-1": THREE}}}\r\n',
        "{'coll=Bcast': {'ppn=-1': {'comm_size=-1': THREE}}}",
        '{"coll=bcast": {"ppn=-1": {"comm_size=-1": THREE}}}',
        '{"coll=Foo": {"ppn=-1": {}}, "coll=Bcast": {"ppn=-1": {"comm_size=-1": THREE}}}',
    ):
        with subtests.test(text=text):
            assert ran(text.replace("THREE", THREE), 64) == "3"


def test_what_the_library_drops(subtests: pytest.Subtests) -> None:
    """Without a word: nothing, what is cut off, a byte order mark, too many levels."""
    for text in (
        *("", " \n", "\x01\x02", "null", "[]", "{", "\ufeff{}"),
        f'{{"coll=Bcast": {{"ppn=-1": {THREE}',
        '{"coll=Bcast": ' + '{"a": ' * 40 + "1" + "}" * 41,
    ):
        with subtests.test(text=text):
            parsed = parse(text)
            assert parsed.dropped
            assert [f.fault for f in lint(parsed)] == [Fault.FILE_DROPPED]


def test_what_was_seen_to_end_programs(subtests: pytest.Subtests) -> None:
    """Crashes and aborts in MPI_Init; the outcome and an error with a line tell so."""
    for text in (
        "3",
        '"x"',
        f"[{sizes(('-1', leaf(3)))}]",
        '{"coll=Bcast": {}}',
        '{"coll=Bcast": null}',
        '{"coll=Bcast": 3}',
        '{"coll=Allreduce": {}, "coll=Bcast": {"BCAST=3": {}}}',
        '{"coll=Bcast": {"BCAST=3": {}}, "comment": "x"}',
        sizes(("300", "{}"), ("-1", leaf(3))),
        sizes(("300", "null"), ("-1", leaf(3))),
        sizes(("300", leaf(3)), ("-1", "3")),
        sizes(("-1", '{"ALLREDUCE=1": {}}')),
        f'{{"coll=Bcast": {{"comm_size=4": {THREE}, "msg_size=-1": {leaf(3)}}}}}',
        f'{{"coll=Bcast": {{"comm_size=4": {THREE}, "comm_size=-1": {leaf(3)}}}}}',
    ):
        with subtests.test(text=text):
            parsed = parse(text)
            assert Fault.ENDS_PROGRAM in {f.fault for f in lint(parsed) if f.line}
            assert parsed.decide(Call(Collective.BCAST, 4, 64)).ends_program


def test_an_empty_object_after_others_harms_nobody() -> None:
    """Only one that stands first was seen to crash."""
    parsed = parse('{"coll=Bcast": {"BCAST=3": {}}, "coll=Allreduce": {}}')
    assert not parsed.decide(Call(Collective.BCAST, 4, 64)).ends_program
    assert parsed.decide(Call(Collective.ALLREDUCE, 4, 64)).configuration.is_default


def test_variables_decide_before_the_file() -> None:
    """A valid one does, 0 included; one that is rejected does not; an empty one crashes."""
    parsed, call = parse(sizes(("-1", leaf(3)))), Call(Collective.BCAST, 4, 64)
    there = {"I_MPI_TUNING": "/f"}

    def algorithm(value: str) -> str:
        outcome = parsed.decide(call, there | {"I_MPI_ADJUST_BCAST": value})
        assert outcome.chosen.algorithm == "preset3" or outcome.ends_program
        return "crash" if outcome.ends_program else outcome.configuration.algorithm

    assert algorithm("15:0-64;1") == "preset15"
    assert algorithm("0") == "default"
    assert algorithm("abc") == "preset3"
    assert algorithm("") == "crash"


def test_without_the_variable_the_file_is_not_read() -> None:
    """The reasons say so, and the library's own decision stands."""
    outcome = parse(sizes(("-1", leaf(3)))).decide(Call(Collective.BCAST, 4, 64), {})
    assert outcome.configuration.is_default
    assert "I_MPI_TUNING is not set" in outcome.reasons[0]


def test_a_preset_for_a_power_of_two_falls_back() -> None:
    """Preset 2 of bcast runs preset 1 on three processes; what was chosen is told apart."""
    outcome = parse(sizes(("-1", leaf(2)))).decide(Call(Collective.BCAST, 3, 64))
    assert (outcome.chosen.algorithm, outcome.configuration.algorithm) == ("preset2", "preset1")


def test_findings(subtests: pytest.Subtests) -> None:
    """Each names its line."""
    for text, line, fault in (
        (sizes(("-1", leaf(3)), ("\n300", leaf(1))).replace("=\n", "="), 1, Fault.DEAD_RULE),
        ('{\n"coll=Foo": {"FOO=1": {}}}', 2, Fault.UNKNOWN),
        ('{\n"coll=Ibcast": {"IBCAST=1": {}}}', 2, Fault.REMARK),
        ('{"coll=Bcast":\n{"BCAST=99": {}}}', 2, Fault.FALLS_BACK),
        ('{"coll=Allgather":\n{"ALLGATHER=5": {}}}', 2, Fault.WRONG_RESULT),
        ('{"coll=Bcast":\n{"BCAST=0": {}}}', 2, Fault.REMARK),
        ('{"coll=Bcast":\n{"BCAST=3": {},\n"BCAST=4": {}}}', 3, Fault.DEAD_RULE),
        (sizes(("300", leaf(3))), 1, Fault.INHERITED),
        (sizes(("300k", leaf(3)), ("-1", leaf(1))), 1, Fault.MALFORMED),
        (
            '{"coll=Bcast": {\n"msg_size=9": {"BCAST=1": {}},\n"msg_size=-1": {"BCAST=3": {}}}}',
            2,
            Fault.DEAD_RULE,
        ),
    ):
        with subtests.test(text=text, line=line):
            found = [(f.line, f.fault) for f in lint(parse(text))]
            assert (line, fault) in found


def test_a_large_file_is_read_in_a_straight_line() -> None:
    """Thousands of sizes: every switch point is found and decided."""
    ends = range(5_000)
    text = sizes(*((str(end), leaf(1 + end % 2)) for end in ends), ("-1", leaf(3)))
    parsed = parse(text)
    switches = parsed.switch_points(Collective.BCAST, 4)
    assert len(switches) == 5_001
    found = {parsed.decide(Call(Collective.BCAST, 4, m)).chosen.algorithm for m in switches[-50:]}
    assert found == {"preset1", "preset2", "preset3"}
