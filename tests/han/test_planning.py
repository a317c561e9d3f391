"""Which series of tasks a tuning needs, and what its heuristics leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from colltune.domain import Collective, Configuration, RunStatus, Shape
from colltune.errors import CampaignError, DataError
from colltune.han import measuring
from colltune.han.space import (
    Space,
    TuningInputs,
    TuningRequest,
    edges,
    needed,
    pipeline,
    segments_of,
    setups_of,
)
from colltune.han.tasks_file import Manner, TaskSeries
from tests.refusals import refused

RELEASE, SHAPE = "5.0.11", Shape(4, 2)
BOTH = (Collective.BCAST, Collective.ALLREDUCE)
SMALL = Space((4096, 65536), trees=("binomial", "pipeline"))
INPUTS = TuningInputs(BOTH, (SHAPE,), (1024, 4096, 65536, 1048576))


def _setup(text: str) -> Configuration:
    return Configuration.parse(f"openmpi.bcast.han_intra:{text}")


def test_a_space_has_all_combinations() -> None:
    """Two modules within nodes, and between them coll/libnbc and each tree of coll/adapt."""
    found = list(SMALL.setups(RELEASE, Collective.ALLREDUCE))
    assert len(found) == len(set(found)) == 2 * 2 * (1 + 2)
    assert found[1].id == "openmpi.allreduce.han_intra:low=sm,segsize=4096,up=libnbc"
    last = "ibalg=pipeline,ibs=0,iralg=pipeline,irs=0,low=sm,segsize=65536,up=adapt"
    assert found[-1].parameter_text == last


def test_messages_share_tasks() -> None:
    """A message that fits a segment has the tasks of a segment of its own size, once."""
    setup = _setup("low=sm,segsize=65536,up=libnbc")
    assert pipeline(RELEASE, setup, 1000) == (_setup("low=sm,segsize=1000,up=libnbc"), 1)
    assert pipeline(RELEASE, setup, 65536) == (setup, 1)
    assert pipeline(RELEASE, setup, 65537) == (setup, 2)
    inner = _setup("ibalg=linear,ibs=65536,low=sm,segsize=65536,up=adapt")
    assert pipeline(RELEASE, inner, 1 << 20)[0].numbers["ibs"] == 0
    assert segments_of(0, 4096) == segments_of(5, 0) == 1


def test_what_is_needed_does_not_grow_with_the_messages() -> None:
    """Section III-C: tasks take T S N P A series, whatever the number of message sizes."""
    few, many = (
        needed(TuningRequest(TuningInputs(BOTH, (SHAPE,), sizes), SMALL), RELEASE)
        for sizes in ((4096, 65536, 1048576), (4096, 65536, 262144, 524288, 1048576))
    )
    assert len(few) == len(many)
    per_msize = len(list(SMALL.setups(RELEASE, Collective.BCAST)))
    exhaustive = len(BOTH) * 5 * per_msize
    assert len(many) < exhaustive


def test_series_begin_short_and_are_bounded() -> None:
    """Steady ones grow from 4 tasks on; short allreduces are asked for as they are."""
    wanted = needed(TuningRequest(INPUTS, SMALL, reps=7), RELEASE)
    lengths = {(w.setup.collective, w.setup.segsize_bytes): set[tuple[int, int]]() for w in wanted}
    for w in wanted:
        assert w.reps == 7
        lengths[w.setup.collective, w.setup.segsize_bytes].add((w.least, w.most))
    assert lengths == {
        (Collective.BCAST, 1024): {(1, 1)},
        (Collective.BCAST, 4096): {(5, 65)},
        (Collective.BCAST, 65536): {(5, 16)},
        (Collective.ALLREDUCE, 1024): {(1, 1)},
        (Collective.ALLREDUCE, 4096): {(1, 1), (7, 67)},
        (Collective.ALLREDUCE, 65536): {(1, 1), (7, 16)},
    }


def test_heuristics_leave_out_most() -> None:
    """They keep coll/libnbc, and no tiny segments, odd modules or short pipelines."""
    space = Space((4096, 65536, 262144))
    request = TuningRequest(INPUTS, space, heuristics=True)
    kept = setups_of(request, RELEASE, SHAPE)[Collective.BCAST]
    assert [s.parameter_text for s in kept] == [
        "low=tuned,segsize=65536,up=libnbc",
        "ibalg=binomial,ibs=0,low=tuned,segsize=65536,up=adapt",
        "ibalg=pipeline,ibs=0,low=tuned,segsize=65536,up=adapt",
        "ibalg=linear,ibs=0,low=tuned,segsize=65536,up=adapt",
        "low=tuned,segsize=262144,up=libnbc",
        "ibalg=binomial,ibs=0,low=tuned,segsize=262144,up=adapt",
        "ibalg=linear,ibs=0,low=tuned,segsize=262144,up=adapt",
    ]
    assert {w.reps for w in needed(request, RELEASE)} == {3}


def test_heuristics_keep_something() -> None:
    """A space that they would empty keeps its largest segments, or its first setup."""
    tiny = Space((4,), ups=("adapt",), lows=("sm",))
    kept = setups_of(TuningRequest(INPUTS, tiny, heuristics=True), RELEASE, SHAPE)
    assert [len(found) for found in kept.values()] == [1, 1]
    only_sm = Space((65536,), ups=("libnbc",), lows=("sm",))
    kept = setups_of(TuningRequest(INPUTS, only_sm, heuristics=True), RELEASE, SHAPE)
    assert kept[Collective.BCAST] == (_setup("low=sm,segsize=65536,up=libnbc"),)


def test_trees_are_those_of_the_library() -> None:
    """Parents on eight nodes, as coll_base_topo.c gives them."""
    parents = {
        "binomial": (0, 0, 1, 0, 1, 2, 3),
        "binary": (0, 0, 1, 2, 1, 2, 3),
        "pipeline": (0, 1, 2, 3, 4, 5, 6),
        "chain": (0, 1, 0, 3, 0, 5, 0),
        "linear": (0, 0, 0, 0, 0, 0, 0),
    }
    assert {tree: edges(tree, 8) for tree in parents} == parents


def test_a_senseless_space_is_refused() -> None:
    """Unknown words and sizes that cut an integer are told."""
    mistakes: dict[str, dict[str, Any]] = {
        "unknown name=x": {"ups": ("x",)},
        "unknown name=": {"trees": ()},
        "odd-segment-size segsize=6": {"segsizes_bytes": (6,)},
        "no-segment-size": {"segsizes_bytes": ()},
    }
    for message, values in mistakes.items():
        with refused(message, CampaignError):
            Space(**values)


def test_senseless_inputs_are_refused() -> None:
    """What coll/han does not serve is not tuned."""
    mistakes: dict[str, tuple[Any, Any, Any]] = {
        "unknown name=gather": ((Collective.GATHER,), (SHAPE,), (1,)),
        "shape-without-han shape=1x8": (BOTH, (Shape(1, 8),), (1,)),
        "shape-without-han shape=8x1": (BOTH, (Shape(8, 1),), (1,)),
        "empty-messages": (BOTH, (SHAPE,), (0,)),
        "nothing-to-measure": (BOTH, (), (1,)),
    }
    for message, inputs in mistakes.items():
        with refused(message, CampaignError):
            TuningInputs(*inputs)


WANTED = (
    TaskSeries(Shape(2, 2), _setup("low=sm,segsize=1024,up=libnbc"), 1, 1, 2),
    TaskSeries(Shape(2, 2), _setup("ibalg=linear,ibs=0,low=sm,segsize=8,up=adapt"), 5, 9, 1),
)
RAW = """colltune-han-raw 1
f clock CLOCK_MONOTONIC
s 0
t 0 1 0 0 0.001 0.002
t 0 1 0 1 0.003 0.002
t 0 1 1 0 0.001 0.001
t 0 1 1 1 0.001 0.001
e 0 exact 0.5
s 1
x 1 wrong_result the received data are wrong
e 1 none 0.1
"""


def test_the_plan_names_segments_and_modules() -> None:
    """Golden: one configuration per distinct set of control variables, one line per series."""
    settings: list[dict[str, int | str]] = [{}, {"coll_adapt_bcast_algorithm": 6}]
    assert measuring.plan_text(Shape(4, 2), WANTED, settings, 10.0, "h 1") == (
        "colltune-han-plan 1\nlayout 4 2\nbudget 10.000\nowner h 1\nconfig\n"
        "config coll_adapt_bcast_algorithm=6\n"
        "series 0 bcast 2 2 1024 libnbc sm 1 1 2 0.15\n"
        "series 1 bcast 2 2 8 adapt sm 5 9 1 0.15\n"
    )


def test_raw_output_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Series that ended are kept with their repetitions, failures with their reason."""
    path = tmp_path / "raw.txt"
    path.write_text(f"{RAW}end plan 1.0\n")
    output = measuring.read_raw(path, WANTED)
    first, second = output.series
    assert first.times_s == (((0.001, 0.002), (0.003, 0.002)), ((0.001, 0.001),) * 2)
    assert (first.manner, first.wall_s) == (Manner.EXACT, 0.5)
    assert (second.status, second.message) == (
        RunStatus.WRONG_RESULT,
        "the received data are wrong",
    )
    assert (output.ended, output.in_flight) == ("plan", None)


def test_raw_output_of_a_killed_program_tells_what_was_under_way(tmp_path: Path) -> None:
    """Without its end, the series that had begun is in flight, and a torn line is left out."""
    path = tmp_path / "raw.txt"
    path.write_text(RAW[: RAW.index("x 1")] + "t 1 5 0 0 0.0")
    output = measuring.read_raw(path, WANTED)
    assert (len(output.series), output.in_flight, output.ended) == (1, 1, "")
    assert measuring.read_raw(tmp_path / "none.txt", WANTED).series == ()


def test_other_raw_output_is_refused(tmp_path: Path) -> None:
    """Another program's output, and lines that make no sense, are told."""
    path = tmp_path / "raw.txt"
    cases = (
        ("colltune-raw 2\n", "not-raw-tasks"),
        ("colltune-han-raw 1\nt x\n", "tasks-line-unreadable number=2"),
    )
    for text, code in cases:
        path.write_text(text)
        with refused(code, DataError):
            measuring.read_raw(path, WANTED)
