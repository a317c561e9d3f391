"""What is measured first of what is asked."""

from __future__ import annotations

from dataclasses import replace

from colltune.bench.backends.replay import ReplayBackend
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Shape
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.mpi.programs import ANY_LEGAL
from colltune.verify.confirm import ToConfirm, proposals, unconfirmed, with_refuted
from tests.models.machines import MSIZES, configuration, measured

DEFAULT = Configuration.default("openmpi", Collective.BCAST)
REFUTED = Confirmation(
    Collective.BCAST, Shape(8, 4), 256, 1023, Status.WITHDRAWN, DEFAULT, configuration("binomial"),
    0.5, 0.45, 0.6, 0, "2026-11-23T00:00:00+00:00", 120,
)  # fmt: skip


def test_what_production_refuted_is_measured_first() -> None:
    """Before all else, also on shapes that nobody asked for, and inside its range; then by use."""
    unused = replace(REFUTED, shape=Shape(4, 4))
    bundle = fit(measured(), "knn").with_confirmations([REFUTED, unused])
    asked = [
        ToConfirm(Collective.BCAST, shape, MSIZES, weight)
        for shape, weight in ((Shape(8, 4), 2.0), (Shape(16, 4), 9.0))
    ]
    wanted = unconfirmed(bundle, with_refuted(bundle, asked))
    found = proposals(bundle, ReplayBackend(measured(msizes=(*MSIZES, 512))), wanted, ANY_LEGAL)
    by_weight = sorted(found, key=lambda contest: -contest.weight)
    assert [c.shape for c in by_weight[:2]] == [Shape(8, 4), Shape(4, 4)]
    assert all(256 <= c.instance.msize_bytes <= 1023 for c in by_weight[:2])
    assert configuration("binomial") in by_weight[0].candidates
    rest = [c for c in by_weight[2:] if c.shape != Shape(4, 4)]
    assert [c.shape for c in rest] == sorted((c.shape for c in rest), reverse=True)
    assert by_weight[2].shape == Shape(16, 4)


def test_what_was_measured_is_not_asked_again() -> None:
    """A withdrawal by `confirm` is one; one by production is measured, and then no more."""
    bundle = fit(measured(), "knn")
    asked = ToConfirm(Collective.BCAST, Shape(8, 4), (64, 512, 1024))
    for record, left in ((REFUTED, (64, 512, 1024)), (replace(REFUTED, jobs=0), (64, 1024))):
        [found] = unconfirmed(bundle.with_confirmations([record]), [asked])
        assert found.msizes_bytes == left
