"""When a campaign pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from colltune.errors import DataError
from colltune.production.arms import Production
from colltune.production.payback import (
    MONTH_HOURS,
    SHARE,
    Load,
    Machine,
    load_of,
    machines,
    parse_share,
    payback,
    recorded,
)
from colltune.production.store import Store
from colltune.production.summary import parse_summary, text_of
from colltune.selector.demand import Demand
from tests.dataset.profiles import profile_text, row
from tests.production.summaries import HEAD
from tests.refusals import refused

NOW, DAY = 1_795_600_000.0, 86400.0
TWICE = (Machine("m", "l", 10, gain=2.0, lower=2.0, upper=2.0),)
NOTHING = (Machine("m", "l", 10, gain=1.0, lower=1.0, upper=1.0),)
ASKED = [
    Demand("openmpi", "5.0.8", nodes=4, ppn=8, count=30),
    Demand("openmpi", "5.0.8", nodes=1, ppn=8, count=40),
    Demand("mpich", "4.3.0", nodes=2, ppn=8, count=20),
]


def test_units() -> None:
    """Twice as fast in a tenth of 1,000 node-hours saves 50 of them; 100 pay after two months."""
    found = payback(100, Load((1000, 1000), (0.1, 0.1)), TWICE)
    assert found.saving_node_hours_per_month is not None
    assert found.days is not None
    assert found.node_hours_to_pay is not None
    assert found.saving_node_hours_per_month.expected == pytest.approx(50)
    assert found.days.expected == pytest.approx(2 * MONTH_HOURS / 24)
    assert found.node_hours_to_pay.expected == pytest.approx(2000)
    assert "measuring costs 100 node-hours; saves 50 (50 to 50) node-hours a month" in found.text


@pytest.mark.parametrize(
    ("load", "corpus"),
    [
        (Load((1000, 1000)), NOTHING),
        (Load(None), NOTHING),
        (Load((1000, 1000), (0, 0)), TWICE),
        (Load((0, 0)), TWICE),
    ],
)
def test_what_saves_nothing_does_not_pay(load: Load, corpus: tuple[Machine, ...]) -> None:
    """No gain, no time in collectives or no jobs: it says so, and names no day."""
    found = payback(100, load, corpus)
    assert found.days is None
    assert "does not pay" in found.text


def test_without_node_hours_it_says_how_many_it_takes() -> None:
    """Where nothing is known of the jobs, no saving in a month is invented."""
    found = payback(100, load_of(), TWICE)
    assert found.saving_node_hours_per_month is None
    assert found.days is None
    assert "it pays once tuned jobs took" in found.text
    assert "node-hours of jobs unknown" in found.basis
    assert "assumed to be 5 to 20 %" in found.basis


def test_a_machine_that_gains_nothing_means_perhaps_never() -> None:
    """One of the shipped machines gained nothing, so the interval has no upper end."""
    found = payback(48, load_of(node_hours=20_000))
    assert found.days is not None
    assert found.days.upper is None
    assert 0 < found.days.lower < found.days.expected
    assert "to never)" in found.text
    assert "MareNostrum 5: nothing" in found.basis


def test_the_same_seed_gives_the_same_figures() -> None:
    """A plan that is printed twice says the same."""
    load = load_of(node_hours=20_000)
    assert payback(48, load) == payback(48, load)
    assert payback(48, load) != payback(48, load, seed=1)


def test_demand_counts_where_it_would_be_tuned() -> None:
    """Of 200 nodes that were asked for, 120 were for this release on two nodes or more."""
    releases = [("openmpi", "5.0.8")]
    given = load_of(node_hours=1000, demand=ASKED, demand_hours=99, releases=releases)
    assert given.node_hours == pytest.approx((600, 600))
    counted = load_of(demand=ASKED, demand_hours=MONTH_HOURS / 2, releases=releases)
    assert counted.node_hours == pytest.approx((0.25 * 240, 4 * 240))
    none = load_of(demand=ASKED, demand_hours=99, releases=[("openmpi", "4.1.6")])
    assert "does not pay" in payback(48, none).text


def test_a_profile_tells_the_share_unless_the_user_does() -> None:
    """What the user says comes first, then the profile, then the assumption."""
    assert load_of(share=(0.3, 0.4), profiled=0.1).share == (0.3, 0.4)
    assert load_of(profiled=0.1).share == (0.1, 0.1)
    assert load_of().share == SHARE


def test_shares_are_written_in_percent() -> None:
    """A range, or one number, of 0 to 100."""
    assert parse_share("5-20") == pytest.approx((0.05, 0.2))
    assert parse_share("12 %") == pytest.approx((0.12, 0.12))
    for wrong in ("", "a", "20-5", "101", "-3", "nan", "1-2-3"):
        with refused("malformed", DataError):
            parse_share(wrong)


def test_the_machines_that_ship_are_those_of_the_manual() -> None:
    """Each has a gain within its interval."""
    assert [machine.name for machine in machines()] == [
        "Leonardo",
        "Fugaku",
        "LUMI",
        "MareNostrum 5",
    ]
    assert all(0 < m.lower <= m.gain <= m.upper for m in machines())


def test_what_jobs_reported_goes_before_assumptions(tmp_path: Path) -> None:
    """Node-hours in collectives of whole days count, on several nodes and of the release alone."""
    settings = Production(
        record=True, store=str(tmp_path / "production.db"), archive=tmp_path / "archive"
    )
    releases = [("openmpi", "5.0.8")]
    assert recorded(settings, releases, NOW) is None
    store = Store(settings.store, settings.archive)
    jobs = [("4x2", "5.0.8"), ("4x2", "5.0.8"), ("1x8", "5.0.8"), ("4x2", "4.1.6")]
    for number, (layout, release) in enumerate(jobs):
        head = {"library": f"openmpi {release}", "world": f"8 {layout}"}
        profile = profile_text([row("bcast", layout, 512, 900, 1.0)], **head)
        store.add(parse_summary(text_of(replace(HEAD, job=str(number)), [profile])), NOW - 6 * DAY)
    with store.judging(NOW) as judging:
        assert judging is not None
        judging.done(max(stored.number for stored in judging.new(10)))
    store.merge_days(NOW)
    store.close()
    found = recorded(settings, releases, NOW)
    # two jobs whose four nodes are in collectives for a quarter of an hour, on the one day
    assert found == pytest.approx(2 * MONTH_HOURS / 24)
    load = load_of(recorded=found, releases=releases)
    assert load.share == (1, 1)
    assert load_of(recorded=found, node_hours=500.0).node_hours == (500.0, 500.0)
