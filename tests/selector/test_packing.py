"""Decisions for one application alone."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colltune.dataset.profile import Profile, added_up, parse_profile
from colltune.decisions import DecisionTable, Interval
from colltune.domain import Collective, Configuration, Shape
from colltune.models.fitting import fit
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import Target, rendered
from colltune.selector.packing import application_table, calls_on, within
from tests.dataset.profiles import profile_text, row
from tests.models.machines import CONTEXT, measured

BCAST = Collective.BCAST
RELEASE = CONTEXT.library_version
SELECTOR = ModelSelector(fit(measured(collectives=(BCAST, Collective.ALLREDUCE)), "knn"))
TARGET = Target.named("openmpi", RELEASE)
JOB = Shape(8, 4)


def profile(*rows: str, world: str = "32 8x4") -> Profile:
    """Return the profile of one run with these rows."""
    job, uses = parse_profile(profile_text(rows, world=world), "job.profile")
    return added_up([job], uses)


def table(found: Profile, shape: Shape = JOB, target: Target = TARGET) -> DecisionTable:
    """Return the application's decisions."""
    return application_table(SELECTOR, calls_on(found, shape), target)


def chosen(found: DecisionTable) -> dict[tuple[str, int], list[tuple[int, int | None]]]:
    """Return the message sizes that are not left to the library."""
    ranges = {
        (collective.value, size): [
            (i.first_bytes, i.last_bytes) for i in intervals if not i.configuration.is_default
        ]
        for (collective, size), intervals in found.rules.items()
    }
    return {at: sizes for at, sizes in ranges.items() if sizes}


def test_only_what_is_called_is_chosen() -> None:
    """Other collectives, communicator sizes and message sizes are left to the library."""
    found = table(profile(row("bcast", "8x4", 256, 9, 1e-3), row("bcast", "8x4", 1024, 9, 1e-3)))
    assert chosen(found) == {("bcast", 32): [(256, 511), (1024, 2047)]}
    (intervals,) = found.rules.values()
    assert intervals[0].first_bytes == 0
    assert intervals[-1].last_bytes is None
    for before, after in itertools.pairwise(intervals):
        assert after.first_bytes == (before.last_bytes or 0) + 1


def test_the_file_says_the_same() -> None:
    """What is written for Open MPI is read back as these decisions and nothing else."""
    found = table(profile(row("bcast", "8x4", 1024, 9, 1e-3)))
    parsed = TARGET.form.parse(rendered(TARGET, found).written.text, "rules", RELEASE)
    named = {r.configuration.algorithm for r in parsed.rules if r.configuration is not None}
    assert named == {"default", "binomial"}
    assert parsed.comm_sizes(Collective.ALLREDUCE) == ()


def test_layouts_that_are_not_known_are_left_alone() -> None:
    """A communicator size of which one layout is not known is left to the library as a whole."""
    rows = row("bcast", "8x4", 1024, 9, 1e-3), row("barrier", "-", 0, 1, 1e-3, size=32)
    calls = calls_on(profile(*rows), JOB)
    assert calls.left_out == (32,)
    assert chosen(application_table(SELECTOR, calls, TARGET)) == {}


def test_communicators_are_carried_over_to_another_shape() -> None:
    """The whole job, all nodes and whole nodes stay that; others keep their size."""
    rows = [row("bcast", layout, 1024, 9, 1e-3) for layout in ("8x4", "8x1", "1x4", "2x4", "4x2")]
    calls = calls_on(profile(*rows), Shape(16, 2))
    assert calls.layouts[BCAST] == {
        32: (Shape(16, 2),),
        16: (Shape(16, 1),),
        2: (Shape(1, 2),),
        4: (Shape(2, 2),),
        8: (Shape(4, 2),),
    }
    assert calls_on(profile(*rows), JOB).layouts[BCAST][8] == (
        Shape(2, 4),
        Shape(4, 2),
        Shape(8, 1),
    )


def test_communicators_too_large_for_the_job_are_dropped() -> None:
    """What does not fit into the job is not written for."""
    rows = [row("bcast", "8x4", 1024, 9, 1e-3), row("bcast", "4x4", 1024, 9, 1e-3)]
    assert calls_on(profile(*rows), Shape(2, 4)).layouts == {BCAST: {8: (Shape(2, 4),)}}


def test_one_process_talks_to_nobody() -> None:
    """A job of one process has no rules."""
    assert table(profile(row("bcast", "8x4", 8, 1, 1.0)), Shape(1, 1)).rules == {}


def test_formats_with_one_choice_get_it_for_what_is_called() -> None:
    """A format of one choice per collective says nothing of collectives that are not called."""
    target = Target.named("openmpi-parameters", RELEASE)
    assert target.form.single_algorithm
    found = table(profile(row("bcast", "8x4", 8, 1, 1.0)), JOB, target)
    assert {collective for collective, _ in found.rules} == {BCAST}


DEFAULT, OTHER = (Configuration("openmpi", BCAST, name) for name in ("default", "binomial"))


@given(
    st.lists(st.integers(1, 60), unique=True, max_size=6),
    st.lists(st.integers(0, 60), unique=True, max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_within_is_the_choice_inside_and_the_default_outside(
    switches: list[int], edges: list[int]
) -> None:
    """At every size the result is the interval's choice in a range, and else the default."""
    firsts = [0, *sorted(switches)]
    lasts: list[int | None] = [*(f - 1 for f in firsts[1:]), None]
    intervals = [
        Interval(first, last, (OTHER, DEFAULT)[k % 2])
        for k, (first, last) in enumerate(zip(firsts, lasts, strict=True))
    ]
    pairs = sorted(edges)[: len(edges) // 2 * 2]
    ranges = tuple(zip(pairs[::2], pairs[1::2], strict=True))
    found = within(intervals, ranges, DEFAULT)
    assert found[0].first_bytes == 0
    assert found[-1].last_bytes is None
    for size in range(70):
        inside = any(low <= size <= high for low, high in ranges)
        expected = _at(intervals, size) if inside else DEFAULT
        assert _at(found, size) == expected


def _at(intervals: list[Interval] | tuple[Interval, ...], size: int) -> Configuration:
    """Return what is chosen at a message size."""
    (found,) = [
        i
        for i in intervals
        if i.first_bytes <= size and (i.last_bytes is None or size <= i.last_bytes)
    ]
    return found.configuration


def test_the_guard_decides_here_too(subtests: pytest.Subtests) -> None:
    """Only choices that the selector's own guard lets through are in the table."""
    for guarded in (True, False):
        with subtests.test(guarded=guarded):
            rows = [row("bcast", "8x4", 1 << k, 9, 1e-3) for k in range(0, 30, 2)]
            selector = ModelSelector(SELECTOR.bundle, guard=guarded)
            found = application_table(selector, calls_on(profile(*rows), JOB), TARGET)
            ranges = chosen(found)[("bcast", 32)]
            assert (ranges[-1][1] or 0) < (1 << 24 if guarded else 1 << 31)
