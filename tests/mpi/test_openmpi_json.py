"""Open MPI 6's JSON rules: what is written, what the library makes of a file, what is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colltune.decisions import DecisionTable
from colltune.domain import Collective, Shape
from colltune.errors import LibraryError
from colltune.mpi.openmpi.classic.format import OpenMpiClassic
from colltune.mpi.openmpi.han.format import OpenMpiHan
from colltune.mpi.openmpi.json_rules.format import OpenMpiJson
from colltune.mpi.openmpi.json_rules.reading import JsonFile
from colltune.mpi.programs import ANY_LEGAL, MOST_PROMISED
from colltune.mpi.rules import Call, Fault, Severity
from tests.mpi.linting import lint
from tests.mpi.tables import HYDRA, intervals, table
from tests.refusals import refused

FORMAT = OpenMpiJson()
GOLDEN = Path(__file__).parents[1] / "golden" / "openmpi"
C = Collective


def parse(text: str, release: str = "6.0.0") -> JsonFile:
    """Return what a release makes of a file."""
    parsed = FORMAT.parse(text, "rules.json", release)
    assert isinstance(parsed, JsonFile)
    return parsed


def rules(collective: str, *entries: object) -> str:
    """Return a file with the entries of one collective, one a line from line 2 on."""
    inside = ",\n".join(json.dumps(entry) for entry in entries)
    return f'{{"collectives": {{"{collective}": [\n{inside}\n]}}}}'


def chosen(text: str, collective: Collective, comm_size: int, msize: int, nodes: int = 1) -> str:
    """Return what a file's rules choose, as configuration without its first two words."""
    call = Call(collective, comm_size, msize, nodes, is_world=False)
    return parse(text).decide(call).chosen.id.split(".", 2)[2]


def found(text: str) -> list[tuple[int, Fault]]:
    """Return place and fault of what is found, but for the hint at coll/han."""
    return [
        (finding.line, finding.fault)
        for finding in lint(parse(text))
        if finding.fault is not Fault.NOT_EVERYWHERE
    ]


def test_a_table_is_written_as_the_golden_files_say(subtests: pytest.Subtests) -> None:
    """Rules, notes and coll/han's file of the large table are exactly the recorded ones."""
    for programs in (ANY_LEGAL, MOST_PROMISED):
        with subtests.test(programs=str(programs)):
            written = FORMAT.write(HYDRA, "6.0.0", programs=programs)
            name = "hydra-6.0.0-builtin" if programs == MOST_PROMISED else "hydra-6.0.0"
            assert written.text == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
            notes = "".join(f"{note}\n" for note in written.notes)
            assert notes == (GOLDEN / f"{name}.notes").read_text(encoding="utf-8")
            assert written.texts[".dispatch"] == (GOLDEN / f"{name}.dispatch").read_text(
                encoding="utf-8"
            )


def test_what_cannot_be_told_apart_is_noted() -> None:
    """The format knows two layouts by name; 2x4 and 4x2 are one to it."""
    steps = {shape: intervals((0, name)) for shape, name in _SHAPES.items()}
    given_table = DecisionTable(
        "openmpi",
        Shape(4, 8),
        {(C.BCAST, 8): intervals((0, "bcast.chain:fanout=4,segsize=0"))},
        {(C.BCAST, shape): step for shape, step in steps.items()},
    )
    written = FORMAT.write(given_table, "6.0.0")
    assert any("cannot tell 2x4, 4x2 apart" in note for note in written.notes)
    assert chosen(written.text, C.BCAST, 8, 0, 2) == "chain:fanout=4,segsize=0"
    assert chosen(written.text, C.BCAST, 8, 0, 1) == "basic_linear"


def test_where_it_need_not_one_per_node_is_not_asked_for() -> None:
    """The library often does not notice it: leaders of three nodes are those not on one."""
    given_table = DecisionTable(
        "openmpi",
        Shape(3, 4),
        {},
        {
            (C.BCAST, Shape(3, 1)): intervals((0, "bcast.binomial:segsize=0")),
            (C.BCAST, Shape(1, 3)): intervals((0, "bcast.knomial:segsize=0")),
        },
    )
    text = FORMAT.write(given_table, "6.0.0").text
    assert "one-per-node" not in text
    assert chosen(text, C.BCAST, 3, 8, 3) == "binomial:segsize=0"
    assert chosen(text, C.BCAST, 3, 8, 1) == "knomial:segsize=0"


_SHAPES = {
    Shape(2, 4): "bcast.binomial:segsize=0",
    Shape(4, 2): "bcast.knomial:segsize=0",
    Shape(1, 8): "bcast.basic_linear",
}


def test_the_first_entry_and_the_first_rule_win() -> None:
    """No later entry is looked at, not even where the first one has no rule for the size."""
    text = rules(
        "bcast",
        {"comm_size_min": 4, "comm_size_max": 8, "rules": [{"msg_size_min": 100, "alg": 6}]},
        {"comm_size_min": 8, "comm_size_max": 9, "rules": [{"alg": 3}, {"alg": 2}]},
    )
    assert chosen(text, C.BCAST, 8, 99) == "default"
    assert chosen(text, C.BCAST, 8, 100) == "binomial:segsize=0"
    assert chosen(text, C.BCAST, 9, 99) == "pipeline:segsize=0"
    assert chosen(text, C.BCAST, 10, 99) == "default"
    assert found(text) == [(3, Fault.DEAD_RULE), (3, Fault.UNSORTED)]


def test_layouts_are_told_as_the_library_does() -> None:
    """One process per node never takes MPI_COMM_WORLD; a single node takes it, too."""
    text = rules(
        "bcast",
        {"comm_rank_distribution": "one-per-node", "rules": [{"alg": "chain"}]},
        {"comm_rank_distribution": "single-node", "rules": [{"alg": "BINOMIAL"}]},
        {"comm_rank_distribution": "everywhere", "rules": [{"alg": "9"}]},
    )
    parsed = parse(text)

    def algorithm(nodes: int, *, is_world: bool) -> str:
        call = Call(C.BCAST, 4, 64, nodes, is_world=is_world)
        return parsed.decide(call).chosen.algorithm

    assert algorithm(4, is_world=False) == "chain"
    assert algorithm(4, is_world=True) == "scatter_allgather_ring"
    assert algorithm(2, is_world=False) == "scatter_allgather_ring"
    assert algorithm(1, is_world=True) == "binomial"
    assert (4, Fault.UNKNOWN) in found(text)


def test_sizes_are_those_of_all_processes() -> None:
    """allgather's sizes count the whole buffer; in place they count nothing."""
    text = rules("allgather", {"rules": [{"msg_size_min": 400, "alg": "ring"}]})
    assert chosen(text, C.ALLGATHER, 4, 99) == "default"
    assert chosen(text, C.ALLGATHER, 4, 100) == "ring"
    in_place = Call(C.ALLGATHER, 4, 100, in_place=True)
    assert parse(text).decide(in_place).chosen.is_default
    assert parse(text).switch_points(C.ALLGATHER, 4) == (0, 100)


def test_what_the_library_drops_as_a_whole(subtests: pytest.Subtests) -> None:
    """It is found with its line, and nothing of the file is in effect."""
    for text, line, why in (
        ('{"collective": {}}', 1, "no object 'collectives'"),
        ('{"collectives":\n []}', 1, "'collectives' is not an object"),
        ('{"collectives": {\n"reducescatter": []}}', 2, "'reducescatter' is not a collective"),
        ('{"collectives": {\n"Bcast": []}}', 2, "'Bcast' is not a collective"),
        ('{"collectives": {"bcast":\n {}}}', 1, "not an array"),
        (rules("bcast", {"comm_size_min": 2.5, "rules": []}), 2, "comm_size_min is not a whole"),
        (rules("bcast", {"rules": [{"msg_size_max": "many"}]}), 2, "msg_size_max is not a whole"),
        (rules("bcast", {"rules": [{"seg_size": None}]}), 2, "seg_size is not a whole"),
        (rules("bcast", {"rules": [{"reqs": 2**63}]}), 2, "reqs is not a whole"),
        (rules("bcast", {"comm_size_min": 2}), 2, "without 'rules'"),
        (
            rules("bcast", {"comm_rank_distribution": 1, "rules": []}),
            2,
            ("comm_rank_distribution is not text"),
        ),
        ("[1, 2]", 1, "no object 'collectives'"),
        ('{\n"collectives": {},\n// no\n}', 3, "this is not JSON"),
        ('{"collectives"', 1, "this is not JSON"),
    ):
        with subtests.test(text=text, line=line):
            parsed = parse(text)
            assert why in parsed.dropped
            errors = [f for f in lint(parsed) if f.fault is Fault.FILE_DROPPED]
            assert [f.line for f in errors] == [line]


def test_the_spelling_that_was_meant_is_told() -> None:
    """The published schema's names of collectives, and the converter's segsize, are corrected."""
    parsed = parse('{"collectives": {"reducescatterblock": []}}')
    assert "write 'reduce_scatter_block'" in {f.mend for f in lint(parsed)}
    text = rules("bcast", {"rules": [{"alg": 3, "segsize": 1024}]})
    assert chosen(text, C.BCAST, 4, 64) == "pipeline:segsize=0"
    assert (2, Fault.UNKNOWN) in found(text)
    assert "write 'seg_size'" in {f.mend for f in lint(parse(text))}


def test_what_programs_die_of() -> None:
    """coll/tuned looks up algorithms of collectives that it has none for, and crashes."""
    text = '{"collectives": {"alltoallw":\n [{"rules":\n [{"alg": 1}]}]}}'
    parsed = parse(text)
    assert [(f.line, f.fault) for f in lint(parsed)] == [(3, Fault.ENDS_PROGRAM)]
    assert parsed.decide(Call(C.BCAST, 4, 64)).ends_program
    assert not parsed.decide(Call(C.BCAST, 4, 64), {}).ends_program
    harmless = parse('{"collectives": {"alltoallw":\n [{"rules": [{}]}]}}')
    assert [(f.line, f.fault) for f in lint(harmless)] == [(1, Fault.NO_EFFECT)]


def test_what_is_found(subtests: pytest.Subtests) -> None:
    """Each fault is found, on the line of the rule or key."""
    for collective, entry, fault in (
        ("bcast", {"rules": [{"alg": "tree"}]}, Fault.RULE_DROPPED),
        ("bcast", {"rules": [{"alg": 10}]}, Fault.RULE_DROPPED),
        ("bcast", {"rules": [{"msg_size_min": 5}]}, Fault.MALFORMED),
        ("bcast", {"rules": [{"alg": 2.0}]}, Fault.MALFORMED),
        ("bcast", {"rules": [7]}, Fault.MALFORMED),
        ("bcast", {"comm_size_max": "inf", "rules": [{"alg": 1}]}, Fault.DEAD_RULE),
        (
            "bcast",
            {"rules": [{"alg": 1, "msg_size_max": 9}, {"alg": 6, "msg_size_max": 5}]},
            Fault.DEAD_RULE,
        ),
        ("bcast", {"rules": [{"alg": 1, "msg_size_max": 9}, {"alg": 6}]}, Fault.UNSORTED),
        (
            "gather",
            {"rules": [{"alg": 1, "msg_size_max": 9}, {"alg": 2, "msg_size_min": 10}]},
            Fault.RANKS_DISAGREE,
        ),
        ("scatter", {"rules": [{"alg": 1, "msg_size_min": 9}]}, Fault.RANKS_DISAGREE),
        ("barrier", {"rules": [{"alg": 1, "msg_size_min": 9}]}, Fault.DEAD_RULE),
        (
            "scan",
            {"rules": [{"alg": 1, "msg_size_max": 99}, {"alg": 2, "msg_size_min": 100}]},
            Fault.WRONG_UNIT,
        ),
        ("allgather", {"rules": [{"alg": "bruck-k-fanout"}]}, Fault.HANGS),
        ("reduce", {"rules": [{"alg": 8, "faninout": 1}]}, Fault.HANGS),
        ("allgather", {"rules": [{"alg": 8}]}, Fault.WRONG_RESULT),
        ("allreduce", {"rules": [{"alg": 7}]}, Fault.SOME_PROGRAMS),
        ("alltoall", {"rules": [{"alg": "two_proc"}]}, Fault.ENDS_PROGRAM),
        (
            "allgather",
            {"comm_size_min": 6, "comm_size_max": 6, "rules": [{"alg": "recursive_doubling"}]},
            Fault.FALLS_BACK,
        ),
        (
            "bcast",
            {"comm_size_min": 64, "comm_size_max": 64, "rules": [{"alg": 8, "msg_size_max": 63}]},
            Fault.FALLS_BACK,
        ),
        ("bcast", {"rules": [{"alg": 1, "seg_size": 64}]}, Fault.NO_EFFECT),
        (
            "alltoall",
            {
                "comm_size_min": 24,
                "comm_size_max": 24,
                "rules": [{"alg": 1, "msg_size_max": 1023}, {"alg": 2, "msg_size_min": 1024}],
            },
            Fault.WRONG_UNIT,
        ),
        ("bcast", {"rules": [{"alg": 1}], "comment": "x"}, Fault.REMARK),
        ("bcast", {"rules": [{"alg": 1}], "com_size_mn": 8}, Fault.UNKNOWN),
        ("bcast", {"rules": [{"alg": 3, "seg_size": 1}]}, Fault.WRONG_UNIT),
        ("bcast", {"rules": [{"alg": 1}]}, Fault.REMARK),
        ("bcast", {"comm_size_min": -4, "rules": [{"alg": 1}]}, Fault.MALFORMED),
    ):
        with subtests.test(collective=collective, entry=entry):
            assert (2, fault) in found(rules(collective, entry))


def test_numbers_are_kept_as_the_library_keeps_them() -> None:
    """Communicator sizes and algorithms are 32 bits wide, message sizes unsigned."""
    text = rules("bcast", {"comm_size_min": 2**32 + 4, "rules": [{"alg": 2**32 + 6}]})
    assert chosen(text, C.BCAST, 3, 8) == "default"
    assert chosen(text, C.BCAST, 4, 8) == "binomial:segsize=0"
    assert chosen(rules("bcast", {"rules": [{"alg": 6, "msg_size_min": -1}]}), C.BCAST, 4, 8) == (
        "default"
    )


def test_trailing_commas_a_byte_order_mark_and_twins() -> None:
    """The library reads over them; the first of equal keys counts, the last of collectives."""
    text = (
        '\ufeff{"collectives": {"bcast": [{"rules": [{"alg": 1,}],},],\n'
        '"bcast": [{"rules": [{"alg": 6, "alg": 3}]}]}}'
    )
    assert chosen(text, C.BCAST, 4, 8) == "binomial:segsize=0"
    assert (2, Fault.DEAD_RULE) in found(text)
    assert (2, Fault.MALFORMED) in found(text)


def test_what_is_no_such_file_is_refused() -> None:
    """A classic file is no JSON, and another JSON file does not look like this format."""
    with refused("begins-otherwise", LibraryError):
        FORMAT.parse("1 7 1 0 1 0 6 0 0", "rules", "6.0.0")
    assert not FORMAT.recognises('{"collective=bcast": {}}')
    assert not FORMAT.recognises("1 # collectives")


def test_converting_leaves_out_what_breaks_programs() -> None:
    """Dead, unknown and dangerous rules go, each with a note that names its line."""
    text = rules(
        "allgather",
        {
            "comm_size_max": 9,
            "rules": [{"alg": 8, "msg_size_max": 9}, {"alg": 77}, {"alg": "ring"}, {"alg": 1}],
        },
        {"comm_size_max": 8, "rules": []},
        {"comm_size_min": 12, "rules": [{"alg": 2, "msg_size_max": 3}, {"alg": 2, "faninout": 3}]},
    )
    converted = FORMAT.convert(parse(text), "6.0.0")
    assert [note.partition(":")[0] for note in converted.notes] == [
        "line 2",
        "line 2",
        "line 2",
        "line 3",
        "line 4",
    ]
    assert chosen(converted.text, C.ALLGATHER, 9, 0) == "default"
    assert chosen(converted.text, C.ALLGATHER, 9, 2) == "ring"
    assert chosen(converted.text, C.ALLGATHER, 12, 0) == "default"
    assert chosen(converted.text, C.ALLGATHER, 12, 1) == "bruck-k-fanout:fanout=3"
    assert not [f for f in found(converted.text) if f[1].severity is Severity.ERROR]


def test_many_rules_for_gather_are_not_converted() -> None:
    """Processes could choose different ones."""
    text = rules("gather", {"rules": [{"alg": 1, "msg_size_max": 9}, {"alg": 2}]})
    converted = FORMAT.convert(parse(text), "6.0.0")
    assert "left to the library" in converted.notes[0]
    assert chosen(converted.text, C.GATHER, 4, 64) == "default"


def test_a_classic_file_becomes_ranges() -> None:
    """Its entries are ranges without an end, as its own release takes them; bruck gets radix 2."""
    text = "2\n0\n2\n4 1\n0 2 0 0\n8 2\n0 0 0 0\n800 4 0 0\n7\n1\n0 1\n0 3 0 1024\n"
    by_release = {r: OpenMpiClassic().parse(text, "rules", r) for r in ("5.0.11", "6.0.0")}
    converted = FORMAT.convert(by_release["5.0.11"], "6.0.0")
    assert "bruck becomes bruck-k-fanout with a fan-out of 2" in converted.notes[0]
    assert chosen(converted.text, C.ALLGATHER, 2, 8) == "bruck-k-fanout:fanout=2"
    assert chosen(converted.text, C.ALLGATHER, 8, 99) == "default"
    assert chosen(converted.text, C.ALLGATHER, 8, 100) == "ring"
    assert chosen(converted.text, C.BCAST, 999, 8) == "pipeline:segsize=1024"
    shifted = FORMAT.convert(by_release["6.0.0"], "6.0.0")
    assert "never ends" in shifted.notes[0]
    assert chosen(shifted.text, C.ALLGATHER, 4, 1000) == "ring"


def test_a_single_node_needs_no_file_for_han() -> None:
    """On one node coll/han is not asked."""
    one = table(Shape(1, 4), {(C.BCAST, 4): intervals((0, "bcast.basic_linear"))})
    two = table(Shape(2, 2), {(C.ALLTOALLV, 4): intervals((0, "alltoallv.pairwise"))})
    assert list(FORMAT.write(one, "6.0.0").texts) == [""]
    # coll/han of 6 serves alltoallv
    assert list(FORMAT.write(two, "6.0.0").texts) == ["", ".dispatch"]


def test_a_call_without_data_returns_at_once_whatever_the_file() -> None:
    """A file that is dropped, or ends programs, does not make an empty call run something."""
    call = Call(Collective.BCAST, 4, 0)
    for text in (
        '{"collectives": {"nope": []}}',
        '{"collectives": {"gatherv": [{"rules": [{"alg": 1}]}]}}',
    ):
        assert parse(text).decide(call).returns_at_once, text
    dropped = OpenMpiHan().parse("1\nnope\n", "f", "5.0.11")
    assert dropped.dropped
    assert dropped.decide(call).returns_at_once
