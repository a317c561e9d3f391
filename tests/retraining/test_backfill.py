"""The next campaign: what jobs asked for and the bundle in force could not well answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from colltune.bench.campaign_file import load
from colltune.dataset.profile import CallKind, Profile, Use
from colltune.domain import Collective, Shape
from colltune.errors import CampaignError
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.models.guard import Guard
from colltune.mpi.programs import ANY_LEGAL, SAME_TYPES
from colltune.retraining import backfill
from colltune.selector.demand import Demand, DemandLog
from tests.models.machines import CONTEXT, MSIZES, measured
from tests.refusals import refused
from tests.retraining.site import launch, retrain, site_of

_HOUR_S = 3600.0


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Return a bundle of two collectives on 2 to 16 nodes with 1 or 4 processes each."""
    both = (Collective.ALLGATHER, Collective.BCAST)
    return fit(measured(collectives=both, noise=0.05), "knn", jobs=1)


def _asked(*shapes: tuple[int, int, int]) -> list[Demand]:
    return [Demand("openmpi", "4.1.4", *shape) for shape in shapes]


def test_shapes_beyond_what_was_measured_are_wanted(bundle: Bundle) -> None:
    """Every message size of a shape outside the range is extrapolated; one measured is answered."""
    found = backfill.wanted(bundle, _asked((64, 4, 10), (16, 4, 1000)), Guard())
    assert {(w.collective, w.shape) for w in found} == {
        (Collective.ALLGATHER, Shape(64, 4)),
        (Collective.BCAST, Shape(64, 4)),
    }
    of_bcast = next(w for w in found if w.collective is Collective.BCAST)
    assert of_bcast.msizes_bytes == MSIZES
    assert (of_bcast.extrapolated, of_bcast.abstained) == (len(MSIZES), 0)
    assert of_bcast.weight == 10.0 * len(MSIZES)


def test_node_hours_of_production_decide_where_they_are_known(bundle: Bundle) -> None:
    """A rare shape on which nodes are busy goes first; others count by the mean of a request."""
    kind = CallKind(Collective.BCAST, 256, Shape(64, 4), 1024)
    use = Use(kind, 10, 10240, 1024, 2047, 10, 0.0, 0.0, 0.0, 0.0, process_s=7200.0)
    asked = _asked((64, 4, 10), (32, 4, 1000))
    plain = backfill.wanted(bundle, asked, Guard())
    found = backfill.wanted(bundle, asked, Guard(), usage=Profile((), (use,)))
    assert [w.count for w in found] == [w.count for w in plain]
    weights = {(w.collective, w.shape): w.weight for w in found}
    assert weights[kind.collective, Shape(64, 4)] == 2.0
    # a thousand requests at the two node-hours of ten
    assert weights[kind.collective, Shape(32, 4)] == pytest.approx(200.0)
    nothing = backfill.wanted(bundle, asked, Guard(), usage=Profile((), ()))
    assert [w.weight for w in nothing] == [w.weight for w in plain]


def test_blocks_that_no_process_can_hold_are_not_wanted(bundle: Bundle) -> None:
    """Of a collective with a block per process, sizes beyond a campaign's buffers are left out."""
    found = backfill.wanted(bundle, _asked((64, 4, 1)), Guard())
    of_allgather = next(w for w in found if w.collective is Collective.ALLGATHER)
    assert of_allgather.msizes_bytes == tuple(m for m in MSIZES if m * 256 <= 64 << 20)


def test_what_was_left_to_the_default_for_doubt_is_wanted(bundle: Bundle) -> None:
    """On a shape between those measured, sizes at which the guard abstained are wanted."""
    timid = backfill.wanted(bundle, _asked((6, 2, 3)), Guard(caution=50.0))
    assert timid
    assert {(w.extrapolated, w.abstained > 0) for w in timid} == {(0, True)}
    assert not backfill.wanted(bundle, _asked((8, 4, 3)), Guard(caution=50.0))


def test_doubt_about_what_no_job_is_given_wants_nothing(bundle: Bundle) -> None:
    """Of broadcasts, what is fastest here breaks some programs: it is measured for others alone."""
    doubted = {}
    for programs in (ANY_LEGAL, SAME_TYPES):
        found = backfill.wanted(bundle, _asked((6, 2, 3)), Guard(caution=50.0), programs=programs)
        sizes = [set(w.msizes_bytes) for w in found if w.collective is Collective.BCAST]
        doubted[programs] = set().union(*sizes)
    assert doubted[ANY_LEGAL] < doubted[SAME_TYPES]


def test_other_releases_and_lone_processes_are_not_asked_about(bundle: Bundle) -> None:
    """Demand for other libraries or releases, or for one process, wants nothing of this bundle."""
    others = [
        Demand("openmpi", "5.0.8", 64, 4, 9),
        Demand("mpich", "4.1.4", 64, 4, 9),
        Demand("openmpi", "4.1.4", 1, 1, 9),
        Demand("openmpi", "4.1.4", 2**62, 1, 9),
    ]
    assert not backfill.wanted(bundle, others[:3], Guard())
    assert backfill.plan(bundle, (), _HOUR_S, 1.0) is None
    huge = backfill.wanted(bundle, others, Guard())
    assert {w.collective for w in huge} == {Collective.BCAST}


def test_the_campaign_is_one_that_measure_reads(bundle: Bundle, tmp_path: Path) -> None:
    """The file that is written loads as the campaign that was planned, field by field."""
    odd = replace(bundle, context=replace(CONTEXT, machine='höst "a"\\b', fabric="ib\t0"))
    cells = backfill.wanted(odd, _asked((64, 4, 10), (32, 4, 5)), Guard())
    planned = backfill.plan(odd, cells, _HOUR_S, 10.0)
    assert planned is not None
    path = backfill.write(planned.campaign, backfill.path_for(tmp_path / "next", odd.context))
    assert path == tmp_path / "next" / "openmpi-4.1.4.toml"
    assert load(path) == planned.campaign
    assert planned.campaign.nodes == (32, 64)
    assert planned.campaign.ppn == (4,)
    assert planned.covered == 1.0
    assert planned.expected_s <= _HOUR_S
    backfill.remove(path)
    assert not path.exists()


def test_what_was_written_by_hand_is_not_removed(tmp_path: Path) -> None:
    """Only a campaign that was planned here is taken away when nothing is wanted."""
    path = tmp_path / "mine.toml"
    path.write_text("# mine\n")
    backfill.remove(path)
    backfill.remove(tmp_path / "none.toml")
    assert path.exists()


def test_a_small_budget_goes_to_what_is_asked_for_most(bundle: Bundle) -> None:
    """Where not all shapes fit, the one that is worth most per second does; the grid is counted."""
    cells = backfill.wanted(bundle, _asked((32, 1, 900), (64, 4, 1), (128, 16, 1)), Guard())
    everything = backfill.plan(bundle, cells, 1000 * _HOUR_S, 30.0)
    assert everything is not None
    assert everything.covered == 1.0
    assert len(everything.campaign.shapes) == 9
    small = backfill.plan(bundle, cells, everything.expected_s / 8, 30.0)
    assert small is not None
    assert Shape(32, 1) in small.campaign.shapes
    assert small.expected_s <= everything.expected_s / 8
    assert 0.9 < small.covered < 1.0
    tiny = backfill.plan(bundle, cells, 1e-3, 30.0)
    assert tiny is not None
    assert tiny.campaign.shapes == (Shape(32, 1),)


def test_a_library_that_cannot_be_measured_is_told(bundle: Bundle, tmp_path: Path) -> None:
    """Of a library without a catalogue no campaign can be written, and the error says so."""
    cray = replace(bundle, context=replace(CONTEXT, library="cray_mpich"))
    demand = [Demand("cray_mpich", "4.1.4", 64, 4, 9)]
    planned = backfill.plan(cray, backfill.wanted(bundle, _asked((64, 4, 9)), Guard()), 60.0, 1.0)
    assert demand
    assert planned is not None
    with refused("not-allowed", CampaignError, value="cray_mpich", key="library.name"):
        backfill.write(planned.campaign, tmp_path / "c.toml")


def test_a_night_writes_the_next_campaign(tmp_path: Path) -> None:
    """What the service noted becomes a campaign file; once it is measured, the file is gone."""
    launch(tmp_path / "data", "launch 0", seed=0)
    extra = '[backfill]\ndemand = "demand"\ncampaigns = "next"\nbudget = "1h"\n'
    night = retrain(site_of(tmp_path, extra))
    assert "no such folder" in night.results[0].campaign["problem"]
    assert night.exit_status == 0
    log = DemandLog(tmp_path / "demand")
    for _ in range(3):
        log.note("openmpi", "4.1.4", Shape(32, 4))
    log.flush()
    night = retrain(site_of(tmp_path, extra))
    path = tmp_path / "next" / "openmpi-4.1.4.toml"
    assert night.results[0].campaign["path"] == str(path)
    assert night.results[0].campaign["wanted"][0]["requests"] == 3
    assert load(path).shapes == (Shape(32, 4),)
    launch(tmp_path / "data", "asked", seed=1, shapes=[Shape(32, 4)])
    retrain(site_of(tmp_path, extra))
    assert not path.exists()
