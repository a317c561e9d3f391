"""Whole nights on a made-up site: what is promoted, what is kept, and what is noticed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from colltune import errors
from colltune.bench.backends.replay import ReplayBackend
from colltune.cli.retrain import lines
from colltune.dataset.parquet import put, read_parquet
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.errors import BundleError, DataError, OutputError
from colltune.json_text import encoded
from colltune.models.confirmations import Confirmation
from colltune.models.fitting import fit
from colltune.models.learners import knn
from colltune.mpi.programs import SAME_TYPES
from colltune.registry import Action, Registry
from colltune.retraining import backfill
from colltune.retraining.lease import LeaseTakenError, held
from colltune.retraining.site_file import RunOutcome
from colltune.selector.demand import DemandLog
from tests.cli.conftest import described
from tests.refusals import refused
from tests.retraining.site import CONTEXT, SHAPES, launch, retrain, site_of

SLOT = "openmpi-4.1.4"


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of two sites with three launches: one is ``new``, one is ``retrained``."""
    folder = tmp_path_factory.mktemp("sites")
    for k in range(3):
        launch(folder / "new" / "data", f"launch {k}", seed=k)
    shutil.copytree(folder / "new", folder / "retrained")
    retrain(site_of(folder / "retrained"))
    return folder


@pytest.fixture
def root(sites: Path, tmp_path: Path) -> Path:
    """Return a site's folder with three launches."""
    return shutil.copytree(sites / "new", tmp_path / "site")


@pytest.fixture
def retrained(sites: Path, tmp_path: Path) -> Path:
    """Return such a folder after a first night."""
    return shutil.copytree(sites / "retrained", tmp_path / "site", symlinks=True)


def _in_force(root: Path) -> str | None:
    event = Registry(root / "registry").current().get(SLOT)
    return None if event is None else event.bundle_id


def _misleading(algorithm: str, instance: Instance) -> float:
    """Make a bad algorithm look good where the others are not measured beside it."""
    del instance
    return 0.01 if algorithm == "linear" else 30.0


def test_the_first_bundle_comes_into_force_and_the_same_data_again_change_nothing(
    root: Path,
) -> None:
    """A first night promotes; a second finds nothing new, writes nothing, and says so by status."""
    first = retrain(site_of(root))
    assert (first.outcomes, first.exit_status) == ((RunOutcome.PROMOTED,), 0)
    promoted = _in_force(root)
    assert promoted == first.results[0].candidate
    before = sorted(p.name for p in (root / "registry").rglob("*") if "retraining" not in p.parts)
    second = retrain(site_of(root))
    assert (second.outcomes, second.exit_status) == ((RunOutcome.NOTHING_NEW,), errors.NOTHING_NEW)
    assert _in_force(root) == promoted
    after = sorted(p.name for p in (root / "registry").rglob("*") if "retraining" not in p.parts)
    assert after == before


def test_new_measurements_make_a_new_bundle(root: Path) -> None:
    """What came in is learned; the report says how both decide, and remembers every launch."""
    first = retrain(site_of(root))
    launch(root / "data", "launch 3", seed=3)
    second = retrain(site_of(root))
    result = second.results[0]
    assert result.outcome is RunOutcome.PROMOTED
    assert (result.was_in_force, result.in_force) == (first.results[0].in_force, _in_force(root))
    assert result.new_measurements == len(read_parquet(root / "data")) - len(
        first.results[0].arrived.dataset
    )
    assert result.comparison is not None
    assert result.comparison.how == "fitted again to the measurements that it was fitted to"
    report = Registry(root / "registry").latest_report("retrain")
    assert report is not None
    assert len(report["slots"][SLOT]["launches"]) == 4
    assert {len(tokens) for tokens in report["bundles"].values()} == {3, 4}
    described(("site", "retrain"), encoded(second))


def test_few_new_measurements_are_waited_for_until_there_are_enough(root: Path) -> None:
    """Less than the least is not fitted, and adds up until it is enough."""
    site = site_of(root, "[promote]\nharm_at_most = 0.5\n")
    retrain(site)
    few = replace(site, min_new=100)
    retrain(few)
    launch(root / "data", "launch 3", seed=3, shapes=SHAPES[:4])
    night = retrain(few)
    assert night.exit_status == errors.NOTHING_NEW
    assert night.results[0].reason == "there are 48 new measurements, fewer than the minimum of 100"
    launch(root / "data", "launch 4", seed=4, shapes=SHAPES)
    night = retrain(few)
    assert night.results[0].new_measurements == 144
    assert night.outcomes == (RunOutcome.PROMOTED,)


def test_a_worse_candidate_is_kept_back(retrained: Path) -> None:
    """Measurements that mislead make a candidate that loses: it is kept, but not in force."""
    before = _in_force(retrained)
    for k in range(4):
        name, seed = f"bad {k}", 10 + k
        shapes = [Shape(3 + 2 * k, 3)]
        launch(retrained / "data", name, seed=seed, shapes=shapes, factor=_misleading)
    site = site_of(retrained, '[evaluate]\nheld_out = "shapes"\n[drift]\nratio = 100\n')
    site = replace(site, programs=SAME_TYPES)
    night = retrain(site)
    result = night.results[0]
    assert (night.outcomes, night.exit_status) == ((RunOutcome.KEPT,), errors.KEPT)
    assert "worse by" in result.reason or "slower than the default" in result.reason
    assert _in_force(retrained) == before
    assert result.candidate in Registry(retrained / "registry").ids()
    again = retrain(site)
    assert again.exit_status == errors.NOTHING_NEW


def test_in_shadow_nothing_is_promoted(retrained: Path) -> None:
    """A shadow night adds the candidate and tells what would change, with figures of both."""
    before = _in_force(retrained)
    launch(retrained / "data", "launch 3", seed=3)
    night = retrain(site_of(retrained, "[promote]\nshadow = true\n"))
    result = night.results[0]
    assert (night.outcomes, night.exit_status) == ((RunOutcome.SHADOW,), 0)
    assert _in_force(retrained) == before
    assert result.candidate in Registry(retrained / "registry").ids()
    assert result.candidate != before
    assert "compared only; it would be promoted" in result.reason
    assert result.comparison is not None
    assert result.comparison.in_force["all"].instances == 24
    assert set(result.changes["changed"]) == {"bcast"}


def test_each_release_has_its_own_bundle(root: Path) -> None:
    """Libraries that share a folder are retrained apart; what fails for one leaves the other be."""
    other = replace(CONTEXT, library="mpich", library_version="4.2.0")
    launch(root / "data", "mpich 0", seed=7, context=other)
    lame = replace(CONTEXT, library_version="5.0.8")
    launch(root / "data", "lame", seed=8, context=lame, algorithms=["linear"])
    night = retrain(site_of(root))
    outcomes = {result.slot: result.outcome for result in night.results}
    assert outcomes == {
        SLOT: RunOutcome.PROMOTED,
        "mpich-4.2.0": RunOutcome.PROMOTED,
        "openmpi-5.0.8": RunOutcome.KEPT,
    }
    assert set(Registry(root / "registry").current()) == {SLOT, "mpich-4.2.0"}
    assert "cannot be judged: the split parts leaves nothing" in night.results[-1].reason


def test_a_collective_that_cannot_be_fitted_is_left_out(
    retrained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a learner makes nothing of one collective, the others are learned, and it is told."""
    before = _in_force(retrained)
    fit_one = knn.fit

    def picky(features: np.ndarray, times_s: np.ndarray) -> knn.Neighbours:
        if len(times_s) < 5:
            raise ValueError("too few cells")
        return fit_one(features, times_s)

    monkeypatch.setattr(knn, "fit", picky)
    launch(
        retrained / "data", "one cell", seed=9, collectives=[Collective.SCAN], shapes=[Shape(2, 1)]
    )
    launch(retrained / "data", "launch 3", seed=3)
    night = retrain(site_of(retrained))
    assert night.outcomes == (RunOutcome.PROMOTED,)
    assert list(night.results[0].unfitted) == ["scan"]
    assert "too few cells" in "\n".join(lines(night))
    assert _in_force(retrained) != before


def test_a_bundle_that_was_rolled_back_is_not_brought_back(retrained: Path) -> None:
    """What somebody took out of force stays out, until new measurements make another bundle."""
    launch(retrained / "data", "launch 3", seed=3)
    retrain(site_of(retrained))
    registry = Registry(retrained / "registry")
    registry.rollback(SLOT, by="root", note="jobs were slow")
    before = _in_force(retrained)
    night = retrain(site_of(retrained))
    assert night.exit_status == errors.KEPT
    assert "root rolled this bundle back" in night.results[0].reason
    assert _in_force(retrained) == before
    launch(retrained / "data", "launch 4", seed=4)
    assert retrain(site_of(retrained)).outcomes == (RunOutcome.PROMOTED,)


def test_where_production_is_recorded_a_candidate_is_tried(retrained: Path) -> None:
    """It begins at the first step; until the trial ends new measurements wait; harm is final."""
    site = site_of(retrained, "[production]\nrecord = true\nsteps = [0.1, 1.0]\n")
    registry, before = Registry(retrained / "registry"), _in_force(retrained)
    launch(retrained / "data", "launch 3", seed=3)
    night = retrain(site)
    trial = registry.trials()[SLOT]
    assert (night.outcomes, night.exit_status) == ((RunOutcome.TRIAL,), 0)
    assert (trial.bundle_id, trial.share) == (night.results[0].candidate, 0.1)
    assert _in_force(retrained) == before == night.results[0].in_force
    assert retrain(site).outcomes == (RunOutcome.NOTHING_NEW,)
    launch(retrained / "data", "launch 4", seed=4)
    waiting = retrain(site)
    assert waiting.outcomes == (RunOutcome.TRIAL,)
    assert "is on trial with 10% of the jobs since" in waiting.results[0].reason
    assert registry.trials() == {SLOT: trial}
    registry.stop(SLOT, by="the service", note="slower")
    assert retrain(site).outcomes == (RunOutcome.TRIAL,)
    second = registry.trials()[SLOT].bundle_id
    assert second != trial.bundle_id
    registry.promote(second, by="the service")
    assert retrain(site).outcomes == (RunOutcome.NOTHING_NEW,)


def test_a_trial_that_was_stopped_does_not_begin_again(retrained: Path) -> None:
    """A candidate whose trial ended for harm is kept back with the reason."""
    site = site_of(retrained, "[production]\nrecord = true\n")
    launch(retrained / "data", "launch 3", seed=3)
    retrain(site)
    registry = Registry(retrained / "registry")
    registry.stop(SLOT, by="the service", note="1.4 times slower")
    night = retrain(replace(site, min_new=2))
    assert night.outcomes == (RunOutcome.KEPT,)
    assert "the service ended its trial" in night.results[0].reason
    assert "1.4 times slower" in night.results[0].reason


def test_the_first_bundle_of_a_recorded_site_is_promoted(root: Path) -> None:
    """Where nothing is in force there is nothing to try it against."""
    night = retrain(site_of(root, "[production]\nrecord = true\n"))
    assert night.outcomes == (RunOutcome.PROMOTED,)


def test_a_bundle_promoted_by_hand_is_compared(root: Path) -> None:
    """Of a bundle that was fitted by hand, its measurements are told by time, or else by shape."""
    (root / "registry").mkdir()
    registry = Registry(root / "registry")
    registry.promote(registry.add(fit(read_parquet(root / "data"), "knn")), by="root")
    same = retrain(site_of(root))
    assert same.results[0].reason == "the bundle in force was fitted to these measurements already"
    registry.promote(registry.add(fit(read_parquet(root / "data"), "gam")), by="root")
    launch(root / "data", "elsewhere", seed=3, shapes=[Shape(6, 1)])
    night = retrain(site_of(root))
    assert night.results[0].comparison is not None
    assert night.results[0].comparison.how == "fitted again to the measurements on its own shapes"


def test_a_tampered_bundle_in_force_is_left_to_people(retrained: Path) -> None:
    """If what is in force does not fit its hashes, nothing is promoted over it, as is told."""
    before = _in_force(retrained)
    arrays = retrained / "registry" / "bundles" / str(before) / "bcast.arrays"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    for new in ([], ["launch 3"]):
        for name in new:
            launch(retrained / "data", name, seed=3)
        night = retrain(site_of(retrained))
        assert (night.outcomes, night.exit_status) == (
            (RunOutcome.FAILED,),
            BundleError.exit_status,
        )
        assert "bcast.arrays: cut short or damaged" in night.results[0].reason
        assert _in_force(retrained) == before


def test_data_of_another_machine_is_left_out(root: Path) -> None:
    """Measurements of another machine are named and not learned; without others it ends."""
    alone = retrain(site_of(root)).results[0].candidate
    launch(root / "data", "stray", seed=5, context=replace(CONTEXT, machine="elsewhere"))
    night = retrain(site_of(root))
    assert night.exit_status == errors.NOTHING_NEW
    assert "measured on elsewhere, not on made-up" in night.left_out[0]
    assert _in_force(root) == alone
    with refused("no-measurements-of", DataError, machine="jupiter"):
        retrain(site_of(root), machine="jupiter")


def test_the_registry_of_another_machine_is_refused(root: Path) -> None:
    """Where bundles of another machine are in force, nothing is compared with them."""
    other = replace(CONTEXT, machine="elsewhere")
    launch(root / "other", "there", seed=5, context=other)
    (root / "registry").mkdir()
    registry = Registry(root / "registry")
    registry.promote(registry.add(fit(read_parquet(root / "other"), "knn")), by="root")
    night = retrain(site_of(root))
    assert night.exit_status == BundleError.exit_status
    assert ". Use one registry per machine." in night.results[0].reason


def test_a_damaged_file_does_not_keep_the_others_from_being_learned(root: Path) -> None:
    """A cut file is named and left out; nothing but damaged files is an error."""
    whole = sorted((root / "data").glob("*.parquet"))
    cut = root / "data" / "cut.parquet"
    cut.write_bytes(whole[0].read_bytes()[:300])
    (root / "data" / "text.parquet").write_text("no Parquet")
    night = retrain(site_of(root))
    assert night.outcomes == (RunOutcome.PROMOTED,)
    assert [name.split(": ")[0].rpartition("/")[2] for name in night.left_out] == [
        "cut.parquet",
        "text.parquet",
    ]
    for path in whole:
        path.unlink()
    with refused("no-measurements-of", DataError):
        retrain(site_of(root))


def test_wrong_paths_and_empty_data_are_explained(root: Path) -> None:
    """Missing or empty data and a missing registry end the run with a name, and change nothing."""
    (root / "empty").mkdir()
    site = site_of(root)
    for place, code in (("none", "no-such-data"), ("empty", "no-measurements-of")):
        with refused(code, DataError):
            retrain(site, datasets=(str(root / place),))
    with refused("no-registry-here", BundleError, what="no such registry"):
        retrain(site, registry=str(root / "nowhere"))
    assert not (root / "nowhere").exists()


def test_a_change_of_the_machine_is_told_whatever_is_promoted(root: Path) -> None:
    """Launches 1.5x as slow are drift: the status says so, and the service finds it in a report."""
    for k in range(3, 8):
        launch(root / "data", f"launch {k}", seed=k)
    retrain(site_of(root))
    for k in range(8):
        launch(root / "data", f"slow {k}", seed=20 + k, factor=lambda _a, _i: 1.5)
    night = retrain(site_of(root))
    assert night.exit_status == errors.DRIFT
    assert RunOutcome.DRIFT in night.outcomes
    report = Registry(root / "registry").latest_report("drift")
    assert report is not None
    assert report["alarm"] is True
    assert 1.3 < report["slots"][SLOT]["ratio"] < 1.7


def test_somebody_who_promotes_meanwhile_wins(
    retrained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that came into force while the candidate was judged is not replaced unjudged."""
    launch(retrained / "data", "launch 3", seed=3)
    registry = Registry(retrained / "registry")
    other = registry.add(fit(read_parquet(retrained / "data"), "knn"))
    add = Registry.add

    def promote_another(self: Registry, bundle: object) -> str:
        registry.promote(other, by="root")
        return add(self, bundle)  # type: ignore[arg-type]

    monkeypatch.setattr(Registry, "add", promote_another)
    night = retrain(site_of(retrained))
    assert night.outcomes == (RunOutcome.KEPT,)
    assert "expected in force" in night.results[0].reason
    assert _in_force(retrained) == other


def test_a_full_disk_leaves_the_old_bundle(
    retrained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the candidate cannot be written the run ends with that, and the next one mends it."""
    before = _in_force(retrained)
    launch(retrained / "data", "launch 3", seed=3)
    with monkeypatch.context() as full:
        full.setattr("colltune.registry.store._write_synced", _no_space)
        with refused("cannot-write", OutputError):
            retrain(site_of(retrained))
    assert _in_force(retrained) == before
    assert retrain(site_of(retrained)).outcomes == (RunOutcome.PROMOTED,)
    actions = [event.action for event in Registry(retrained / "registry").history()]
    assert actions == [Action.PROMOTE, Action.PROMOTE]


def _no_space(path: Path, content: bytes) -> None:
    del content
    raise OSError(28, "No space left on device", str(path))


def test_a_site_in_an_object_store_is_retrained_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registry and measurements behind URLs: one night promotes, the next finds nothing new."""
    pytest.importorskip("fsspec")
    monkeypatch.setenv("COLLTUNE_CACHE", str(tmp_path / "cache"))
    path = launch(tmp_path / "data", "launch 0", seed=0)
    bucket = "memory://retraining-site"
    store = Registry(f"{bucket}/registry").store
    store.create("work/made", b"")
    put(f"{bucket}/data", path.name, path.read_bytes())
    site = replace(site_of(tmp_path), registry=f"{bucket}/registry", datasets=(f"{bucket}/data",))
    first = retrain(site)
    assert first.outcomes == (RunOutcome.PROMOTED,)
    current = Registry(f"{bucket}/registry").current()
    assert current[SLOT].bundle_id == first.results[0].candidate
    with held(store), pytest.raises(LeaseTakenError):
        retrain(site)
    assert retrain(site).exit_status == errors.NOTHING_NEW


def test_what_was_confirmed_stays_so_unless_new_measurements_contradict(retrained: Path) -> None:
    """A refit carries records over; one that the machine disagrees with by now is dropped."""
    registry = Registry(retrained / "registry")
    shape = Shape(8, 4)
    chosen = Configuration("openmpi", Collective.BCAST, "scatter_allgather")
    won = Confirmation(
        Collective.BCAST, shape, 200000, None, Status.CONFIRMED, chosen, chosen,
        1.5, 1.4, 1.6, 2, "2026-11-22",
    )  # fmt: skip
    wrong = replace(won, first_bytes=0, last_bytes=199999)
    bundle = registry.load(str(_in_force(retrained))).with_confirmations([won, wrong])
    registry.add(bundle)
    registry.promote(bundle.id, by="ann", note="confirmed")
    launch(retrained / "data", "launch 3", seed=3)
    (result,) = retrain(site_of(retrained)).results
    assert result.candidate is not None
    assert registry.load(result.candidate).confirmations == (won,)


_CONFIRM = (
    '[backfill]\ndemand = "demand"\ncampaigns = "campaigns"\nconfirm = "10m"\n'
    'measurements = "data"\n'
)


def _asked(root: Path) -> None:
    log = DemandLog(root / "demand")
    log.note("openmpi", "4.1.4", Shape(8, 4), 7)
    log.flush()


def test_what_jobs_ask_for_is_confirmed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with nodes measures it, promotes what that makes, and does it once."""
    _asked(root)
    recorded = read_parquet(root / "data")
    monkeypatch.setattr(backfill, "backend_for", lambda *_: ReplayBackend(recorded))
    (result,) = retrain(site_of(root, _CONFIRM)).results
    assert result.confirmed["confirmed"] > 0
    assert result.in_force == _in_force(root) != result.candidate
    records = Registry(root / "registry").load(str(result.in_force)).confirmations
    assert {record.shape for record in records} == {Shape(8, 4)}
    assert len(read_parquet(root / "data")) > len(recorded)
    (again,) = retrain(site_of(root, _CONFIRM)).results
    assert again.confirmed == {}
    assert Registry(root / "registry").load(str(again.in_force)).confirmations == records


def test_a_confirmation_that_fails_leaves_what_was_promoted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release, or no MPI at all, is told; nothing is measured."""
    _asked(root)
    other = replace(read_parquet(root / "data"), context=replace(CONTEXT, library_version="5.0.8"))
    monkeypatch.setattr(backfill, "backend_for", lambda *_: ReplayBackend(other))
    (result,) = retrain(site_of(root, _CONFIRM)).results
    assert "openmpi 5.0.8" in result.confirmed["problem"]
    assert result.in_force == result.candidate == _in_force(root)
