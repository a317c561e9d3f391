"""Decision tables out of files, and when two say the same."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.mpi.file_format import Call, Outcome
from tests.mpi.plain_format import PlainFile
from tests.mpi.tables import intervals, normal, table, table_of

JOB = Shape(2, 4)
BCAST = Collective.BCAST


def _read(text: str, job: Shape = JOB) -> DecisionTable:
    return table_of(PlainFile(f"plain\n{text}", "f", "5.0.11"), "openmpi", job)


def test_rules_become_intervals() -> None:
    """Each communicator size of the file has its intervals, without those that choose nothing."""
    found = _read("bcast 2 0 binomial\nbcast 4 0 chain\nbcast 4 64 default\nbcast 8 0 default\n")
    assert found == table(
        JOB,
        {
            (BCAST, 2): intervals((0, "bcast.binomial")),
            (BCAST, 4): intervals((0, "bcast.chain"), (64, "bcast.default")),
        },
    )


def test_entries_for_fewer_than_two_processes_hold_from_two_on() -> None:
    """What a file says from 0 or 1 process on is what communicators of 2 get."""
    expected = {(BCAST, 2): intervals((0, "bcast.binomial"))}
    assert _read("bcast 0 0 binomial\n") == table(JOB, expected)
    assert _read("bcast 0 0 chain\nbcast 1 0 binomial\n") == table(JOB, expected)


def test_communicators_that_the_job_cannot_have_are_left_out() -> None:
    """No communicator is larger than the job; one process alone has none."""
    assert not _read("bcast 9 0 binomial\n").rules
    assert not _read("bcast 1 0 binomial\n", Shape(1, 1)).rules


def test_a_size_that_no_even_layout_has() -> None:
    """7 processes on 2 nodes x 4 lie unevenly, and are in the table all the same."""
    assert set(_read("bcast 7 0 binomial\n").rules) == {(BCAST, 7)}


class _ByNodes(PlainFile):
    """Decides as its rules say, on one node only."""

    def decide(self, call: Call, environment: object = None) -> Outcome:
        del environment
        default = Configuration.default("openmpi", call.collective)
        outcome = super().decide(call)
        chosen = outcome.chosen if call.nodes == 1 else default
        return Outcome(chosen, outcome.rule, (), chosen)


def test_layouts_that_differ_are_told_apart() -> None:
    """A size whose layouts decide differently stands by layout, and only where it chooses."""
    found = table_of(_ByNodes("plain\nbcast 4 0 binomial\n", "f", "5.0.11"), "openmpi", JOB)
    assert found.rules == {}
    assert found.by_layout == {(BCAST, Shape(1, 4)): intervals((0, "bcast.binomial"))}


def test_normal_joins_and_drops() -> None:
    """Equal neighbours are joined, predictions forgotten, what is left to the library dropped."""
    binomial = Configuration.parse("openmpi.bcast.binomial")
    told = (Interval(0, 7, binomial, reason="fast"), Interval(8, None, binomial))
    given_table = table(JOB, {(BCAST, 8): told, (BCAST, 4): intervals((0, "bcast.default"))})
    assert normal(given_table) == table(JOB, {(BCAST, 8): intervals((0, "bcast.binomial"))})


def test_normal_tells_layouts_only_where_they_differ() -> None:
    """An entry for the only layout of a size is one for the size; others stay by layout."""
    one, other = intervals((0, "bcast.binomial")), intervals((0, "bcast.chain"))
    whole = DecisionTable("openmpi", JOB, {}, {(BCAST, JOB): one})
    assert normal(whole) == table(JOB, {(BCAST, 8): one})
    part = DecisionTable("openmpi", JOB, {(BCAST, 4): one}, {(BCAST, Shape(2, 2)): other})
    both = {(BCAST, Shape(1, 4)): one, (BCAST, Shape(2, 2)): other}
    assert normal(part) == DecisionTable("openmpi", JOB, {}, both)


_NAMES = st.sampled_from(["bcast.default", "bcast.binomial", "bcast.chain"])
_STEPS = st.lists(st.tuples(st.integers(1, 99), _NAMES), max_size=4, unique_by=lambda s: s[0])
_INTERVALS = st.builds(lambda first, steps: intervals((0, first), *sorted(steps)), _NAMES, _STEPS)
_LAYOUTS = st.sampled_from([Shape(1, 2), Shape(2, 1), Shape(1, 4), Shape(2, 2), Shape(2, 4)])
_TABLES = st.builds(
    lambda rules, layouts: DecisionTable(
        "openmpi",
        JOB,
        {(BCAST, size): i for size, i in rules.items()},
        {(BCAST, shape): i for shape, i in layouts.items()},
    ),
    st.dictionaries(st.integers(2, 8), _INTERVALS),
    st.dictionaries(_LAYOUTS, _INTERVALS),
)


def _said(decisions: DecisionTable, shape: Shape, msize: int) -> Configuration:
    found = decisions.by_layout.get((BCAST, shape)) or decisions.rules.get((BCAST, shape.nprocs))
    fitting = [i.configuration for i in found or () if i.first_bytes <= msize]
    return fitting[-1] if fitting else Configuration.default("openmpi", BCAST)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_TABLES, _LAYOUTS, st.integers(0, 100))
def test_normal_says_the_same(decisions: DecisionTable, shape: Shape, msize: int) -> None:
    """The normal table decides as the one it was made of, and is its own normal table."""
    once = normal(decisions)
    assert _said(once, shape, msize) == _said(decisions, shape, msize)
    assert normal(once) == once
