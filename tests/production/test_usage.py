"""What a site's jobs spend in collectives, as one profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from colltune.domain import Collective, Shape
from colltune.errors import SiteError
from colltune.production.arms import Production
from colltune.production.payback import usage
from colltune.production.store import Store
from colltune.production.summary import parse_summary, text_of
from tests.dataset.profiles import profile_text, row
from tests.production.summaries import HEAD
from tests.refusals import refused

SLOT, DAY_S, NOW = "openmpi-4.1.4", 86400.0, 1_795_000_000.0
PROFILE = profile_text(
    [row("bcast", "8x4", 512, 100, 1e-3), row("allreduce", "8x4", 64, 300, 1e-3)], world="32 8x4"
)


@pytest.fixture
def settings(tmp_path: Path) -> Production:
    return Production(record=True, store=str(tmp_path / "p.db"), archive=tmp_path / "days")


def reported(settings: Production, *jobs: str) -> Store:
    """Let `jobs` report."""
    store = Store(settings.store, settings.archive)
    for job in jobs:
        store.add(parse_summary(text_of(replace(HEAD, job=job), [PROFILE])), NOW)
    return store


def test_days_and_newest_reports_tell_node_seconds(settings: Production) -> None:
    """The longest comes first, in seconds of nodes, and merging the days changes nothing."""
    assert usage(settings, SLOT) is None
    store = reported(settings, "1", "2")
    fresh = usage(settings, SLOT)
    store.split_since(0.05, NOW)
    with store.judging(NOW) as judging:
        assert judging is not None
        judging.done(max(stored.number for stored in judging.new()))
    store.merge_days(NOW + 10 * DAY_S)
    assert not list(store.newest())
    merged = usage(settings, SLOT)
    store.close()
    for found in (fresh, merged):
        assert found is not None
        told = [(u.kind.collective, u.kind.shape, u.kind.first_bytes) for u in found.uses]
        shape = Shape(8, 4)
        assert told == [(Collective.ALLREDUCE, shape, 64), (Collective.BCAST, shape, 512)]
        # two jobs of 32 processes, four to a node, each 300 and 100 calls of 1 ms
        assert [u.process_s for u in found.uses] == pytest.approx([4.8, 1.6])
        assert all(u.least_bytes <= u.msize_bytes <= u.most_bytes for u in found.uses)
    assert usage(settings, SLOT, NOW + 20 * DAY_S) is None
    assert usage(settings, "openmpi-5.0.8") is None


def test_a_site_that_records_nothing_says_how_to(settings: Production) -> None:
    """The error names the line."""
    with refused("not-recorded", SiteError):
        usage(replace(settings, record=False), SLOT)
