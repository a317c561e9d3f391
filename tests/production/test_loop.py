"""The judgement and what follows from it, together: jobs report until the registry has changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from colltune.decisions import Status
from colltune.domain import Shape
from colltune.models.guard import Guard
from colltune.production.consequences import Consequence, ConsequenceKind, act
from colltune.production.judgement import ProductionVerdict
from colltune.production.store import Store
from colltune.registry import Registry
from tests.models.machines import configuration
from tests.production.test_judgement import LARGE, SETTINGS, SLOT, SMALL, Bed, other


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    store = Store(str(tmp_path / "production.db"), tmp_path / "archive")
    yield Bed(store, Registry(tmp_path / "registry"))
    store.close()


def looked(bed: Bed, jobs: int = 40) -> list[Consequence]:
    """Let `jobs` run and report, judge them, and return what was done."""
    trial = bed.registry.trials().get(SLOT)
    bed.share = (trial.share or 0.0) if trial else 0.0
    bed.run(jobs)
    return list(act(bed.judged(), bed.registry, bed.settings, "the service", Guard()))


def test_a_slow_decision_is_withdrawn_and_nothing_else(bed: Bed) -> None:
    """Within 200 jobs, once, in its range alone; measured again, it is judged anew."""
    bed.ratio = {SMALL: 2.0, LARGE: 0.8}
    done: list[Consequence] = []
    while not done:
        assert bed.jobs < 200
        done = looked(bed)
    assert [one.kind for one in done] == [ConsequenceKind.WITHDRAWN]
    bundle = bed.registry.load(bed.registry.current()[SLOT].bundle_id)
    assert {(r.shape, r.first_bytes, r.last_bytes) for r in bundle.confirmations} == {
        (Shape(n, 4), 512, 1023) for n in (4, 5, 6, 7)
    }
    bed.ratio = {SMALL: 1.0, LARGE: 0.8}
    assert looked(bed, 150) == []
    proven = replace(
        bundle.confirmations[0],
        status=Status.CONFIRMED,
        configuration=configuration("binomial"),
        gain=1.3,
        lower=1.2,
        upper=1.4,
        launches=2,
        jobs=0,
        measured_utc="2030-01-01T00:00:00+00:00",
    )
    bed.registry.promote(bed.registry.add(bundle.with_confirmations([proven])), by="confirm")
    bed.ratio = {SMALL: 0.77, LARGE: 0.8}
    assert looked(bed, 150) == []
    verdicts = {f.range.first_bytes: f.verdict for f in bed.judged().findings}
    assert verdicts == {SMALL: ProductionVerdict.PROVEN, LARGE: ProductionVerdict.PROVEN}


@pytest.mark.parametrize(
    ("small", "ends"),
    [(0.7, [ConsequenceKind.STEP, ConsequenceKind.PROMOTED]), (1.2, [ConsequenceKind.STOPPED])],
)
def test_a_trial_ends_by_itself(bed: Bed, small: float, ends: list[ConsequenceKind]) -> None:
    """A harmless one goes through all steps and comes into force; a harmful one is stopped."""
    bed.settings = replace(SETTINGS, jobs_per_step=40, steps=(0.3, 0.5, 1.0))
    new = bed.registry.add(other())
    bed.candidate = {SMALL: small, LARGE: 0.8}
    bed.registry.step(new, 0.3, by="night")
    kinds: list[ConsequenceKind] = []
    while bed.registry.trials():
        assert bed.jobs < 1500
        kinds += [one.kind for one in looked(bed, 100)]
    assert kinds == ends
    is_new = bed.registry.current()[SLOT].bundle_id == new
    assert is_new == (ends[-1] is ConsequenceKind.PROMOTED)
