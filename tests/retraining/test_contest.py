"""How a candidate and the bundle in force are judged, and what that means for promotion."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from colltune.dataset import PerformanceDataset, read_parquet
from colltune.dataset.objective import DEFAULT_OBJECTIVE
from colltune.domain import Collective, Context, Instance, Shape
from colltune.evaluation.folds import Fold, fold
from colltune.evaluation.recipes import FoldDecisions
from colltune.evaluation.scores import Difference
from colltune.evidence.components import level_of
from colltune.models.bundle import Bundle
from colltune.models.cells import CellMatrix, cell_matrices
from colltune.models.fitting import fit
from colltune.models.guard import Guard
from colltune.mpi.programs import ANY_LEGAL
from colltune.retraining.arrivals import Arrived
from colltune.retraining.contest import (
    IN_FORCE,
    Contest,
    Contestants,
    JudgedBundle,
    Measurements,
    Parts,
    contest,
    judge,
    judged,
)
from colltune.retraining.record import RetrainRecord, training_launches
from colltune.retraining.site_file import Thresholds
from tests.models.machines import measured
from tests.retraining.site import SHAPES, launch

_GUARD = Guard()


def _source(data: PerformanceDataset) -> Measurements:
    return Measurements(data, objective=DEFAULT_OBJECTIVE, judged_by=DEFAULT_OBJECTIVE)


def _contestants(data: PerformanceDataset) -> Contestants:
    return Contestants(_source(data), Parts(), "knn", _GUARD, jobs=1)


def test_no_candidate_wins_by_what_no_job_is_given(tmp_path: Path) -> None:
    """Neither may choose what harms the site's programs, however fast it was measured."""
    harmful, harmless = "scatter_allgather", "binomial"
    for k in range(2):
        launch(tmp_path, f"launch {k}", seed=k, factor=lambda a, _: 0.01 if a == harmful else 1.0)
    arrived = _arrived(tmp_path)
    names = {c.algorithm for c in arrived.dataset.configurations(Collective.BCAST)}
    assert {harmful, harmless} <= names
    old = fit(arrived.dataset, "knn", jobs=1)
    chosen = {}
    for programs in (None, ANY_LEGAL):
        of = _contestants(arrived.dataset)
        of = replace(of, source=replace(of.source, programs=programs))
        for known in (frozenset(arrived.tokens), frozenset[str]()):
            rival = judged(old, arrived, known, _GUARD, programs)
            found = contest(of, rival, "")
            assert found.defender is not None
            told = {*found.challenger.configuration, *found.defender.configuration}
            chosen[programs, bool(known)] = {one.split(".")[2] for one in told}
            assert (harmful in found.tested.best[0]) == (programs is None)
    assert harmful in chosen[None, True] & chosen[None, False]
    assert harmful not in chosen[ANY_LEGAL, True] | chosen[ANY_LEGAL, False]


def _arrived(folder: Path) -> Arrived:
    return Arrived(read_parquet(folder))


class _Watched(JudgedBundle):
    """Remembers what it was given to learn from."""

    def decide(self, context: Context, fold: Fold, jobs: int | None) -> FoldDecisions:
        seen = {(s.nodes, s.ppn) for s in (i.shape for i in fold.training.instances())}
        tested = {(s.nodes, s.ppn) for s in (i.shape for i in fold.testing.instances())}
        assert not seen & tested
        return super().decide(context, fold, jobs)


def test_equal_measurements_and_learners_decide_alike(tmp_path: Path) -> None:
    """A bundle in force that was made of the same data by the same learner is exactly as good."""
    for k in range(2):
        launch(tmp_path, f"launch {k}", seed=k)
    arrived = _arrived(tmp_path)
    bundle = fit(arrived.dataset, "knn", jobs=1)
    rival = judged(bundle, arrived, frozenset(arrived.tokens), _GUARD)
    found = contest(_contestants(arrived.dataset), rival, "")
    assert found.defender is not None
    assert found.challenger.configuration == found.defender.configuration
    assert {d.speedup for d in found.differences} == {1.0}
    assert judge(found, Thresholds(), bundle, bundle).promote


def test_the_bundle_in_force_is_not_flattered_by_shapes_it_has_seen(tmp_path: Path) -> None:
    """It decides what is held out without its own measurements of that, as the candidate does."""
    for k in range(2):
        launch(tmp_path, f"launch {k}", seed=k)
    arrived = _arrived(tmp_path)
    bundle = fit(arrived.dataset, "knn", jobs=1)
    cells = cell_matrices(arrived.dataset, DEFAULT_OBJECTIVE)
    scrambled = {
        c: replace(m, time_s=np.random.default_rng(0).permutation(m.time_s.T).T)
        for c, m in cells.items()
    }
    (own,) = cells.values()
    held_out = own.nodes == 4
    part = fold("4 nodes", own.rows(~held_out), own.rows(held_out), _source(arrived.dataset).noise)
    assert part is not None
    true, false = (
        JudgedBundle(
            bundle, {c: _mixed(m, scrambled[c], held_out) for c, m in cells.items()}, _GUARD
        )
        if scramble
        else JudgedBundle(bundle, cells, _GUARD)
        for scramble in (False, True)
    )
    chosen = [one.decide(arrived.dataset.context, part, 1).chosen for one in (true, false)]
    assert chosen[0] == chosen[1]


def _mixed(cells: CellMatrix, scrambled: CellMatrix, rows: NDArray[np.bool_]) -> CellMatrix:
    """Return cells whose times are scrambled in `rows`."""
    return replace(cells, time_s=np.where(rows[:, None], scrambled.time_s, cells.time_s))


def test_a_bundle_that_cannot_be_made_again_is_judged_as_it_is(tmp_path: Path) -> None:
    """Learners that this colltune lacks, or measurements that are gone, leave the bundle itself."""
    launch(tmp_path, "launch 0", seed=0)
    arrived = _arrived(tmp_path)
    bundle = fit(arrived.dataset, "knn", jobs=1)
    lost = replace(bundle, models=tuple(replace(m, learner="gone") for m in bundle.models))
    everything = frozenset(arrived.tokens)
    assert judged(bundle, arrived, everything, _GUARD).cells is not None
    assert judged(bundle, arrived, frozenset(), _GUARD).cells is None
    rival = judged(lost, arrived, everything, _GUARD)
    assert rival.cells is None
    found = contest(_contestants(arrived.dataset), rival, "as it is")
    assert found.in_force["all"].instances == len(SHAPES) * 3


def test_a_collective_that_is_new_is_the_defaults_until_now(tmp_path: Path) -> None:
    """What the bundle in force knows nothing of counts as left to the library."""
    launch(tmp_path, "launch 0", seed=0)
    bundle = fit(read_parquet(tmp_path), "knn", jobs=1)
    launch(tmp_path, "launch 1", seed=1, collectives=[Collective.SCAN])
    arrived = _arrived(tmp_path)
    rival = judged(bundle, arrived, frozenset(["launch 0"]), _GUARD)
    found = contest(_contestants(arrived.dataset), rival, "")
    assert found.in_force["scan"].default_share == 1.0
    assert found.in_force["bcast"].default_share < 1.0


@pytest.mark.parametrize(
    ("nodes", "ppn", "by"),
    [((2, 4, 8, 16), (1, 4), "nodes"), ((2, 4), (1, 4), "shapes"), ((4,), (1,), "msizes")],
)
def test_what_is_held_out_depends_on_what_there_is(
    nodes: tuple[int, ...], ppn: tuple[int, ...], by: str
) -> None:
    """Whole node counts where there are three, else shapes, else sizes; each instance once."""
    data = measured(nodes=nodes, ppn=ppn)
    folds: list[Fold] = Parts("nodes", 3).folds(_source(data))
    assert [f.name for f in folds] == [f"{by}, part {k} of 3" for k in (1, 2, 3)]
    tested = [i for f in folds for i in f.testing.instances()]
    (cells,) = cell_matrices(data, DEFAULT_OBJECTIVE).values()
    assert sorted(map(str, tested)) == sorted(map(str, cells.instances()))
    for one in folds:
        assert not set(one.training.instances()) & set(one.testing.instances())


def test_what_a_bundle_was_made_of_is_remembered_or_told_by_time(tmp_path: Path) -> None:
    """The record goes first, then the launches' time, then the bundle's own shapes."""
    early, late = "2000-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"
    for name, at, shapes in (("early", early, SHAPES), ("late", late, SHAPES[:2])):
        launch(tmp_path, name, seed=1, shapes=shapes, facts={"time_utc": at})
    timed = Arrived(
        read_parquet(tmp_path), {"early": {"time_utc": early}, "late": {"time_utc": late}}
    )
    bundle = fit(timed.of(["early"]), "knn", jobs=1)
    assert training_launches(bundle, timed, RetrainRecord()).launches == {"early"}
    told = RetrainRecord(bundles={bundle.id: (timed.tokens["late"], "0" * 16)})
    assert training_launches(bundle, timed, told).launches == {"late"}
    launch(tmp_path, "elsewhere", seed=2, shapes=[Shape(64, 1)])
    untimed = Arrived(read_parquet(tmp_path))
    assert training_launches(bundle, untimed, RetrainRecord()).launches == {"early", "late"}


def _difference(**facts: object) -> Difference:
    known: dict[str, object] = {
        "collective": "all",
        "instances": 40,
        "shapes": 10,
        "speedup": 1.0,
        "speedup_interval": (1.0, 1.0),
        "share": 0.0,
        "share_interval": (0.0, 0.0),
        "harm": 0.0,
        "harm_interval": (0.0, 0.0),
        "better": 0.0,
        "worse": 0.0,
    }
    return Difference(**{**known, **facts})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> tuple[Contest, Bundle]:
    """Return a contest between equals, and the bundle."""
    folder = tmp_path_factory.mktemp("even")
    launch(folder, "launch 0", seed=0)
    arrived = _arrived(folder)
    bundle = fit(arrived.dataset, "knn", jobs=1)
    rival = judged(bundle, arrived, frozenset(arrived.tokens), _GUARD)
    return contest(_contestants(arrived.dataset), rival, ""), bundle


@pytest.mark.parametrize(
    ("facts", "against"),
    [
        ({}, ""),
        ({"speedup": 1.05, "speedup_interval": (0.99, 1.1)}, ""),
        ({"speedup": 1.0, "speedup_interval": (0.95, 1.05)}, "its regret may be worse by 0.051"),
        ({"share": 0.1, "share_interval": (-0.06, 0.2)}, "its share of the possible gain may be"),
        ({"share": None, "share_interval": None}, ""),
        (
            {"harm": 0.01, "harm_interval": (0.0, 0.03)},
            "its harm may be worse by 0.030; the limit is 0.02",
        ),
        ({"harm": -0.1, "harm_interval": None}, ""),
        (
            {"shapes": 2, "speedup_interval": None, "share_interval": None, "harm_interval": None},
            "the comparison needs 3 shapes that are held out from both; there are 2",
        ),
        ({"collective": "scan", "shapes": 2, "speedup_interval": None}, ""),
        ({"collective": "scan", "speedup": 0.97, "speedup_interval": (0.9, 1.0)}, ""),
        (
            {"collective": "scan", "speedup": 0.9, "speedup_interval": (0.8, 0.97)},
            "scan: its regret is worse by 0.030",
        ),
        (
            {"collective": "scan", "harm": 0.1, "harm_interval": (0.03, 0.2)},
            "scan: its harm is worse by 0.030",
        ),
    ],
)
def test_a_candidate_must_be_shown_not_to_be_worse(
    facts: dict[str, object],
    against: str,
    even: tuple[Contest, Bundle],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all the worse end of an interval counts, of one collective the better end."""
    found, bundle = even
    monkeypatch.setattr(Contest, "differences", (_difference(**facts),))
    verdict = judge(found, Thresholds(), bundle, bundle)
    assert verdict.promote is (not against)
    assert verdict.text.startswith(against)


def test_attempts_share_the_level(even: tuple[Contest, Bundle]) -> None:
    """The same comparison has a wider interval at a later attempt, of all collectives together."""
    found, _ = even
    later = Contest(found.tested, found.challenger, found.defender, found.how, attempt=3)
    *parts, whole = found.differences
    *parts_later, whole_later = later.differences
    assert parts_later == parts
    assert whole.speedup_interval is not None
    assert whole_later.speedup_interval is not None
    assert whole_later.speedup_interval[0] <= whole.speedup_interval[0]
    assert math.fsum(map(level_of, range(1, 30))) == pytest.approx(0.05)


def test_harm_has_a_limit_of_its_own(even: tuple[Contest, Bundle]) -> None:
    """However bad the one in force is, a candidate that harms too often is kept back."""
    found, bundle = even
    slow = replace(found.challenger, selected_s=found.tested.default_s * 2.0)
    for in_force in (None, bundle):
        bad = Contest(found.tested, slow, slow if in_force else None, "")
        verdict = judge(bad, Thresholds(), bundle, in_force)
        assert not verdict.promote
        assert "100.0% of its held-out decisions are more than 5 % slower" in verdict.reasons[0]


def test_a_candidate_must_know_what_the_one_in_force_does(even: tuple[Contest, Bundle]) -> None:
    """Data that lost a collective makes no bundle that is promoted over one that has it."""
    found, bundle = even
    richer = replace(bundle, collectives=(*bundle.collectives, Collective.SCAN))
    verdict = judge(found, Thresholds(), bundle, richer)
    assert verdict.reasons == ("it has no models of scan, but the bundle in force has",)


def test_instances_are_held_out_from_both(tmp_path: Path) -> None:
    """No fold lets the bundle in force learn from a shape that it decides."""
    launch(tmp_path, "launch 0", seed=0)
    arrived = _arrived(tmp_path)
    bundle = fit(arrived.dataset, "knn", jobs=1)
    cells = cell_matrices(arrived.dataset, DEFAULT_OBJECTIVE)
    found = contest(_contestants(arrived.dataset), _Watched(bundle, cells, _GUARD), "")
    assert found.defender is not None
    assert IN_FORCE not in found.candidate
    assert len(found.tested) == len({Instance(Collective.BCAST, s, 1) for s in SHAPES}) * 3
