"""A site in memory: jobs of many programs on 10,000 nodes, with runtimes that were measured.

How long a call takes in the mean is what Leonardo's jobs took (Open MPI 4.1.6, the data of PICO),
for each configuration. What a job meets is drawn: 10 to 20 % lognormal for its nodes and
neighbours, some more for each kind of calls, a slow wave over the weeks, and 3 % of jobs that are
up to twice as slow for no reason. Programs are called upon by Zipf's law. The bundle is fitted to
the same data; what it decides is judged as the service judges it, from summaries.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from colltune.dataset.parquet import read
from colltune.dataset.profile import GAMMA, CallKind, ProfiledRun, Use
from colltune.domain import Collective, Configuration, Instance, Shape
from colltune.models.bundle import Bundle
from colltune.models.fitting import fit
from colltune.models.guard import Guard
from colltune.production.arms import Arm, ArmShares, Production, arm_of
from colltune.production.judgement import Judgement, ProductionFinding, judge
from colltune.production.observations import RegistryDecisions
from colltune.production.store import StoredSummary
from colltune.production.summary import Given, MpiRun, Summary
from colltune.registry import Registry

FOLDER = Path(os.environ.get("COLLTUNE_SHARED", Path(__file__).parents[2] / "shared")) / "data"
_FILE = "leonardo_openmpi-4.1.6.csv.gz"
DAY_S = 86400
MACHINE, BEGUN = "simulated", (int(time.time()) // DAY_S + 1) * DAY_S
"""Jobs start after the registry, at the real time, noted what is in force."""
_PROGRAMS, _USES, _SAMPLED = 60, (3, 8), 40
_JOB_SD, _KIND_SD, _PROGRAM_SD = (0.10, 0.20), 0.05, 0.2
_WAVE, _WAVE_DAYS = 0.03, 23.0
_SLOW_SHARE = 0.03
_LOG_GAMMA = math.log(GAMMA)


@cache
def truth() -> dict[Instance, dict[str, float]]:
    """Return the median seconds of each configuration on each instance that has the default."""
    path = FOLDER / _FILE
    if not path.exists():
        sys.exit(f"{path} is missing; set COLLTUNE_SHARED to the folder that has data/")
    rows = read([path], {}).timed()
    columns = ["collective", "nodes", "ppn", "msize_bytes", "algorithm", "parameters"]
    medians: dict[Instance, dict[str, float]] = {}
    for key, time_s in rows.groupby(columns)["time_s"].median().items():
        name, nodes, ppn, size, algorithm, parameters = cast(tuple[Any, ...], key)
        collective = Collective(name)
        configuration = Configuration.stored("openmpi", collective, algorithm, parameters)
        instance = Instance(collective, Shape(int(nodes), int(ppn)), int(size))
        medians.setdefault(instance, {})[configuration.id] = float(time_s)
    default = {i: Configuration.default("openmpi", i.collective).id for i in medians}
    return {i: times for i, times in medians.items() if default[i] in times}


def fitted() -> Bundle:
    """Return the bundle that the site has in force."""
    return fit(read([FOLDER / _FILE], {}), jobs=1)


class Memory:
    """As `colltune.production.store.Store` for the judgement alone, in memory."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.waiting: list[StoredSummary] = []
        self._number = 0

    def add(self, summary: Summary, now: float) -> None:
        self._number += 1
        self.waiting.append(StoredSummary(self._number, summary, now))

    @contextmanager
    def judging(self, now: float) -> Iterator[Memory]:
        yield self

    def new(self, limit: int) -> list[StoredSummary]:
        return self.waiting[:limit]

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        return {key: self._values[key] for key in keys if key in self._values}

    def put(self, values: Mapping[str, Any]) -> None:
        self._values.update(values)
        for key in [key for key, value in values.items() if value is None]:
            del self._values[key]

    def items(self, prefix: str) -> Iterator[tuple[str, Any]]:
        yield from sorted((k, v) for k, v in self._values.items() if k.startswith(prefix))

    def done(self, number: int) -> None:
        self.waiting = [one for one in self.waiting if one.number > number]

    def read(self, prefix: str) -> dict[str, Any]:
        return dict(self.items(prefix))

    def control_at(self, at: float) -> float | None:
        return None

    def asked(self, since: float) -> Counter[Any]:
        return Counter()

    def set_aside_counts(self, since: float) -> Counter[str]:
        return Counter()


@dataclass(frozen=True)
class _Program:
    name: str
    shape: Shape
    sd: float
    uses: tuple[tuple[Instance, float, int], ...]
    """Instances, by how much this program's calls differ from the mean, and how many calls."""


@dataclass
class Site:
    """One site; `judged` lets its jobs of a time run, report and be judged.

    ``slower`` is how much slower a decision is than the default where that is seeded, ``withdrawn``
    are decisions that are not used any more, ``drift`` is added to all logarithms; ``saved`` are
    true node-hours saved by decision, ``used`` the jobs that used one, up to now.
    """

    seed: int
    registry: Registry
    settings: Production
    slower: dict[str, float] = field(default_factory=dict)
    drift: float = 0.0
    withdrawn: set[str] = field(default_factory=set)
    saved: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    used: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.store = Memory()
        self.decisions = RegistryDecisions(self.registry, Guard())
        self.bundle_id = next(iter(self.registry.current().values())).bundle_id
        self.programs = [self._program(number) for number in range(_PROGRAMS)]
        weights = 1.0 / np.arange(1, _PROGRAMS + 1)
        self._weights = weights / weights.sum()
        self._jobs = 0

    def _program(self, number: int) -> _Program:
        shapes = sorted({instance.shape for instance in truth()})
        shape = shapes[int(self.rng.integers(len(shapes)))]
        here = [i for i in truth() if i.shape == shape and self._is_known(i)]
        count = min(len(here), int(self.rng.integers(*_USES, endpoint=True)))
        chosen = self.rng.choice(len(here), count, replace=False)
        uses = tuple(
            (here[k], float(self.rng.normal(0, _PROGRAM_SD)), int(10 ** self.rng.uniform(2, 4)))
            for k in chosen
        )
        return _Program(f"#{number:016x}", shape, float(self.rng.uniform(*_JOB_SD)), uses)

    def _is_known(self, instance: Instance) -> bool:
        chosen = self.choice(instance)
        return chosen is None or chosen in truth()[instance]

    def choice(self, instance: Instance) -> str | None:
        found = self.decisions.choice(self.bundle_id, instance.shape, kind_of(instance))
        return None if found is None else found.configuration

    def decided(self) -> list[tuple[str, float]]:
        """Return the cells that jobs use, and how much slower the decision is than the default."""
        found = {}
        for program in self.programs:
            for instance, _, _ in program.uses:
                chosen = self.choice(instance)
                if chosen is not None:
                    name = _name(instance, chosen)
                    found[name] = self._seconds(instance, chosen) / self._seconds(instance, None)
        return sorted(found.items())

    def share_of(self, name: str) -> float:
        """Return the share of all jobs that call what a decision is for."""
        users = (
            any(_name(i, self.choice(i) or "") == name for i, *_ in p.uses) for p in self.programs
        )
        return math.fsum(weight for weight, uses in zip(self._weights, users, strict=True) if uses)

    def run(self, jobs: int, at: float, days: float = 1.0) -> None:
        """Let `jobs` jobs run, spread over the `days` that begin at `at`, and report."""
        wave = _WAVE * math.sin(2 * math.pi * (at - BEGUN) / DAY_S / _WAVE_DAYS)
        for number in range(jobs):
            program = self.programs[int(self.rng.choice(_PROGRAMS, p=self._weights))]
            ended = int(at + days * DAY_S * number / jobs)
            self.store.add(self._job(program, ended, wave + self.drift), float(ended))

    def judged(self, now: float) -> Judgement:
        """Judge all that was reported."""
        while True:
            found = judge(self.store, self.registry, self.settings, MACHINE, now)  # type: ignore[arg-type]
            if found is not None and not found.waiting:
                return found

    def _job(self, program: _Program, ended: int, level: float) -> Summary:
        self._jobs += 1
        job = str(self._jobs)
        arm = arm_of(f"{MACHINE} {self.seed}", job, ArmShares(self.settings.control))
        shift = level + float(self.rng.normal(0, program.sd))
        if self.rng.random() < _SLOW_SHARE:
            shift += float(self.rng.uniform(0, math.log(2)))
        uses = tuple(self._use(use, arm, shift, program.shape) for use in program.uses)
        head = ("openmpi", "4.1.6", program.name, job, "-", "2026-11-22T00:00:00Z")
        wall_s = 600.0
        profile = ProfiledRun(
            *head, program.shape.nprocs, program.shape, 20, wall_s, (0.0, 0.0, 0.0)
        )
        given = Given("openmpi", "4.1.6", arm, self.bundle_id)
        started, nodes = int(ended - wall_s), program.shape.nodes
        runs = (MpiRun(profile, uses),)
        return Summary(job, started, ended, nodes, "completed", "", (given,), runs, 0)

    def _use(self, use: tuple[Instance, float, int], arm: Arm, shift: float, job: Shape) -> Use:
        instance, offset, calls = use
        chosen = None if arm is Arm.CONTROL else self.choice(instance)
        if chosen is not None and _name(instance, chosen) in self.withdrawn:
            chosen = None
        log_s = offset + shift + float(self.rng.normal(0, _KIND_SD))
        usual_s = self._seconds(instance, chosen)
        process_calls = calls * job.nprocs
        process_s = math.exp(log_s) * usual_s * process_calls
        if chosen is not None:
            name = _name(instance, chosen)
            ratio = self._seconds(instance, None) / usual_s
            self.saved[name] += process_s / job.ppn / 3600 * (ratio - 1)
            self.used[name] += 1
        return _sampled(kind_of(instance), process_calls, process_s, instance.msize_bytes)

    def _seconds(self, instance: Instance, chosen: str | None) -> float:
        times = truth()[instance]
        default_s = times[Configuration.default("openmpi", instance.collective).id]
        if chosen is None:
            return default_s
        # what is seeded is that much slower than the default
        ratio = self.slower.get(_name(instance, chosen))
        return times[chosen] if ratio is None else ratio * default_s


def kind_of(instance: Instance) -> CallKind:
    size = instance.msize_bytes
    first = 1 << (size.bit_length() - 1) if size else 0
    return CallKind(instance.collective, instance.shape.nprocs, instance.shape, first)


def _name(instance: Instance, chosen: str) -> str:
    nodes = 1 << (instance.shape.nodes.bit_length() - 1)
    first = kind_of(instance).first_bytes
    return f"{instance.collective} {nodes} {instance.shape.ppn} {first} {chosen}"


def name_of(finding: ProductionFinding) -> str:
    """Return what a site calls the decision of a finding."""
    at = finding.range
    return f"{at.collective} {at.nodes_first} {at.ppn} {at.first_bytes} {finding.configuration}"


def _sampled(kind: CallKind, calls: int, process_s: float, size: int) -> Use:
    """Return calls of which some were timed, whose mean logarithm is that of their seconds."""
    at = math.log(process_s / calls) / _LOG_GAMMA + 0.5
    low = math.floor(at)
    upper = round((at - low) * _SAMPLED)
    times = {low: _SAMPLED - upper, low + 1: upper}
    each_s = process_s / calls
    each_s = process_s / calls
    timed = (_SAMPLED, _SAMPLED * each_s, each_s, each_s, _SAMPLED * each_s**2)
    known = {bucket: count for bucket, count in times.items() if count}
    return Use(kind, calls, calls * size, size, size, *timed, process_s, {}, known)
