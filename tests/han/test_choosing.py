"""Picks by composed runtimes, for messages and for jobs, and their regret."""

from __future__ import annotations

import math

from colltune.domain import (
    Collective,
    Configuration,
    Context,
    Instance,
    Measurement,
    RunStatus,
    Shape,
)
from colltune.errors import DataError
from colltune.han.choosing import compare, exhaustive_of, for_job, pick, runtimes_s
from colltune.han.tasks_file import Manner, TaskTimes, TimedSeries
from tests.refusals import refused

SHAPE = Shape(2, 2)
CONTEXT = Context("bed", "openmpi", "5.0.11")
SMALL = "low=tuned,segsize=1024,up=libnbc"
LARGE = "low=tuned,segsize=8192,up=libnbc"
LINEAR = "ibalg=linear,ibs=0,low=tuned,segsize=8192,up=adapt"


def _bcast(text: str) -> Configuration:
    return Configuration.parse(f"openmpi.bcast.han_intra:{text}")


def _series(text: str, segments: int, ib_s: float, step_s: float) -> TimedSeries:
    """Return a series whose tasks all take `step_s`, but the first."""
    leader = (ib_s, *([step_s] * segments))
    return TimedSeries(SHAPE, _bcast(text), segments, Manner.STEADY, ((leader, leader),), 1.0)


SETUPS = (_bcast(SMALL), _bcast(LARGE), _bcast(LINEAR))
TASKS = TaskTimes(
    CONTEXT,
    (
        _series(SMALL, 5, 2.0, 1.0),
        _series(LARGE, 3, 4.0, 6.0),
        _series(LINEAR, 3, 3.0, 9.0),
    ),
)


def _instance(msize_bytes: int) -> Instance:
    return Instance(Collective.BCAST, SHAPE, msize_bytes)


def test_the_pick_changes_with_the_message() -> None:
    """Short segments win while few are needed; what was not measured is no candidate."""
    assert runtimes_s(TASKS, SETUPS, _instance(8192)) == {
        SETUPS[0]: 2.0 + 8.0,
        SETUPS[1]: 4.0 + 6.0,
        SETUPS[2]: 3.0 + 9.0,
    }
    assert pick(TASKS, SETUPS, _instance(8192)).setup == SETUPS[0]
    found = pick(TASKS, SETUPS, _instance(65536))
    assert (found.setup, found.time_s) == (SETUPS[1], 4.0 + 8 * 6.0)
    with refused("no-task-times-for", DataError, msize="100 bytes", shape="2x2"):
        pick(TASKS, SETUPS, _instance(100))


def test_a_job_gets_the_setup_that_is_good_for_all_messages() -> None:
    """One setup for all sizes: the least geometric mean of its times over the best ones."""
    job = for_job(TASKS, {Collective.BCAST: SETUPS}, SHAPE, (8192, 16384))
    assert job.setups == {Collective.BCAST: SETUPS[1]}
    assert job.slowdown[Collective.BCAST] == 1.0
    uneven = for_job(TASKS, {Collective.BCAST: SETUPS[::2]}, SHAPE, (8192, 65536))
    worst = (3.0 + 8 * 9.0) / (2.0 + 64.0)
    assert uneven.setups == {Collective.BCAST: SETUPS[0]}
    assert uneven.worst[Collective.BCAST] == 1.0
    assert worst > 1
    with refused("no-setup-with-times", DataError, shape="2x2"):
        for_job(TASKS, {Collective.BCAST: SETUPS}, SHAPE, (100, 8192))


def test_a_job_has_one_broadcast_of_adapt() -> None:
    """Collectives whose best setups want coll/adapt in two ways get the best that go together."""
    names = ("binomial", "linear")
    reduce = [
        Configuration.parse(
            f"openmpi.allreduce.han_intra:ibalg={n},ibs=0,iralg={n},irs=0,low=tuned,segsize=8,up=adapt"
        )
        for n in names
    ]
    bcast = [_bcast(f"ibalg={n},ibs=0,low=tuned,segsize=8,up=adapt") for n in names]
    times = {"binomial": (1.0, 5.0), "linear": (2.0, 1.0)}
    series = [
        TimedSeries(SHAPE, setup, u, Manner.EXACT, (((t,) * n,) * 2,), 1.0)
        for setups, u, n, at in ((bcast, 1, 2, 0), (reduce, 1, 4, 1))
        for name, setup in zip(names, setups, strict=True)
        for t in [times[name][at]]
    ]
    job = for_job(
        TaskTimes(CONTEXT, tuple(series)),
        {Collective.BCAST: bcast, Collective.ALLREDUCE: reduce},
        SHAPE,
        (8,),
    )
    assert job.setups == {Collective.BCAST: bcast[1], Collective.ALLREDUCE: reduce[1]}
    assert math.isclose(job.slowdown[Collective.BCAST], 2.0)


def test_regret_is_against_whole_collectives() -> None:
    """What was measured of the pick over the best of all setups, by the same message."""
    measured = [
        Measurement(_instance(8192), setup, "l", times_s=times)
        for setup, times in (
            (SETUPS[0], (12.0, 12.0)),
            (_bcast("low=tuned,segsize=0,up=libnbc"), (10.0, 10.0)),
            (SETUPS[1], (10.0,)),
            (_bcast("low=sm,segsize=512,up=libnbc"), (20.0,)),
        )
    ]
    broken = Measurement(_instance(8192), _bcast(LINEAR), "l", RunStatus.CRASH)
    default = Configuration.default("openmpi", Collective.BCAST)
    other = Measurement(_instance(8192), default, "l", times_s=(1.0,))
    exhaustive = exhaustive_of("5.0.11", [*measured, broken, other])
    compared = compare(TASKS, {Collective.BCAST: SETUPS}, exhaustive)
    (one,) = compared.instances
    assert len(exhaustive[_instance(8192)]) == 3
    assert (one.picked, one.composed_s, one.picked_s, one.best_s) == (SETUPS[0], 10.0, 12.0, 10.0)
    assert (one.median_s, one.mean_s) == (12.0, 14.0)
    assert math.isclose(compared.mean_regret, 0.2)
    with refused("no-exhaustive-search", DataError):
        compare(TASKS, {}, exhaustive)
