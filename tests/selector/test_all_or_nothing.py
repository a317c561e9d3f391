"""Tables for files that cannot leave a part of a collective to the library."""

from __future__ import annotations

from collections.abc import Sequence

from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.mpi.running import RunningRange
from colltune.selector.argmin import ModelSelector
from colltune.selector.configuration import all_or_nothing_table
from colltune.selector.decision_table import communicator_sizes, layouts
from tests.models.machines import configuration, measured

BCAST = Collective.BCAST
JOB = Shape(8, 4)
SMALL = (1, 16, 64, 256, 1024)
WINNING = fit(measured(nodes=(1, 2, 4, 8, 16), ppn=(1, 2, 4), msizes=SMALL), "gam", jobs=1)
MIXED = fit(measured(nodes=(1, 2, 4, 8, 16), ppn=(1, 2, 4)), "gam", jobs=1)


def all_layouts() -> list[Shape]:
    """Return every layout of every communicator of the job."""
    return [s for size in communicator_sizes(JOB) for s in layouts(size, JOB)]


def test_nothing_is_left_to_the_library_where_choices_always_win() -> None:
    """All communicators and sizes get a choice, each the fastest that is not the default."""
    selector = ModelSelector(WINNING)
    table = all_or_nothing_table(selector, JOB, [BCAST])
    named = {s for _, s in table.by_layout} | {
        s for s in all_layouts() if (BCAST, s.nprocs) in table.rules
    }
    assert named == set(all_layouts())
    assert set(table.by_layout).isdisjoint({(BCAST, JOB)})
    for intervals in (*table.rules.values(), *table.by_layout.values()):
        assert intervals[0].first_bytes == 0
        assert intervals[-1].last_bytes is None
        assert not any(i.configuration.is_default for i in intervals)
    (own,) = [table.rules[BCAST, JOB.nprocs]]
    free = ModelSelector(WINNING, guard=False)
    for interval in own:
        at = Instance(BCAST, JOB, max(1, interval.first_bytes))
        assert free.select(at).configuration == interval.configuration


def test_one_size_that_loses_keeps_the_default_for_all() -> None:
    """Where the default is faster at any size of any communicator, nothing is chosen."""
    algorithms = ("default", "linear")
    bundle = fit(measured(algorithms=algorithms), "gam", jobs=1)
    table = all_or_nothing_table(ModelSelector(bundle), JOB, [BCAST])
    found = {i.configuration for k in (table.rules, table.by_layout) for v in k.values() for i in v}
    assert found == {configuration("default")}


def test_what_production_refuted_keeps_the_default_for_all() -> None:
    """A refuted range on any layout of the job leaves the collective to the library there."""
    default, chosen = configuration("default"), configuration("binomial")
    for shape, is_left in ((Shape(8, 4), True), (Shape(4, 4), True), (Shape(16, 4), False)):
        refuted = Confirmation(
            BCAST, shape, 16, 31, Status.WITHDRAWN, default, chosen,
            0.5, 0.4, 0.6, 0, "2026-11-23T00:00:00+00:00", 50,
        )  # fmt: skip
        selector = ModelSelector(WINNING.with_confirmations([refuted]))
        table = all_or_nothing_table(selector, JOB, [BCAST])
        found = {i.configuration for v in table.rules.values() for i in v}
        assert (found == {default}) == is_left, shape


def test_what_must_not_be_used_is_not_chosen() -> None:
    """An algorithm that is not safe on a communicator gives way to the next best there."""

    def runs(candidate: Configuration, shapes: Sequence[Shape]) -> list[RunningRange]:
        refused = [candidate.algorithm == "binomial" and s.nprocs == 2 for s in shapes]
        return [RunningRange(None if never else 0) for never in refused]

    table = all_or_nothing_table(ModelSelector(WINNING, runs=runs), JOB, [BCAST])
    pairs = [i for (_, s), found in table.by_layout.items() if s.nprocs == 2 for i in found]
    assert pairs
    assert {i.configuration.algorithm for i in pairs} <= {"linear", "scatter_allgather"}


def test_only_the_jobs_own_communicator_counts_where_layouts_are_not_known() -> None:
    """A file without communicator sizes gets the intervals of the whole job alone."""
    table = all_or_nothing_table(ModelSelector(MIXED), JOB, [BCAST], by_layout=False)
    assert list(table.rules) == [(BCAST, JOB.nprocs)]
    assert table.by_layout == {}


def test_without_a_measured_default_nothing_is_chosen() -> None:
    """What was never compared with the default does not replace it."""
    bundle = fit(measured(algorithms=("binomial", "linear")), "gam", jobs=1)
    table = all_or_nothing_table(ModelSelector(bundle), JOB, [BCAST], by_layout=False)
    assert [i.configuration.is_default for i in table.rules[BCAST, JOB.nprocs]] == [True]
