"""A judgement by hand: gains, a loss that was withdrawn, a trial, a drift; and its registry."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from colltune.domain import Collective, Shape
from colltune.production.arms import Arm, Production
from colltune.production.judgement import (
    KEY,
    ArmJobs,
    Judgement,
    ProductionDrift,
    ProductionFinding,
    ProductionVerdict,
    Range,
    SavedNodeHours,
    TrialStep,
    TrialVerdict,
    as_json,
)
from colltune.production.store import Store
from colltune.registry import Action, Event, Registry
from colltune.retraining.site_file import load
from tests.registry.small import small

SLOT = "openmpi-4.1.4"
FIRST, REVISION, TRIED = "a" * 64, "b" * 64, "c" * 64
NOTE = "withdrawn: production jobs were 1.9x slower (1.7 to 2.1) in 120 jobs"
SETTINGS = Production(record=True)
_SITE = """
[site]
machine = "hydra"
registry = "registry"
[data]
datasets = ["measurements"]
[cluster]
user = "root"
mpi = ["openmpi/4.1.4"]
nodes = [2]
ppn = [2]
collectives = ["bcast"]
[production]
record = true
"""
_OPEN = ProductionFinding(
    slot=SLOT,
    range=Range(Collective.BCAST, 4, 7, 32, 4096, 8191),
    configuration="openmpi.bcast.chain:fanout=4,segsize=16384",
    arm=Arm.TUNED,
    bundle_id=FIRST,
    jobs={Arm.TUNED: 12},
    gain=None,
    lower=None,
    upper=None,
    verdict=ProductionVerdict.OPEN,
    saved_node_hours=0.0,
    saved_lower=0.0,
    saved_upper=0.0,
    shapes=(Shape(4, 32),),
    since_utc="2026-11-02T08:00:00+00:00",
)


def finding(verdict: ProductionVerdict, gain: float, **changes: Any) -> ProductionFinding:
    """Return a decision with a verdict, its interval a tenth either side."""
    jobs = {Arm.TUNED: 120, Arm.CONTROL: 31}
    ends = {"lower": gain * 0.9, "upper": gain * 1.1}
    return replace(_OPEN, **{"verdict": verdict, "gain": gain, "jobs": jobs, **ends, **changes})


JUDGEMENT = Judgement(
    at_utc="2026-11-23T11:00:00+00:00",
    findings=(
        _OPEN,
        finding(ProductionVerdict.PROVEN, 1.41, saved_node_hours=250.0),
        finding(
            ProductionVerdict.PROVEN,
            1.2,
            range=Range(Collective.ALLREDUCE, 8, 15, 32, 65536, 131071),
            configuration="openmpi.allreduce.ring",
            saved_node_hours=170.0,
            since_utc="2026-10-20T08:00:00+00:00",
        ),
        finding(
            ProductionVerdict.REFUTED,
            0.53,
            range=Range(Collective.ALLTOALL, 4, 7, 32, 1024, 2047),
            configuration="openmpi.alltoall.pairwise",
            saved_node_hours=-8.0,
            since_utc="2026-11-21T03:00:00.5+00:00",
        ),
    ),
    drifts=(
        ProductionDrift(
            SLOT, 1.2, "2026-11-20T06:00:00+00:00", "all jobs are 1.20x slower: not the bundle"
        ),
    ),
    steps=(
        TrialStep(SLOT, TRIED, 0.25, 140, 0.93, 1.01, 0.9, TrialVerdict.NOT_COMPARED, False, "…"),
    ),
    saved=SavedNodeHours(1412.0, 1280.0, 1550.0),
    months={
        "2026-10": SavedNodeHours(1000.0, 900.0, 1100.0),
        "2026-11": SavedNodeHours(412.0, 380.0, 450.0),
    },
    collectives={
        "allreduce": SavedNodeHours(1.2, 1.1, 1.31),
        "bcast": SavedNodeHours(1.41, 1.27, 1.55),
        "alltoall": SavedNodeHours(0.53, 0.48, 0.58),
    },
    arms=(
        ArmJobs(SLOT, Arm.TUNED, FIRST, 15800, 15420, 380, 40),
        ArmJobs(SLOT, Arm.CONTROL, FIRST, 812, 790, 22, 3),
        ArmJobs(SLOT, Arm.CANDIDATE, TRIED, 160, 155, 5, 0),
    ),
    set_aside={"unknown bundle": 2},
    left_out={"first job of a node after a reboot": 7},
    proven=2,
    refuted=1,
    undecided=1,
    not_compared=0,
    jobs=16365,
)


def event(number: int, action: Action, bundle: str, before: str | None, **changes: Any) -> Event:
    """Return what happened in the slot on a day of the same number."""
    at_utc = f"2026-11-{number:02}T03:00:00+00:00"
    told = {"at_utc": at_utc, "by": "colltune-production", **changes}
    return Event(number, SLOT, bundle, before, action, **told)


EVENTS = (
    event(1, Action.PROMOTE, FIRST, None, note="first"),
    event(19, Action.STEP, TRIED, FIRST, share=0.05, note="won its contest"),
    event(21, Action.PROMOTE, REVISION, FIRST, note=NOTE),
    event(22, Action.STEP, TRIED, REVISION, share=0.25, note="no harm in 203 jobs"),
)


def site(folder: Path) -> Path:
    """Make a site's folder that records production, with the judgement in its store."""
    folder.mkdir()
    (folder / "site.toml").write_text(_SITE)
    Registry(folder / "registry").add(small(0))
    told = load(folder / "site.toml").production
    store = Store(told.store, told.archive)
    with closing(store), store.judging(0.0) as judging:
        assert judging is not None
        judging.put({KEY: as_json(JUDGEMENT)})
    return folder
