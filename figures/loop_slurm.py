"""The whole loop on a throw-away Slurm: jobs are tuned, report, are judged, and harm is undone.

``python -m figures.loop_slurm --minutes 60 --keep`` watches it for an hour, and lets the service
and its page run on until Ctrl-C. COLLTUNE_MINUTES says how long `run` takes jobs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from math import log
from pathlib import Path

from cluster import obstacle
from cluster.slurm import missing
from colltune.dataset import read
from colltune.decisions import Status
from colltune.domain import Collective, Configuration, Instance, RunStatus, Shape
from colltune.models import bundle as bundles
from colltune.models.bundle import Bundle
from colltune.models.confirmations import Confirmation
from colltune.production.arms import Arm, ArmShares, arm_of
from colltune.production.judgement import Judgement
from colltune.registry import Action, Event
from colltune.selector.configuration import render, selector_for, target_of
from figures.figure import Figure
from figures.loop_slurm_bed import (
    LARGEST,
    MACHINE,
    MPI_ROOT,
    PROGRAMS,
    RELEASES,
    USERS,
    Bed,
    loop_bed,
    mpi_program,
)
from figures.loop_slurm_direct import Direct, compared

MINUTES = float(os.environ.get("COLLTUNE_MINUTES", "10"))
LATENCY_US, DRIFTED = 4000.0, 1.2
AT_ONCE, WAITING = 3, 3
CONTROL = 0.3
"""More than a site would take: an hour of small jobs has to tell as much as its month."""
STEPS = (0.25, 0.5, 1.0)
RATE = 4
TRIAL_AT, DRIFT_AT = 0.25, 0.65
"""Of the time: when the bundle with the slow decision is tried, and when the network slows down."""
SEEDED, _USING = (Collective.ALLREDUCE, 8), ("solver", "mixed")
"""On trial, messages from so many bytes up to double are slow; the programs that send them."""
_SHAPES = (LARGEST, LARGEST, LARGEST, Shape(2, 1))
_SAY_S, _SETTLING_S = 30.0, 60.0


@dataclass(frozen=True)
class Job:
    """A job that was queued, and when (epoch seconds)."""

    number: str
    program: str
    release: str
    shape: Shape
    queued: float


def run(minutes: float = MINUTES, port: int = 0, *, keep: bool = False) -> Figure:
    """Return the share of decisions whose direct gain lies in the loop's interval.

    ``ours`` is the mean log gain by the loop, ``baseline`` directly: the same programs, by turns
    with the default and tuned by hand. The page is on `port` of this machine; with `keep` the
    service goes on until it is interrupted.
    """
    reason = obstacle() or missing() or _no_mpi()
    if reason:
        raise SystemExit(reason)
    folder = Path(tempfile.mkdtemp(prefix="loop"))
    folder.chmod(0o755)
    try:
        with loop_bed(folder, LATENCY_US, AT_ONCE) as bed:
            return _looped(bed, minutes, port, keep=keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _no_mpi() -> str:
    absent = [r for r in RELEASES if not mpi_program(r, "mpirun").exists()]
    return (
        f"no Open MPI {', '.join(absent)} in {MPI_ROOT}; MPI_ROOT names another" if absent else ""
    )


def _looped(bed: Bed, minutes: float, port: int, *, keep: bool) -> Figure:
    jobs_per_step = max(10, round(2 * minutes))
    bed.init(CONTROL, STEPS, jobs_per_step, RATE)
    for release in RELEASES:
        _say(f"measuring Open MPI {release}")
        bed.measure(release, 120)
    with bed.serving(port):
        _say(f"the page: {bed.url}")
        jobs: list[Job] = []
        began = time.time()
        slot = next(s for s in bed.registry.current() if RELEASES[-1] in s)
        ends = [began + 60 * minutes * part for part in (TRIAL_AT, DRIFT_AT, 1.0)]
        source = _queue(seed=1)
        jobs += _kept_busy(bed, source, ends[0])
        trial = _tried(bed, slot)
        jobs += _kept_busy(bed, source, ends[1])
        bed.slurm.cluster.change_latency(LATENCY_US * DRIFTED)
        _say(f"every message takes {DRIFTED:g} times as long")
        jobs += _kept_busy(bed, source, ends[2])
        bed.slurm.wait_until(lambda: not bed.queued(), "the last jobs", 120)
        judged = _settled(bed, len(jobs))
        _say("the same programs, by turns with the default and tuned by hand")
        direct, saved_s = compared(bed, rounds=max(4, round(minutes / 3)))
        figure = _figure(bed, jobs, judged, direct, saved_s, trial)
        if keep:
            print(figure.as_json(), flush=True)
            _say(f"the page stays at {bed.url} until Ctrl-C")
            with suppress(KeyboardInterrupt):
                time.sleep(1e9)
    return figure


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _queue(seed: int) -> Iterator[tuple[str, str, Shape, str]]:
    """Yield programs, releases, shapes and users of jobs without end."""
    chance = random.Random(seed)  # noqa: S311
    users = cycle(USERS)
    while True:
        program, release = chance.choice(list(PROGRAMS)), chance.choice(RELEASES)
        yield program, release, chance.choice(_SHAPES), next(users)


def _kept_busy(
    bed: Bed, source: Iterator[tuple[str, str, Shape, str]], ends: float
) -> Iterator[Job]:
    """Keep jobs waiting in the queue until the time `ends`; yield them."""
    told = time.monotonic()
    number = 0
    while time.time() < ends:
        for _ in range(AT_ONCE + WAITING - bed.queued()):
            program, release, shape, user = next(source)
            queued = time.time()
            job = bed.submit(program, release, shape, user)
            yield Job(job, program, release, shape, queued)
            number += 1
        time.sleep(0.3)
        if time.monotonic() > told + _SAY_S:
            told = time.monotonic()
            _say(f"{number} jobs; {_progress(bed.judgement())}")


def _progress(judged: Judgement | None) -> str:
    if judged is None:
        return "nothing judged yet"
    steps = ", ".join(f"trial at {step.share:g}: {step.jobs} jobs" for step in judged.steps)
    drift = ", ".join(drift.text for drift in judged.drifts)
    return (
        f"{judged.jobs} judged, {judged.proven} proven, {judged.refuted} refuted,"
        f" {judged.saved.expected:.2g} node-hours saved; {steps} {drift} {dict(judged.set_aside)}"
    )


def _tried(bed: Bed, slot: str) -> Event:
    """Begin to roll out a bundle that is the one in force but for one slow decision."""
    now = bed.registry.current()[slot]
    sound = bed.registry.load(now.bundle_id)
    bundle, slow = next(
        (bundle, slow)
        for slow in _slow(bed, RELEASES[-1])
        if slow in _used(bundle := _seeded(sound, slow))
    )
    path = bundle.save(bed.folder / "seeded")
    added = bed.registry.add(bundles.load(path))
    _say(f"{slot}: trying a bundle with {slow.id} for {SEEDED[0]} of {SEEDED[1]} bytes")
    return bed.registry.step(added, STEPS[0], by="loop_slurm", note="one decision is slow")


def _seeded(bundle: Bundle, slow: Configuration) -> Bundle:
    collective, first = SEEDED
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}+00:00"
    seeded = Confirmation(
        *(collective, LARGEST, first, 2 * first - 1, Status.CONFIRMED, slow, slow),
        *(2.0, 1.9, 2.1, 3, now),
    )
    return bundle.with_confirmations([seeded])


def _used(bundle: Bundle) -> set[Configuration]:
    """Return what jobs on all nodes would use for the seeded messages; a file may leave it out."""
    target = target_of(bundle)
    table = render(selector_for(bundle, target), LARGEST, target).table
    intervals = table.rules.get((SEEDED[0], LARGEST.nprocs), ())
    return {one.configuration for one in intervals if one.holds(SEEDED[1])}


def _slow(bed: Bed, release: str) -> list[Configuration]:
    """Return what was measured, nearest to twice as slow as the default first."""
    collective, msize = SEEDED
    wanted = Instance(collective, LARGEST, msize)
    times = {
        m.configuration: m.summary.time_s
        for m in read([bed.folder / f"measured-{release}"]).measurements()
        if m.status is RunStatus.OK and m.summary and m.instance == wanted
    }
    default_s = next(t for c, t in times.items() if c.is_default)
    slower = {c: t for c, t in times.items() if not c.is_default}
    return sorted(slower, key=lambda c: abs(slower[c] / default_s - 2))


def _settled(bed: Bed, jobs: int) -> Judgement:
    """Return the judgement after all jobs that reported were judged, or no more come."""
    before = -1
    while before < (now := _judged(bed)) < jobs:
        before = now
        time.sleep(_SETTLING_S)
    found = bed.judgement()
    if found is None:
        raise SystemExit("nothing was judged; see the service's log")
    return found


def _judged(bed: Bed) -> int:
    found = bed.judgement()
    return 0 if found is None else found.jobs


def _figure(
    bed: Bed,
    jobs: list[Job],
    judged: Judgement,
    direct: list[Direct],
    saved_s: dict[tuple[str, str], float],
    trial: Event,
) -> Figure:
    history = bed.registry.history()
    later = [event for event in history if event.sequence > trial.sequence]
    statuses = Counter(bed.statuses().values())
    ended = next((e for e in later if e.slot == trial.slot and e.action is Action.STOP), None)
    # a revision of the trial without the slow range undoes harm as well as its end does
    undone = next((e for e in later if e.slot == trial.slot and _undoes(bed, e, trial)), None)
    pairs = list(_paired(judged, direct))
    inside = sum(lower <= gain <= upper for _, _, lower, upper, gain in pairs)
    for name, gain, lower, upper, directly in pairs:
        _say(f"{name}: {gain:.3f} ({lower:.3f} to {upper:.3f}), directly {directly:.3f}")
    for event in later:
        _say(f"{event.action} {event.slot} {event.bundle_id[:12]} {event.share} {event.note}")
    count = max(len(pairs), 1)
    mean = sum(gain for _, gain, *_ in pairs) / count, sum(pair[4] for pair in pairs) / count
    facts: dict[str, object] = {
        "jobs": len(jobs),
        "exit_statuses": dict(statuses),
        "lost_jobs": len(jobs) - sum(statuses.values()),
        "nodes_drained": bed.drained(),
        "judged": judged.jobs,
        "set_aside": dict(judged.set_aside),
        "left_out": dict(judged.left_out),
        "decisions_compared": len(pairs),
        "decisions_inside": inside,
        "proven": judged.proven,
        "refuted": judged.refuted,
        "saved_node_hours": list(judged.saved),
        "saved_on_largest": _saved_on_largest(judged),
        "saved_directly": sum(
            saved_s[job.program, job.release] / 3600 for job in jobs if _is_tuned(job)
        ),
        "jobs_to_withdrawal": _jobs_until(undone, trial, jobs),
        "trial_stopped": ended is not None,
        "drift_told": [drift.ratio for drift in judged.drifts],
        "withdrawn_in_force": _withdrawn_in_force(bed, trial),
    }
    share = inside / len(pairs) if pairs else 0.0
    return Figure("loop_slurm", share, "of decisions", mean[0], mean[1], facts)


def _undoes(bed: Bed, event: Event, trial: Event) -> bool:
    if event.action is Action.STOP:
        return True
    collective, first = SEEDED
    found = bed.registry.load(event.bundle_id).confirmations
    return event.bundle_id != trial.bundle_id and any(
        record.collective is collective
        and record.shape == LARGEST
        and record.first_bytes <= first <= (record.last_bytes or first)
        and record.status is Status.WITHDRAWN
        for record in found
    )


def _jobs_until(undone: Event | None, trial: Event, jobs: list[Job]) -> int | None:
    """Return how many jobs used the slow decision before it was undone; None if it never was."""
    if undone is None:
        return None
    begun, ended = (datetime.fromisoformat(e.at_utc).timestamp() for e in (trial, undone))
    split = ArmShares(CONTROL, STEPS[0])
    return sum(
        begun <= job.queued <= ended
        and job.release in trial.slot
        and job.shape == LARGEST
        and job.program in _USING
        and arm_of(MACHINE, job.number, split) is Arm.CANDIDATE
        for job in jobs
    )


def _saved_on_largest(judged: Judgement) -> list[float]:
    """Return the node-hours saved by jobs of the shape that was compared, and the sums of ends."""
    found = [
        (finding.saved_node_hours, finding.saved_lower, finding.saved_upper)
        for finding in judged.findings
        if finding.range.nodes_first == LARGEST.nodes and finding.arm is not Arm.CANDIDATE
    ]
    return [sum(part) for part in zip(*found, strict=True)]


def _is_tuned(job: Job) -> bool:
    arm = arm_of(MACHINE, job.number, ArmShares(CONTROL, 0.0))
    return job.shape == LARGEST and arm is Arm.TUNED


def _withdrawn_in_force(bed: Bed, trial: Event) -> list[str]:
    """Return what production withdrew from bundles in force, which had nothing seeded."""
    found = []
    for slot, event in bed.registry.current().items():
        records = bed.registry.load(event.bundle_id).confirmations
        found += [
            f"{slot} {record.collective} {record.shape} {record.first_bytes}"
            for record in records
            if record.status is Status.WITHDRAWN
        ]
    return found


def _paired(
    judged: Judgement, direct: list[Direct]
) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield decisions with their log gain and its ends by the loop, and directly."""
    for finding in judged.findings:
        if finding.arm is Arm.CANDIDATE or not finding.gain:
            continue
        assert finding.lower is not None
        assert finding.upper is not None
        for one in direct:
            if one.slot == finding.slot and one.lies_in(finding.range):
                ends = log(finding.lower), log(finding.upper)
                name = f"{finding.slot} {finding.range} {finding.configuration}"
                yield name, log(finding.gain), *ends, one.log_gain


def main() -> None:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(description="The whole loop on a throw-away Slurm.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long jobs are taken")
    parser.add_argument("--port", type=int, default=0, help="of the page, on 127.0.0.1")
    parser.add_argument("--keep", action="store_true", help="let the page run until Ctrl-C")
    asked = parser.parse_args()
    print(run(asked.minutes, asked.port, keep=asked.keep).as_json())


if __name__ == "__main__":
    main()
