"""Decision tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from colltune.decisions import Interval, Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.mpi.running import RunningRange
from colltune.selector.argmin import ModelSelector, Runs
from colltune.selector.decision_table import (
    communicator_sizes,
    decision_table,
    intervals,
    layouts,
    merged,
    single_algorithm_table,
)
from tests.models.machines import configuration, measured

BCAST, GATHER = Collective.BCAST, Collective.GATHER
BOTH = (BCAST, GATHER)
DATA = measured(nodes=(1, 2, 4, 8, 16), ppn=(1, 2, 4), collectives=BOTH)
BUNDLES = {name: fit(DATA, name, jobs=1) for name in ("knn", "gam", "xgboost")}
JOB = Shape(12, 4)
WHOLE = {48: (JOB,)}


def adjacent(found: Iterable[Interval]) -> bool:
    """Tell whether intervals start at 0, follow each other, differ, and end without bound."""
    found = tuple(found)
    follow = all(
        a.last_bytes is not None
        and a.last_bytes + 1 == b.first_bytes
        and a.configuration != b.configuration
        for a, b in itertools.pairwise(found)
    )
    return found[0].first_bytes == 0 and found[-1].last_bytes is None and follow


@pytest.mark.parametrize("learner", BUNDLES)
def test_intervals_are_the_selectors_own_decisions(learner: str) -> None:
    """On both sides of every switch point and at measured sizes, table and selector agree."""
    selector = ModelSelector(BUNDLES[learner])
    found = intervals(selector, BCAST, JOB)
    assert adjacent(found)
    edges = {i.first_bytes for i in found} | {i.last_bytes for i in found if i.last_bytes}
    sizes = sorted(edges | set(DATA.frame["msize_bytes"]))
    selections = selector.select_many([Instance(BCAST, JOB, int(m)) for m in sizes])
    for selection in selections:
        msize = selection.instance.msize_bytes
        (interval,) = [
            i
            for i in found
            if i.first_bytes <= msize and (i.last_bytes is None or msize <= i.last_bytes)
        ]
        assert interval.configuration == selection.configuration, msize


def test_every_byte_is_decided_as_the_selector_would() -> None:
    """For a smooth model the table equals the selector's answer at each of 3000 random sizes."""
    selector = ModelSelector(BUNDLES["gam"])
    found = intervals(selector, BCAST, JOB)
    starts = [i.first_bytes for i in found]
    sizes = np.random.default_rng(2).integers(0, 9_000_000, 3000)
    sizes[:1000] %= 20000
    chosen = selector.select_many([Instance(BCAST, JOB, int(m)) for m in sizes])
    expected = [found[int(np.searchsorted(starts, m, "right")) - 1].configuration for m in sizes]
    assert [s.configuration for s in chosen] == expected


def test_beyond_the_data_the_default_decides() -> None:
    """The last interval leaves what is larger than twice the largest measured to the library."""
    last = intervals(ModelSelector(BUNDLES["gam"], guard=False), BCAST, JOB)[-1]
    assert last.configuration == configuration("default")
    assert last.first_bytes == 2 * 4194304 + 1


def test_intervals_tell_prediction_and_reason() -> None:
    """Each interval has the times of its configuration and of the default, and why."""
    found = intervals(ModelSelector(BUNDLES["gam"]), BCAST, JOB)
    chosen = [i for i in found if not i.configuration.is_default]
    assert chosen
    for interval in chosen:
        assert interval.prediction is not None
        assert interval.default is not None
        assert interval.prediction.time_s < interval.default.time_s
        gain = interval.default.time_s / interval.prediction.time_s
        assert interval.reason == f"predicted {gain:.2f}x faster than the default"


def test_communicators_of_a_job() -> None:
    """Whole job, leaders, node, their halves, whole nodes in powers of two, and powers of two."""
    assert communicator_sizes(Shape(12, 4)) == (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
    assert communicator_sizes(Shape(34, 32))[-5:] == (272, 512, 544, 1024, 1088)
    assert communicator_sizes(Shape(1, 1)) == ()


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (48, [(12, 4)]),
        (12, [(3, 4), (12, 1)]),
        (4, [(1, 4), (4, 1)]),
        (24, [(6, 4), (12, 2)]),
        (32, [(8, 4)]),
        (3, [(1, 3), (3, 1)]),
        (47, []),
    ],
)
def test_layouts_use_fewest_and_most_nodes(size: int, expected: list[tuple[int, int]]) -> None:
    """Processes lie packed or spread, evenly; a size that cannot lie evenly has no layout."""
    assert layouts(size, JOB) == tuple(Shape(n, p) for n, p in expected)


@pytest.mark.parametrize("learner", BUNDLES)
def test_a_size_is_decided_only_where_its_layouts_agree(learner: str) -> None:
    """In every interval of every rule each layout's own choice is the rule's, or it is default."""
    selector = ModelSelector(BUNDLES[learner])
    table = decision_table(selector, JOB, [BCAST])
    assert set(table.rules) == {(BCAST, s) for s in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)}
    for (_, size), found in table.rules.items():
        assert adjacent(found)
        for interval in found:
            ends = [m for m in (interval.first_bytes, interval.last_bytes) if m is not None]
            asked = [Instance(BCAST, s, m) for s in layouts(size, JOB) for m in ends]
            own = {s.configuration for s in selector.select_many(asked)}
            assert interval.configuration.is_default or own == {interval.configuration}


def test_the_whole_job_has_its_own_intervals() -> None:
    """The rule for all processes is exactly that of the job's shape."""
    selector = ModelSelector(BUNDLES["gam"])
    table = decision_table(selector, JOB, [BCAST], comm_layouts=WHOLE)
    assert table.rules == {(BCAST, 48): intervals(selector, BCAST, JOB)}
    assert (table.library, table.shape) == ("openmpi", JOB)


def test_one_rule_for_all_sizes_is_never_slower() -> None:
    """Where one rule must do, what loses to the default at any size is not chosen."""
    selector = ModelSelector(BUNDLES["gam"])
    table = decision_table(selector, JOB, [GATHER], single_rule={GATHER}, comm_layouts=WHOLE)
    (interval,) = table.rules[GATHER, 48]
    assert interval == Interval(
        0,
        None,
        configuration("default", GATHER),
        reason="default kept: no single configuration is as fast at every size",
    )


def single(bundle_data: object, runs: Runs | None = None) -> Interval:
    """Return the single rule for the whole job from a bundle of the data."""
    bundle = fit(bundle_data, "gam", jobs=1)  # type: ignore[arg-type]
    selector = ModelSelector(bundle, runs=runs)
    table = decision_table(selector, JOB, [BCAST], single_rule={BCAST}, comm_layouts=WHOLE)
    (interval,) = table.rules[BCAST, 48]
    return interval


def test_one_rule_for_all_sizes_is_used_where_it_always_wins() -> None:
    """What is faster at every size is chosen for all, unless it is not allowed at one of them."""
    data = measured(msizes=(1, 16, 64, 256, 1024))
    interval = single(data)
    assert (interval.first_bytes, interval.last_bytes) == (0, None)
    assert interval.configuration == configuration("binomial")
    assert interval.reason.startswith("one for all sizes, predicted 1.")

    def large_only(candidate: Configuration, shapes: Sequence[Shape]) -> list[RunningRange]:
        return [RunningRange(2)] * len(shapes)

    assert single(data, large_only).configuration == configuration("default")


def test_one_rule_needs_the_default_to_compare_with() -> None:
    """If the default was not measured nothing is written for all sizes."""
    interval = single(measured(algorithms=("binomial", "linear")))
    assert interval.configuration == configuration("default")
    assert "it was not measured" in interval.reason


def test_merging_joins_equal_neighbours() -> None:
    """Neighbours with one configuration become one interval; others stay as they are."""
    default, chain = configuration("default"), configuration("chain")
    found = [
        Interval(0, 9, default, reason="a"),
        Interval(10, 19, default, reason="b"),
        Interval(20, 29, chain),
        Interval(30, None, default),
    ]
    assert merged(found) == (Interval(0, 19, default, reason="a"), *found[2:])


@pytest.mark.parametrize("learner", BUNDLES)
def test_each_layout_can_be_decided_by_itself(learner: str) -> None:
    """Layouts of one size get exactly the intervals of their own shape, the rules stay as such."""
    selector = ModelSelector(BUNDLES[learner])
    table = decision_table(selector, JOB, BOTH, by_layout=True)
    plain = decision_table(selector, JOB, BOTH)
    assert table.rules == plain.rules
    assert plain.by_layout == {}
    several = [lie for size in communicator_sizes(JOB) if len(lie := layouts(size, JOB)) > 1]
    assert set(table.by_layout) == {(c, s) for c in BOTH for lie in several for s in lie}
    for (collective, layout), found in table.by_layout.items():
        assert found == intervals(selector, collective, layout)


def test_without_descriptions_the_decisions_are_the_same() -> None:
    """A table that is not described has the same intervals without predictions and reasons."""
    selector = ModelSelector(BUNDLES["knn"])
    described = decision_table(selector, JOB, BOTH, by_layout=True)
    bare = decision_table(selector, JOB, BOTH, by_layout=True, describe=False)
    assert {k: _stripped(i) for k, i in described.rules.items()} == bare.rules
    assert {k: _stripped(i) for k, i in described.by_layout.items()} == bare.by_layout


def _stripped(found: Iterable[Interval]) -> tuple[Interval, ...]:
    return tuple(Interval(i.first_bytes, i.last_bytes, i.configuration) for i in found)


def test_one_choice_is_never_slower_anywhere() -> None:
    """A choice for everything is made only if it is predicted at least as fast everywhere."""
    data = measured(nodes=(1, 2, 4, 8, 16), ppn=(1, 2, 4), msizes=(1, 16, 64, 256, 1024))
    selector = ModelSelector(fit(data, "gam", jobs=1))
    table = single_algorithm_table(selector, JOB, [BCAST])
    assert list(table.rules) == [(BCAST, 48)]
    (interval,) = table.rules[BCAST, 48]
    everywhere = [
        Instance(BCAST, s, m)
        for size in communicator_sizes(JOB)
        for s in layouts(size, JOB)
        for m in (1, 16, 64, 256, 1024)
    ]
    model = selector.bundle.model(BCAST)
    nodes = [i.shape.nodes for i in everywhere]
    ppn = [i.shape.ppn for i in everywhere]
    forecast = model.forecast(nodes, ppn, [i.msize_bytes for i in everywhere])
    times = dict(zip(model.configurations, forecast.time_s.T, strict=True))
    never_slower = {c for c, t in times.items() if (t <= times[configuration("default")]).all()}
    assert interval.configuration in never_slower
    assert interval.configuration.is_default == (never_slower == {configuration("default")})


def _record(
    shape: Shape, first: int, last: int | None, configuration: Configuration
) -> Confirmation:
    status = Status.WITHDRAWN if configuration.is_default else Status.CONFIRMED
    return Confirmation(
        BCAST, shape, first, last, status, configuration, CHOSEN, 1.2, 1.1, 1.3, 1, "2026-11-22"
    )  # fmt: skip


CHOSEN = configuration("binomial")
DEFAULT = Configuration.default("openmpi", BCAST)


def test_what_was_measured_again_stands_by_itself() -> None:
    """Ranges with a record have its status and reason, also where a neighbour decides alike."""
    whole = ModelSelector(BUNDLES["gam"])
    records = [_record(JOB, 100, 999, CHOSEN), _record(JOB, 1000, 1999, DEFAULT)]
    selector = ModelSelector(BUNDLES["gam"].with_confirmations(records))
    found = intervals(selector, BCAST, JOB)
    told = {(i.first_bytes, i.last_bytes): i for i in found}
    assert told[100, 999].configuration == CHOSEN
    assert told[100, 999].status is Status.CONFIRMED
    assert told[100, 999].reason.startswith("measured 1.20x")
    assert told[1000, 1999].configuration == DEFAULT
    assert told[1000, 1999].status is Status.WITHDRAWN
    outside = [i for i in found if i.first_bytes < 100 or i.first_bytes > 1999]
    assert {i.status for i in outside} == {Status.PREDICTED}
    for interval in outside:
        before = whole.select(Instance(BCAST, JOB, interval.first_bytes))
        assert interval.configuration == before.configuration


def test_layouts_agree_though_only_one_was_measured_again() -> None:
    """A rule for several layouts goes by what is chosen, not by what that rests on."""
    job = Shape(4, 4)
    rule = layouts(4, job)
    assert len(rule) == 2
    plain = decision_table(ModelSelector(BUNDLES["gam"]), job, [BCAST]).rules[BCAST, 4]
    kept = next(i for i in plain if not i.configuration.is_default)
    record = _record(rule[1], kept.first_bytes, kept.last_bytes, kept.configuration)
    selector = ModelSelector(BUNDLES["gam"].with_confirmations([record]))
    again = decision_table(selector, job, [BCAST]).rules[BCAST, 4]
    assert merged(again) == merged(plain)


def test_one_for_all_sizes_is_no_more_where_a_size_was_withdrawn() -> None:
    """What was slower somewhere must not come back by a rule for all sizes."""
    bundle = fit(measured(msizes=(1, 16, 64, 256, 1024)), "gam", jobs=1)
    record = _record(JOB, 50, 100, DEFAULT)
    chosen = [
        decision_table(ModelSelector(one), JOB, [BCAST], single_rule={BCAST}, comm_layouts=WHOLE)
        for one in (bundle, bundle.with_confirmations([record]))
    ]
    (before,), (after,) = (table.rules[BCAST, 48] for table in chosen)
    assert before.configuration == CHOSEN
    assert after.configuration == DEFAULT


def _near_ties(twice: float) -> Bundle:
    """Return a bundle of two algorithms that are faster by turns, by 0.6 %, than each other."""
    data = measured(algorithms=("default", "linear", "binomial"), msizes=_MANY_SIZES)
    frame = data.frame.copy()
    turn = np.log2(frame["msize_bytes"].to_numpy()).astype(int) % 2
    second = (frame["algorithm"] == "linear").to_numpy()
    steps = np.where(frame["algorithm"] == "default", 2.0, 1 + (twice - 1) * (turn == second))
    frame["time_s"] = 1e-6 * frame["nodes"] * frame["ppn"] * (frame["msize_bytes"] + 99) * steps
    frame["times_s"] = [(t,) for t in frame["time_s"]]
    return fit(replace(data, frame=frame), jobs=1)


_MANY_SIZES = tuple(4**k for k in range(11)) + tuple(2 * 4**k for k in range(11))


def test_there_is_no_switch_between_near_ties() -> None:
    """One algorithm goes on where another is faster by less than 1 %, and not where by 20 %."""
    shape = Shape(4, 4)
    near, far = _near_ties(1.006), _near_ties(1.2)
    exact = intervals(ModelSelector(near, guard=False), BCAST, shape)
    found = intervals(ModelSelector(near), BCAST, shape)
    assert adjacent(found)
    assert len(found) < len(exact) / 2
    for interval in found[:-1]:
        assert interval.prediction is not None
        assert not interval.configuration.is_default
        assert "faster than the default" in interval.reason
    kept, every = (intervals(ModelSelector(far, guard=g), BCAST, shape) for g in (True, False))
    assert len(kept) > len(every) / 2 > 5


def _tied_within_bytes(seed: int) -> Bundle:
    """Return a bundle of two algorithms that scatter by 0.4 % around the same time."""
    data = measured(algorithms=("default", "linear", "binomial"), msizes=(16, 48, 80, 256, 4096))
    frame = data.frame.copy()
    slower = np.where(frame["algorithm"] == "default", 1.3, 1.0)
    scatter = np.random.default_rng(seed).lognormal(0, 0.004, len(frame))
    at_best_s = 1e-6 * frame["nodes"] * frame["ppn"] * (frame["msize_bytes"] + 99)
    frame["time_s"] = at_best_s * slower * scatter
    frame["times_s"] = [(t,) for t in frame["time_s"]]
    return fit(replace(data, frame=frame), jobs=1)


def test_near_ties_within_a_few_bytes_are_one_rule() -> None:
    """Where predictions change from byte to byte, 48 to 51 linear, the file says one algorithm."""
    shape, switched = Shape(4, 4), 0
    sizes = np.arange(4000)
    nodes = ppn = np.full(len(sizes), 4)
    for seed in range(5):
        selector = ModelSelector(_tied_within_bytes(seed))
        decided = selector.decide(BCAST, nodes, ppn, sizes)
        switched += int(np.count_nonzero(np.diff(decided.chosen)))
        first, beyond = intervals(selector, BCAST, shape)
        assert not first.configuration.is_default
        assert beyond.configuration.is_default
        column = selector.portfolio(BCAST).index(first.configuration)
        fastest_s = decided.rank_s[np.arange(len(sizes)), decided.chosen]
        assert (decided.rank_s[:, column] < 1.025 * fastest_s).all()
    assert switched >= 10
