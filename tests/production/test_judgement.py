"""The judgement of what jobs report: what is proven, refuted, drifts, harms, and was saved."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.regression.mixed_linear_model import MixedLM

from colltune.dataset.profile import GAMMA, CallKind, ProfiledRun, Use
from colltune.domain import Collective, Shape
from colltune.errors import DataError
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.models.guard import Guard
from colltune.production.arms import Arm, ArmShares, Production, arm_of
from colltune.production.cases import Cases, forget, utc
from colltune.production.judgement import (
    Judgement,
    ProductionVerdict,
    Range,
    TrialVerdict,
    as_json,
    from_json,
    judge,
    latest,
)
from colltune.production.observations import RegistryDecisions, observed
from colltune.production.store import Store
from colltune.production.summary import Given, MpiRun, Summary
from colltune.registry import Event, Registry
from tests.models.machines import configuration, measured
from tests.refusals import refused

SLOT, LIBRARY, RELEASE = "openmpi-4.1.4", "openmpi", "4.1.4"
_SOON_S = int(time.time()) + 3600
BEGUN = next(
    at for at in range(_SOON_S, _SOON_S + 4 * 86400, 86400) if utc(at)[:7] == utc(at + 86400)[:7]
)
"""After what the registry notes at the real time, and not on the last day of a month."""
SHAPE = Shape(4, 4)
SMALL, LARGE = 512, 1 << 22
"""Of the made-up machine binomial is chosen for the one, scatter_allgather for the other."""
SETTINGS = Production(record=True, control=0.2, users="hash")


@cache
def fitted(noise: float = 0.0) -> Bundle:
    return fit(measured(noise=noise), "knn")


@cache
def other() -> Bundle:
    """Return a bundle that decides on small messages as the library does."""
    return fit(measured(algorithms=("default", "scatter_allgather")), "knn")


@dataclass
class Bed:
    """A site whose jobs report; ``ratio`` is a decision's time over that of the default."""

    store: Store
    registry: Registry
    seed: int = 1
    settings: Production = SETTINGS
    ratio: dict[int, float] = field(default_factory=lambda: {SMALL: 0.8, LARGE: 0.8})
    candidate: dict[int, float] = field(default_factory=dict)
    level: float = 0.0
    share: float = 0.0
    jobs: int = 0
    now: int = BEGUN
    users: int = 12

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.registry.promote(self.registry.add(fitted()), by="ann")

    def run(self, jobs: int, **changes: Any) -> None:
        given = self.given()
        for _ in range(jobs):
            self.now += 60
            assert self.store.add(self.summary(given, **changes), self.now)

    def given(self) -> tuple[Event, Event | None]:
        """Return what is in force, and what is on trial."""
        return self.registry.current()[SLOT], self.registry.trials().get(SLOT)

    def summary(self, given: tuple[Event, Event | None] | None = None, **changes: Any) -> Summary:
        self.jobs += 1
        job = str(self.jobs)
        arm = arm_of("m", job, ArmShares(self.settings.control, self.share))
        in_force, trial = given or self.given()
        ours = trial if arm is Arm.CANDIDATE else in_force
        assert ours is not None
        ratio = {Arm.TUNED: self.ratio, Arm.CANDIDATE: self.candidate}.get(arm, {})
        shift = self.level + float(self.rng.normal(0, 0.1))
        program = f"#{int(self.rng.integers(3)):016x}"
        uses = tuple(
            use(size, 1e-5 * math.exp(shift) * ratio.get(size, 1.0)) for size in (SMALL, LARGE)
        )
        head = (LIBRARY, RELEASE, program, job, "-", "2026-11-22T00:00:00Z")
        profile = ProfiledRun(*head, SHAPE.nprocs, SHAPE, 20, 50.0, (0.0, 0.0, 0.0), arm=arm.value)
        handed_out = Given(LIBRARY, RELEASE, arm, ours.bundle_id)
        user = f"{int(self.rng.integers(self.users)):016x}"
        times = (self.now - 60, self.now)
        runs = (MpiRun(profile, uses),)
        found = Summary(job, *times, SHAPE.nodes, "completed", user, (handed_out,), runs, 0)
        return replace(found, **changes)

    def judged(self) -> Judgement:
        found = judge(self.store, self.registry, self.settings, "hydra", self.now)
        assert found is not None
        return found


def use(size: int, seconds: float, calls: int = 16000, timed: int = 64) -> Use:
    """Return calls of bcast, whose sketch has the mean logarithm of `seconds`."""
    at = math.log(seconds) / math.log(GAMMA) + 0.5
    upper = round((at - math.floor(at)) * timed)
    times = {math.floor(at): timed - upper, math.floor(at) + 1: upper}
    kind = CallKind(Collective.BCAST, SHAPE.nprocs, SHAPE, size)
    sums = (timed, timed * seconds, seconds, seconds, timed * seconds**2)
    return Use(kind, calls, calls * size, size, size, *sums, calls * seconds, {}, times)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    store = Store(str(tmp_path / "production.db"), tmp_path / "archive")
    yield Bed(store, Registry(tmp_path / "registry"))
    store.close()


def test_a_root_that_leaves_early_is_no_gain_by_itself(bed: Bed) -> None:
    """What counts is the seconds of all processes: of equal sums no side is faster."""
    even = use(SMALL, 2e-3)
    early = replace(even, times={-120: 32, -60: 32})
    told = bed.summary()
    decisions = RegistryDecisions(bed.registry, Guard())
    for calls in (even, early):
        runs = (replace(told.runs[0], uses=(calls,)),)
        (one,) = observed(replace(told, runs=runs), decisions, Counter())
        assert one.rows[0].log_s == pytest.approx(math.log(2e-3))


def test_harm_is_refuted_and_gain_is_proven(bed: Bed) -> None:
    """Each range by itself; the node-hours saved are those of the jobs that had the decision."""
    bed.ratio = {SMALL: 2.0, LARGE: 0.8}
    bed.run(600)
    found = bed.judged()
    bad, good = found.findings
    assert bad.range == Range(Collective.BCAST, 4, 7, 4, 512, 1023)
    assert (bad.configuration, bad.verdict) == (
        configuration("binomial").id,
        ProductionVerdict.REFUTED,
    )
    assert good.range == Range(Collective.BCAST, 4, 7, 4, LARGE, 2 * LARGE - 1)
    assert good.verdict is ProductionVerdict.PROVEN
    assert (found.proven, found.refuted, found.undecided) == (1, 1, 0)
    for finding, gain in ((bad, 0.5), (good, 1.25)):
        assert finding.slot == SLOT
        assert finding.shapes == (SHAPE,)
        assert finding.lower is not None
        assert finding.upper is not None
        assert finding.lower < gain < finding.upper
        assert sum(finding.jobs.values()) >= 590
    # 1e-5 s x 16,000 calls of 4 processes of a node in 480 jobs: seconds of a node
    hours = 1e-5 * 16000 / 4 * bad.jobs[Arm.TUNED] / 3600
    true = hours * (1 - 2.0) + hours * (1 - 0.8)
    assert found.saved.lower < true < found.saved.upper < 0
    [(month, of_month)] = found.months.items()
    assert (month, of_month) == (utc(BEGUN)[:7], found.saved)
    assert latest(bed.store) == found == from_json(json.loads(json.dumps(as_json(found))))


def test_matched_jobs_agree_with_a_mixed_model(bed: Bed) -> None:
    """With random effects of programs, statsmodels finds the gain that matching finds."""
    told: list[tuple[str, bool, float]] = []
    for _ in range(600):
        summary = bed.summary()
        [run] = summary.runs
        log_s = math.log(next(u.call_s for u in run.uses if u.kind.first_bytes == SMALL))
        told.append((run.job.program, run.job.arm == "tuned", log_s))
        bed.now += 60
        bed.store.add(summary, bed.now)
    programs, tuned, logs = (np.array(column) for column in zip(*told, strict=True))
    exogenous = np.column_stack([np.ones(len(logs)), tuned])
    with warnings.catch_warnings():
        # programs of the bed do not differ, so that the variance between them is 0
        warnings.simplefilter("ignore")
        fitted_model = MixedLM(logs, exogenous, groups=programs).fit()
    [small] = [f for f in bed.judged().findings if f.range.first_bytes == SMALL]
    assert small.gain is not None
    assert math.log(small.gain) == pytest.approx(-fitted_model.params[1], abs=0.03)


def test_what_was_refuted_stays_refuted(bed: Bed) -> None:
    """The verdict and its time stay, also where jobs that ran meanwhile report later."""
    bed.ratio = {SMALL: 2.0}
    bed.run(400)
    first = bed.judged().findings[0]
    bed.ratio = {SMALL: 1.0}
    bed.run(600)
    later = bed.judged().findings[0]
    assert (first.verdict, first.since_utc) == (ProductionVerdict.REFUTED, later.since_utc)
    assert later.verdict is ProductionVerdict.REFUTED


def test_what_slows_all_jobs_alike_is_drift_and_no_harm(bed: Bed) -> None:
    """Jobs of all arms become 20 % slower: it is told, and decisions stay what they are."""
    bed.run(800)
    before = bed.judged()
    assert before.drifts == ()
    begun = bed.now
    bed.level = math.log(1.2)
    bed.run(800)
    found = bed.judged()
    [drift] = found.drifts
    assert drift.slot == SLOT
    assert drift.ratio == pytest.approx(1.2, abs=0.06)
    assert f"hydra: calls that {SLOT} decides itself take {drift.ratio:.2f} times" in drift.text
    assert before.at_utc >= drift.since_utc or bed.now - begun > 0
    assert found.refuted == 0
    assert found.proven == 2


def test_each_summary_is_judged_once(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails midway changes nothing; the next look takes the same jobs in."""
    bed.run(50)
    with monkeypatch.context() as patch:
        patch.setattr(Cases, "close", lambda self: (_ for _ in ()).throw(DataError("killed")))
        with pytest.raises(DataError, match="killed"):
            bed.judged()
    assert latest(bed.store) is None
    assert bed.judged().jobs == 50
    assert bed.judged().jobs == 50
    assert sum(row.reported for row in bed.judged().arms) == 50


def test_another_process_returns_what_was_told_last(bed: Bed) -> None:
    """While one judges, nobody else does."""
    bed.run(20)
    told = bed.judged()
    bed.run(20)
    with bed.store.judging(bed.now) as judging:
        assert judging is not None
        assert bed.judged() == told
    assert bed.judged().jobs == 40


def test_a_trial_that_harms_is_told_from_one_that_does_not(bed: Bed) -> None:
    """Jobs with the candidate are compared with those of the bundle in force."""
    bed.settings = replace(SETTINGS, jobs_per_step=100)
    bed.share = 0.3
    trial = bed.registry.add(other())
    bed.registry.step(trial, 0.3, by="ann")
    bed.candidate = {SMALL: 1.0, LARGE: 0.8}
    bed.run(100)
    [early] = bed.judged().steps
    assert (early.slot, early.bundle_id, early.share) == (SLOT, trial, 0.3)
    assert not early.enough
    bed.run(900)
    [step] = bed.judged().steps
    # the candidate leaves small messages to the library, which the bundle in force makes 0.8
    assert step.harmed
    assert step.lower is not None
    assert step.lower > 1
    assert step.jobs > early.jobs


def test_a_good_trial_goes_on_when_enough_jobs_had_it(bed: Bed) -> None:
    """No harm is shown, and the bounds exclude a large one; a new step counts its own jobs."""
    bed.settings = replace(SETTINGS, jobs_per_step=100)
    bed.share = 0.3
    trial = bed.registry.add(other())
    bed.registry.step(trial, 0.3, by="ann")
    bed.candidate = {SMALL: 0.7, LARGE: 0.8}
    bed.run(1000)
    [step] = bed.judged().steps
    assert (step.harmed, step.enough) == (False, True)
    bed.registry.step(trial, 0.5, by="ann")
    bed.run(10)
    [step] = bed.judged().steps
    assert step.jobs <= 10
    assert not step.enough
    assert step.upper is not None


def test_jobs_that_fall_silent_are_harm(bed: Bed) -> None:
    """Where more jobs of a trial than of the others report no run, it harms."""
    bed.share = 0.3
    trial = bed.registry.add(other())
    bed.registry.step(trial, 0.3, by="ann")
    bed.candidate = bed.ratio
    for job in range(400):
        arm = arm_of("m", str(bed.jobs + 1), ArmShares(SETTINGS.control, 0.3))
        fails = arm is Arm.CANDIDATE and job % 2
        bed.run(1, **({"runs": (), "state": "timeout"} if fails else {}))
    found = bed.judged()
    assert found.steps[0].harmed
    silent = {row.arm: row.silent for row in found.arms}
    assert silent[Arm.CANDIDATE] > 30
    assert silent[Arm.TUNED] == silent[Arm.CONTROL] == 0


def test_as_many_silent_jobs_everywhere_are_no_harm(bed: Bed) -> None:
    """Jobs without MPI are in all arms."""
    bed.share = 0.3
    bed.registry.step(bed.registry.add(other()), 0.3, by="ann")
    bed.candidate = {SMALL: 0.7, LARGE: 0.8}
    for job in range(600):
        bed.run(1, **({"runs": ()} if job % 3 == 0 else {}))
    assert not bed.judged().steps[0].harmed


@pytest.mark.parametrize(("users", "ratio"), [(1, 10.0), (2, 10.0), (2, 1.5)])
def test_a_slow_trial_of_few_users_is_never_taken_for_harmless(
    bed: Bed, users: int, ratio: float
) -> None:
    """However few have it, a slow candidate is stopped or stays where it is."""
    bed.settings = replace(SETTINGS, control=0.05, jobs_per_step=20)
    bed.share, bed.users = 0.25, users
    bed.registry.step(bed.registry.add(other()), 0.25, by="ann")
    bed.candidate = {SMALL: ratio, LARGE: ratio}
    for _ in range(4):
        bed.run(100)
        [step] = bed.judged().steps
        assert not step.enough
    assert step.showed is TrialVerdict.HARM


def test_one_user_does_not_show_that_a_trial_is_harmless(bed: Bed) -> None:
    """It stays at its share, and what is missing is said."""
    bed.settings = replace(SETTINGS, control=0.05, jobs_per_step=20)
    bed.share, bed.users = 0.25, 1
    bed.registry.step(bed.registry.add(other()), 0.25, by="ann")
    bed.candidate = bed.ratio = {SMALL: 1.0, LARGE: 1.0}
    bed.run(1200)
    [step] = bed.judged().steps
    assert (step.showed, step.enough) == (TrialVerdict.NOT_COMPARED, False)
    assert "1 user" in step.why


def test_a_trial_that_decides_alike_goes_on(bed: Bed) -> None:
    """Where no decision of jobs that ran differs, there is nothing to compare."""
    bed.settings = replace(SETTINGS, jobs_per_step=50)
    bed.share = 0.3
    bed.registry.step(bed.registry.add(fitted(0.02)), 0.3, by="ann")
    bed.candidate = bed.ratio
    bed.run(300)
    [step] = bed.judged().steps
    assert (step.showed, step.enough, step.compared) == (TrialVerdict.ALIKE, True, None)


def test_three_programs_of_a_job_count_once(bed: Bed) -> None:
    """Of each decision and trial, and for each slot: the job was drawn, not its programs."""
    programs = [f"#{n:016x}" for n in range(3)]
    for _ in range(200):
        summary = bed.summary()
        [run] = summary.runs
        runs = tuple(MpiRun(replace(run.job, program=program), run.uses) for program in programs)
        bed.now += 60
        bed.store.add(replace(summary, runs=runs), bed.now)
    found = bed.judged()
    assert all(sum(finding.jobs.values()) <= 200 for finding in found.findings)
    assert sum(row.reported for row in found.arms) == 200


def test_long_jobs_weigh_in_what_was_saved(bed: Bed) -> None:
    """Short jobs gain, long ones lose: what was saved is what the long ones lost."""
    true = 0.0
    for _ in range(1500):
        summary = bed.summary()
        [run] = summary.runs
        is_long = bool(bed.rng.random() < 0.5)
        calls = 1_600_000 if is_long else 16_000
        base = 1e-5 * math.exp(float(bed.rng.normal(0, 0.1)))
        is_tuned = run.job.arm == "tuned"
        time_s = base / ((0.97 if is_long else 1.3) if is_tuned else 1.0)
        uses = tuple(use(size, time_s, calls=calls) for size in (SMALL, LARGE))
        true += is_tuned * 2 * (base - time_s) * calls / SHAPE.ppn / 3600
        job = replace(run.job, program=f"#{is_long:016x}")
        bed.now += 60
        bed.store.add(replace(summary, runs=(replace(run, uses=uses, job=job),)), bed.now)
    saved = bed.judged().saved
    assert true < 0
    assert saved.lower < true < saved.upper


def test_what_cannot_be_compared_is_left_out_and_counted(bed: Bed) -> None:
    """The user's own settings, few timed calls, another arm, unknown bundles and layouts."""
    good = bed.summary()
    [run] = good.runs

    def changed(**changes: Any) -> Summary:
        job = replace(run.job, **changes)
        return replace(bed.summary(), runs=(MpiRun(job, run.uses),))

    few = MpiRun(run.job, (use(SMALL, 1e-5, timed=3),))
    wrong = Arm.CONTROL if run.job.arm == "tuned" else Arm.TUNED
    told = [
        changed(arm="own"),
        changed(arm="candidate"),
        changed(shape=None, arm="-"),
        changed(release="5.0.8"),
        replace(good, job="900", runs=(few,)),
        replace(good, job="901", given=(replace(good.given[0], bundle_id="0" * 64),)),
    ]
    assert wrong != run.job.arm
    for summary in told:
        assert bed.store.add(summary, bed.now)
    found = bed.judged()
    assert found.left_out == {
        "the user's own settings decided": 1,
        "the job was given one arm and ran as another": 1,
        "nodes had different numbers of processes": 1,
        "the job was given nothing for the library it ran with": 1,
        "calls of a kind of which too few were timed": 1,
        "the bundle is in the registry no more": 1,
    }
    assert sum(row.own for row in found.arms) == 1


def test_arms_tell_how_many_were_asked_for(bed: Bed) -> None:
    """What the service gave stands beside what came back."""
    bed.run(30)
    bundle_id = bed.registry.current()[SLOT].bundle_id
    bed.store.note_given([(f"a{n}", SLOT, "tuned", bundle_id) for n in range(40)], BEGUN)
    rows = {row.arm: row for row in bed.judged().arms}
    assert rows[Arm.TUNED].asked == 40
    assert rows[Arm.TUNED].reported + rows[Arm.CONTROL].reported == 30


def test_what_nobody_uses_is_forgotten() -> None:
    """Programs after 30 days, decisions after the months that are kept."""
    day = 86400.0
    kept = {
        "strata/s/4x4/a": {"day": 90},
        "cells/s/bcast/4/4": {"1|new": {"seen": 80 * day}, "2|old": {"seen": 1 * day}},
    }
    gone = {"strata/s/4x4/b": {"day": 60}, "cells/s/bcast/8/4": {"1|old": {"seen": 0}}}
    assert forget([*kept.items(), *gone.items()], 100 * day, 2) == {
        "strata/s/4x4/b": None,
        "cells/s/bcast/4/4": {"1|new": {"seen": 80 * day}},
        "cells/s/bcast/8/4": None,
    }


def test_a_newer_format_is_refused(bed: Bed) -> None:
    """It says so, and what to do; nothing is judged meanwhile."""
    bed.run(1)
    with bed.store.judging(bed.now) as judging:
        assert judging is not None
        judging.put({"judged": {"format": 99}})
    with refused("format-version", DataError, version=99):
        bed.judged()
    assert latest(bed.store) is None
    with refused("format-version", DataError, version=99):
        from_json({"format": 99})
