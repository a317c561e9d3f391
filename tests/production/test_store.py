"""The store of what jobs report: each once, judged once, merged by day, whatever is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.production.store import Asked, Store
from tests.production.summaries import SUMMARY

DAY = 86400.0
NOW = 1_793_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(str(tmp_path / "production.db"), tmp_path / "archive")
    yield found
    found.close()


def test_a_job_counts_once(store: Store) -> None:
    """What was acknowledged is known, in the order of receipt, as it was."""
    assert [store.add(replace(SUMMARY, job=job), NOW) for job in ("7", "5", "7")] == [
        True,
        True,
        False,
    ]
    with store.judging(NOW) as judging:
        assert judging is not None
        assert [(one.number, one.summary.job) for one in judging.new()] == [(1, "7"), (2, "5")]
        assert judging.new()[0].summary == replace(SUMMARY, job="7")


def test_jobs_that_were_given_an_arm_are_added_up_by_day(store: Store) -> None:
    """Counts of several processes add up, and older days are left out."""
    old, new = (Asked(day, "openmpi-4.1.4", "tuned", "ab") for day in ("2026-09-01", "2026-11-01"))
    store.note_asked(Counter({old: 2, new: 3}))
    store.note_asked(Counter({new: 1}))
    assert store.asked(NOW - 30 * DAY) == {new: 4}
    assert store.asked(0) == {old: 2, new: 4}
