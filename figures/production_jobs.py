"""Summaries of the jobs of a large site: 10,000 nodes, thousands of programs, 20 rows a job.

Programs are called upon by Zipf's law. Each has a few shapes and its own mix of collectives on some
communicators; a job has 20 kinds of calls of that mix, and its times vary by 15 % from job to job.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from colltune.dataset.profile import (
    COLUMNS,
    FIRST_TIME,
    GAMMA,
    LAST_TIME,
    CallKind,
    ProfiledRun,
    Use,
)
from colltune.domain import Collective, Shape
from colltune.production.arms import Arm, ArmShares, arm_of
from colltune.production.summary import Given, MpiRun, Summary, text_of
from tests.dataset.profiles import sealed

JOBS_A_DAY = 100_000
ROWS = 20
MACHINE = "simulated"
BEGUN = 1_793_000_000
_DAY_S = 86400
_PROGRAMS, _EXPONENT = 3000, 1.1
_RELEASES = (("openmpi", "5.0.11"), ("openmpi", "4.1.8"), ("mpich", "4.3.1"))
_NODES, _PPN = (1, 2, 4, 8, 16, 32, 64, 128, 256, 3, 6, 12), (128, 64, 32)
_COLLECTIVES = tuple(Collective)
CONTROL = 0.05
_SPLIT = ArmShares(CONTROL, candidate=0.05)
_RATE = 20


@dataclass(frozen=True)
class Program:
    """Its name's hash, the release it is linked with, its shapes and what it calls: kind, calls."""

    name: str
    release: tuple[str, str]
    shapes: tuple[Shape, ...]
    mixes: tuple[tuple[tuple[CallKind, int, float], ...], ...]
    """Of each shape: kind, calls of a process and seconds of one."""


@lru_cache(maxsize=_PROGRAMS)
def program(number: int) -> Program:
    """Return the program that is called upon `number`-th most."""
    rng = random.Random(number)  # noqa: S311
    shapes = tuple(
        Shape(rng.choice(_NODES), rng.choice(_PPN)) for _ in range(rng.choice((1, 1, 2, 3, 5)))
    )
    release = rng.choices(_RELEASES, (6, 3, 1))[0]
    mixes = tuple(tuple(_mix(rng, shape)) for shape in shapes)
    return Program(f"#{rng.getrandbits(64):016x}", release, shapes, mixes)


def _mix(rng: random.Random, shape: Shape) -> Iterator[tuple[CallKind, int, float]]:
    layouts: list[Shape | None] = [shape, shape, Shape(1, shape.ppn), Shape(shape.nodes, 1)]
    wanted = ROWS + rng.choice((0, 4, 12))
    kinds: set[CallKind] = set()
    called = rng.sample(_COLLECTIVES, 5)
    while len(kinds) < wanted:
        layout = rng.choice(layouts)
        nprocs = layout.nodes * layout.ppn if layout else 2
        size = rng.choice((0, *(2**power for power in range(21))))
        kinds.add(CallKind(rng.choice(called), nprocs, layout, size))
    for kind in sorted(kinds, key=repr):
        seconds = 2e-6 * math.log2(kind.nprocs + 1) + kind.first_bytes * 2e-10
        yield kind, int(10 ** rng.uniform(1, 5)), seconds


def jobs(day: int, count: int = JOBS_A_DAY) -> Iterator[Summary]:
    """Yield the summaries of a day."""
    rng = random.Random(day)  # noqa: S311
    weights = list(accumulate((n + 1) ** -_EXPONENT for n in range(_PROGRAMS)))
    for number, one in enumerate(rng.choices(range(_PROGRAMS), cum_weights=weights, k=count)):
        ended = BEGUN + day * _DAY_S + number * _DAY_S // count
        yield job(day * count + number, program(one), ended, rng)


def job(number: int, of: Program, ended: int, rng: random.Random, bundle: str = "") -> Summary:
    """Return what one job of a program tells; `bundle` is in force, else another each month."""
    library, release = of.release
    arm = arm_of(MACHINE, str(number), ArmShares(CONTROL) if bundle else _SPLIT)
    named = f"{library}-{release} {arm is Arm.CANDIDATE} {ended // (30 * _DAY_S)}"
    bundle = bundle or named.encode().hex().ljust(64, "0")
    at = rng.randrange(len(of.shapes))
    shape, mix = of.shapes[at], of.mixes[at]
    speed = rng.lognormvariate(0, 0.15)
    uses = tuple(_use(rng, *each, speed) for each in rng.sample(mix, ROWS))
    nprocs = shape.nodes * shape.ppn
    # a tenth of its time at most is in collectives
    wall_s = round(10 + 10 * sum(use.process_s for use in uses) / nprocs, 3)
    run = ProfiledRun(
        library,
        release,
        of.name,
        str(number),
        "-",
        "2026-11-22T00:00:00Z",
        nprocs,
        shape,
        _RATE,
        wall_s,
        (wall_s / 10, wall_s / 20, wall_s / 5),
        arm=arm.value,
    )
    given = (Given(library, release, arm, bundle[:64]),)
    started = ended - math.ceil(wall_s)
    return Summary(
        str(number), started, ended, shape.nodes, "completed", "", given, (MpiRun(run, uses),), 0
    )


def text(summary: Summary) -> bytes:
    """Return what the epilog sends of a job."""
    return text_of(replace(summary, runs=()), map(_profile, summary.runs))


def _profile(run: MpiRun) -> bytes:
    job = run.job
    head = (
        "colltune-profile 2",
        f"library {job.library} {job.release}",
        f"program {job.program}",
        f"job {job.job}",
        f"host {job.host}",
        f"started {job.started}",
        f"world {job.nprocs} {_layout(job.shape)}",
        f"rate {job.rate}",
        f"wall_s {job.wall_s:.9g}",
        "collectives_s " + " ".join(f"{seconds:.9g}" for seconds in job.collectives_s),
        f"lost_calls {job.lost_calls}",
        f"arm {job.arm}",
        "left_out 0 0",
        "columns " + " ".join(COLUMNS),
    )
    return sealed("\n".join((*head, *map(_row, run.uses), "")))


def _row(use: Use) -> str:
    kind = use.kind
    counts = (use.process_calls, use.bytes, use.least_bytes, use.most_bytes, use.timed)
    seconds = (use.timed_s, use.least_s, use.most_s, use.squares_s2, use.process_s)
    times = ",".join(f"{bucket}:{calls}" for bucket, calls in use.times.items()) or "-"
    place = (kind.collective, kind.nprocs, _layout(kind.shape), kind.first_bytes, 0)
    return " ".join(map(str, ("row", *place, *counts, *(f"{s:.9g}" for s in seconds), times)))


def _layout(shape: Shape | None) -> str:
    return f"{shape.nodes}x{shape.ppn}" if shape else "-"


def _use(rng: random.Random, kind: CallKind, calls: int, seconds: float, speed: float) -> Use:
    calls = max(1, int(calls * rng.uniform(0.5, 1.5)))
    timed = calls // _RATE
    mean_s = seconds * speed
    times = _times(mean_s, timed, rng)
    total = calls * kind.nprocs
    return Use(
        kind,
        total,
        total * kind.first_bytes,
        kind.first_bytes,
        kind.first_bytes,
        timed,
        round(timed * mean_s, 9),
        round(mean_s / 2, 9),
        round(mean_s * rng.uniform(3, 30), 9),
        round(timed * mean_s**2 * 1.1, 12),
        round(total * mean_s, 6),
        {"": total} if rng.random() < 0.5 else {f"openmpi.{kind.collective}.ring": total},
        times=times,
    )


_SHAPE = [math.exp(-((k / 5) ** 2) / 2) if k < 0 else math.exp(-k / 4) for k in range(-9, 25)]
"""How the calls lie around the bucket of the most: a bell below, a tail above."""


def _times(mean_s: float, timed: int, rng: random.Random) -> dict[int, int]:
    middle = math.ceil(math.log(mean_s) / math.log(GAMMA))
    left, found = timed, {}
    unit = timed / sum(_SHAPE)
    for offset, share in enumerate(_SHAPE, start=-9):
        calls = min(left, int(unit * share + rng.random()))
        if calls:
            found[min(max(middle + offset, FIRST_TIME), LAST_TIME)] = calls
            left -= calls
    if left:
        found[middle] = found.get(middle, 0) + left
    return dict(sorted(found.items()))
