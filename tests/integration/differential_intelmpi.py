"""Compares what a real Intel MPI runs with what `decide` says, by time.

It does not tell which preset runs, and nobody is to look inside. So files switch between two
presets of which one takes much longer, and each call is timed in alternation with launches in which
either is forced: it ran the one whose time is nearer. Calls for which the two forced times are not
clearly apart are not counted. A machine that does something else for a moment makes a call slow,
never quick: shortest times are compared, and a call that seems to run the other preset is timed
again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from pathlib import Path

from colltune import process
from colltune.domain import Collective
from colltune.mpi.intelmpi import adjust, tuning
from colltune.mpi.intelmpi.library import variable
from colltune.mpi.rules import (
    LARGEST_COMM_SIZE,
    LARGEST_SIZE,
    Call,
    Entry,
    Numbers,
    Rule,
    Rules,
)
from tests.integration.real import Real, installed

RANKS = 5
APART = 2.5
"""By which factor the two forced times have to differ, for a call to be counted."""
SEED = 20
ATTEMPTS = 5
_TIME = re.compile(r"^TIME (\S+) ([0-9.]+)$", re.MULTILINE)
Times = Mapping[Call, float]


@dataclass(frozen=True)
class Pair:
    """A quick and a slow preset, the sizes at which they differ much, how often to call."""

    quick: int
    slow: int
    sizes: tuple[int, int]
    repetitions: int


PAIRS = {
    Collective.BCAST: Pair(15, 3, (1, 4000), 12),
    Collective.REDUCE: Pair(12, 7, (1, 8000), 4),
    Collective.ALLREDUCE: Pair(11, 25, (1, 1000), 12),
    Collective.SCATTER: Pair(3, 2, (1, 70_000), 12),
    Collective.GATHER: Pair(3, 2, (1, 70_000), 12),
}
"""Found by timing all presets of 2021.6 to 2021.18.1 on one node."""
SIZES_PER_COLLECTIVE = 6


@dataclass(frozen=True)
class Scenario:
    """A configuration to be compared: what it is called, as it is parsed, the job's variables."""

    name: str
    parsed: Rules
    environment: Mapping[str, str]


def agreements(folder: Path) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield what was compared, how many calls counted, and those that ran something else."""
    real = Real(installed("intelmpi"), folder)
    chance = random.Random(SEED)
    calls = _calls(chance)
    for scenario in _scenarios(real.release, calls, folder, chance):
        yield (scenario.name, *_compared(real, scenario, calls))


def _calls(chance: random.Random) -> tuple[Call, ...]:
    """Return calls of all collectives on communicators of all sizes, of random message sizes."""
    calls = []
    for collective, pair in PAIRS.items():
        sizes = sorted(chance.sample(range(*pair.sizes), SIZES_PER_COLLECTIVE))
        calls += [
            Call(collective, n, m, is_world=n == RANKS) for n in range(2, RANKS + 1) for m in sizes
        ]
    return tuple(calls)


def _scenarios(
    release: str, calls: Sequence[Call], folder: Path, chance: random.Random
) -> Iterator[Scenario]:
    """Yield random files, each followed by a list of variables."""
    tuning_format, adjust_format = tuning.TuningFormat(), adjust.AdjustFormat()
    for number in range(2):
        grid = {c: [*_entries(c, calls, chance)] for c in PAIRS}
        path = folder / f"{number}.json"
        path.write_text(tuning.rendered(grid), encoding="utf-8")
        parsed = tuning_format.parse(path.read_text(encoding="utf-8"), str(path), release)
        environment = tuning_format.activation(release, {"": str(path)})
        yield Scenario(f"I_MPI_TUNING file {number}", parsed, environment)
        path = folder / f"{number}.sh"
        values = {c: adjust.value_of(_of_all(c, calls, chance)) for c in PAIRS}
        lines = [f"export {variable(c)}='{value}'\n" for c, value in values.items()]
        path.write_text("".join(lines), encoding="utf-8")
        listed = adjust_format.parse(path.read_text(encoding="utf-8"), str(path), release)
        environment = adjust_format.activation(release, {"": str(path)})
        yield Scenario(f"I_MPI_ADJUST_* list {number}", listed, environment)


def _entries(
    collective: Collective, calls: Sequence[Call], chance: random.Random
) -> Iterator[Entry]:
    """Yield rules with random ends of processes per node, of processes, and of message sizes."""
    ppns = sorted(chance.sample(range(2, RANKS), chance.randint(0, 2)))
    for ppn, last_ppn in pairwise([-1, *ppns, LARGEST_COMM_SIZE]):
        sizes = sorted(chance.sample(range(2, RANKS), chance.randint(1, 3)))
        for size, last in pairwise([-1, *sizes, LARGEST_COMM_SIZE]):
            whole = _of_all(collective, calls, chance)
            yield replace(
                whole, first_size=size + 1, last_size=last, first_ppn=ppn + 1, last_ppn=last_ppn
            )


def _of_all(collective: Collective, calls: Sequence[Call], chance: random.Random) -> Entry:
    """Return rules with random ends at, or just below, message sizes that are called."""
    pair = PAIRS[collective]
    called = sorted({call.msize_bytes for call in calls if call.collective is collective})
    ends = sorted({m - chance.randint(0, 1) for m in chance.sample(called, chance.randint(1, 3))})
    rules = tuple(
        Rule(0, "", collective, None, 0, end, Numbers(chance.choice((pair.quick, pair.slow))))
        for end in (*ends, LARGEST_SIZE)
    )
    return Entry(collective, 0, 0, LARGEST_COMM_SIZE, rules)


def _compared(real: Real, scenario: Scenario, calls: Sequence[Call]) -> tuple[int, tuple[str, ...]]:
    """Return how many calls counted, and what is to be said of those that ran something else."""
    left: Sequence[Call] = calls
    shortest: dict[Call, tuple[float, ...]] = {}
    told: dict[Call, str] = {}
    for attempt in range(ATTEMPTS):
        # few calls are left after the first attempt, which are cheap to repeat
        often = 1 + 9 * attempt
        for call, times in _measured(real, scenario, left, often).items():
            before = shortest.get(call, times)
            shortest[call] = tuple(min(pair) for pair in zip(before, times, strict=True))
        apart = {c: times for c, times in shortest.items() if times[2] >= APART * times[0]}
        told = {c: said for c, times in apart.items() if (said := _told(scenario, c, times))}
        if not told:
            break
        left = tuple(told)
    return len(apart), tuple(told.values())


def _told(scenario: Scenario, call: Call, times: tuple[float, ...]) -> str:
    """Return what is to be said of a call that ran something else; empty if it did not."""
    quick, actual, slow = times
    pair = PAIRS[call.collective]
    ran = pair.quick if actual < sqrt(quick * slow) else pair.slow
    says = scenario.parsed.decide(call).configuration.algorithm
    if says == f"preset{ran}":
        return ""
    return (
        f"{call.collective} of {call.msize_bytes} bytes on {call.comm_size}: {says} is said,"
        f" {actual * 1e6:.0f} us; {quick * 1e6:.0f} with preset {pair.quick},"
        f" {slow * 1e6:.0f} with {pair.slow}"
    )


def _measured(
    real: Real, scenario: Scenario, calls: Sequence[Call], often: int
) -> dict[Call, tuple[float, ...]]:
    """Return the calls' times in seconds: with the quick preset, as configured, with the slow."""
    quick_forced = {variable(c): str(pair.quick) for c, pair in PAIRS.items()}
    slow_forced = {variable(c): str(pair.slow) for c, pair in PAIRS.items()}
    environments = (quick_forced, scenario.environment, slow_forced)
    launches = [_times(real, calls, environment, often) for environment in environments]
    return {call: tuple(launch[call] for launch in launches) for call in calls}


def _times(real: Real, calls: Sequence[Call], environment: Mapping[str, str], often: int) -> Times:
    """Return the shortest time of each call in one launch, in seconds."""
    steps = {f"{call.collective}:{call.msize_bytes}:{call.comm_size}": call for call in calls}
    words = [f"{step}:{often * PAIRS[call.collective].repetitions}" for step, call in steps.items()]
    command = [real.compiled("timed_calls.c"), *words]
    outcome = real.run(RANKS, command, environment)
    if outcome.timed_out:  # a launch may stall on a machine that is overloaded
        outcome = real.run(RANKS, command, environment)
    process.check(outcome, "timing collectives")
    return {steps[step]: float(time) for step, time in _TIME.findall(outcome.stdout)}
