"""What the loop promises, at simulated sites: see `figures.simulated_site`.

COLLTUNE_SITES sets how many sites are simulated for each figure, COLLTUNE_SHARED the folder of the
measurements.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from colltune.evidence.arms import Arms, Seen, Usual, usual_of
from colltune.production.arms import Production
from colltune.production.judgement import ProductionVerdict
from colltune.registry import Registry
from figures.figure import Figure
from figures.simulated_site import BEGUN, DAY_S, Site, fitted, name_of

_WORKERS = 2
_SITES = {"coverage": 100, "withdrawal": 40, "false": 1200, "drift": 20}
_COVERAGE_DAYS, _COVERAGE_JOBS = 8, 500
_SEEDED, _SLOWER, _LEAST_PER_DAY = 3, 2.0, 60
_WITHDRAWAL_DAYS, _LOOKS, _JOBS = 30, 480, 480
_YEAR_JOBS, _STRATA, _LOOKED = 4_000, 20, 5
_DRIFT, _DRIFT_DAYS, _DRIFT_JOBS = math.log(1.2), 10, 400
_WANTED_COVERAGE, _WANTED_JOBS, _WANTED_FALSE = 95.0, 100.0, 1.0


def run_coverage() -> Figure:
    """Return of how many sites in 100 the true saving lies in the loop's interval.

    ``facts``: the half-width of the intervals in the median, as a share of what was saved; and of
    how many decisions in 100 the true gain lies in their own interval.
    """
    found = _at_sites("coverage", _coverage)
    inside = [100.0 * one["inside"] for one in found]
    facts = {
        "half_width_percent": 100 * statistics.median(one["half"] for one in found),
        "decisions_inside_percent": 100 * statistics.fmean(one["decisions"] for one in found),
    }
    value = statistics.fmean(inside)
    return Figure("loop_gain_coverage", value, "percent", value, _WANTED_COVERAGE, facts)


def run_withdrawal() -> Figure:
    """Return how many jobs use a decision that is 2x slower until it is withdrawn (median).

    ``facts``: the 90 % quantile, the most, how many needed no more than 200, and decisions
    withdrawn that were not seeded. The service looks after every job, as at a site of so few.
    """
    found = _at_sites("withdrawal", _withdrawal)
    jobs = [count for one in found for count in one["jobs"]]
    value = statistics.median(jobs)
    facts = {
        "seeded": sum(one["seeded"] for one in found),
        "withdrawn": len(jobs),
        "jobs_at_90_percent": float(np.quantile(jobs, 0.9)),
        "most_jobs": max(jobs),
        "within_wanted": sum(count <= _WANTED_JOBS for count in jobs),
        "others_withdrawn": sum(one["others"] for one in found),
        "sites": len(found),
    }
    return Figure("loop_jobs_to_withdrawal", value, "jobs", value, _WANTED_JOBS, facts)


def run_false_withdrawals() -> Figure:
    """Return of how many decisions in 100, each exactly as fast as the default, one is withdrawn.

    Each is used by 4,000 jobs of 20 programs and looked at after each job; by kind of scatter in
    ``facts``: jobs run one program, or up to ``several`` (20), or programs come once (``alone``).
    ``lost_percent`` is of how many the interval of 95 % ever lost the truth, by the worst kind.
    Decisions that are faster are withdrawn less often.
    """
    count = _sites("false") // len(_KINDS)
    found = {
        kind: _in_parallel(_without_effect, ((seed, kind) for seed in range(count)))
        for kind in _KINDS
    }
    rates = {kind: 100.0 * statistics.fmean(r for r, _ in told) for kind, told in found.items()}
    lost = {kind: 100.0 * statistics.fmean(m for _, m in told) for kind, told in found.items()}
    value = statistics.fmean(rates.values())
    facts: dict[str, float | str] = {f"{kind}_percent": rate for kind, rate in rates.items()}
    worst = max(lost, key=lambda kind: lost[kind])
    facts |= {"decisions": count * len(_KINDS), "lost_percent": lost[worst], "lost_in": worst}
    facts["lost_mean_percent"] = statistics.fmean(lost.values())
    return Figure("loop_false_withdrawals", value, "percent", value, _WANTED_FALSE, facts)


def run_drift() -> Figure:
    """Return in how many sites of 100 a slow-down of all calls by 20 % is told as drift.

    ``facts``: after how many days, the ratio told, decisions withdrawn, and drifts told before.
    """
    found = _at_sites("drift", _drift)
    value = 100 * statistics.fmean(one["told"] for one in found)
    told = [one for one in found if one["told"]]
    facts = {
        "days": statistics.median(one["days"] for one in told),
        "ratio": statistics.median(one["ratio"] for one in told),
        "withdrawn": sum(one["withdrawn"] for one in found),
        "told_before": sum(one["before"] for one in found),
        "sites": len(found),
    }
    return Figure("loop_drift", value, "percent", value, 100.0, facts)


def _sites(what: str) -> int:
    return int(os.environ.get("COLLTUNE_SITES", _SITES[what]))


def _at_sites(what: str, simulate: Callable[[int, str], dict[str, Any]]) -> list[dict[str, Any]]:
    with _registry() as folder:
        return _in_parallel(simulate, ((seed, folder) for seed in range(_sites(what))))


def _in_parallel(work: Callable[..., Any], arguments: Iterator[tuple[Any, ...]]) -> list[Any]:
    return list(Parallel(_WORKERS)(delayed(work)(*one) for one in arguments))


@contextmanager
def _registry() -> Iterator[str]:
    """Yield the folder of a registry with the site's bundle in force."""
    with tempfile.TemporaryDirectory(prefix="colltune-") as folder:
        registry = Registry(folder)
        registry.promote(registry.add(fitted()), by="benchmark")
        yield folder


def _coverage(seed: int, folder: str) -> dict[str, Any]:
    site = Site(seed, Registry(folder), Production())
    for day in range(_COVERAGE_DAYS):
        site.run(_COVERAGE_JOBS, BEGUN + day * DAY_S)
    found = site.judged(BEGUN + _COVERAGE_DAYS * DAY_S)
    judged = {name_of(f): f for f in found.findings if f.lower is not None}
    true = sum(site.saved.values())
    slower = dict(site.decided())
    inside = [(f.lower or 0) <= 1 / slower[name] <= (f.upper or 0) for name, f in judged.items()]
    lower, upper = found.saved.lower, found.saved.upper
    half = (upper - lower) / 2 / max(abs(found.saved.expected), 1e-9)
    return {"inside": lower <= true <= upper, "half": half, "decisions": np.mean(inside)}


def _withdrawal(seed: int, folder: str) -> dict[str, Any]:
    """Seed slow decisions, and count the jobs that use each until it is refuted."""
    site = Site(seed, Registry(folder), Production())
    used = [name for name, _ in site.decided() if site.share_of(name) * _JOBS >= _LEAST_PER_DAY]
    chosen = site.rng.choice(len(used), min(_SEEDED, len(used)), replace=False)
    site.slower |= {used[k]: _SLOWER for k in chosen}
    good = {name for name, ratio in site.decided() if ratio <= 1.0}
    jobs: dict[str, int] = {}
    for look in range(_WITHDRAWAL_DAYS * _LOOKS):
        at = BEGUN + look * DAY_S / _LOOKS
        site.run(_JOBS // _LOOKS, at, 1 / _LOOKS)
        found = site.judged(at + DAY_S / _LOOKS)
        for finding in found.findings:
            if finding.verdict is ProductionVerdict.REFUTED:
                jobs.setdefault(name_of(finding), site.used[name_of(finding)])
        site.withdrawn |= set(jobs)
        if len(set(jobs) & set(site.slower)) == len(site.slower):
            break
    return {
        "seeded": len(site.slower),
        "jobs": [count for name, count in jobs.items() if name in site.slower],
        "others": len(set(jobs) & good),
    }


_KINDS = (
    *("normal", "unequal", "heavy", "outliers", "slow", "slow at times", "lognormal"),
    *("series", "trend", "jump", "alone", "one program", "several", "several, slow"),
)


def _without_effect(seed: int, kind: str) -> tuple[bool, bool]:
    """Let jobs with and without a decision that changes nothing follow each other.

    Return whether it was ever withdrawn, and whether the interval ever lost that.
    """
    rng = np.random.default_rng([seed, *kind.encode()])
    settings, arms = Production(), Arms()
    weights = 1.0 / np.arange(1, _STRATA + 1)
    of = settings.control
    is_in = rng.random(_YEAR_JOBS) >= of
    logs = _scatter(rng, kind)
    usual: dict[int, Usual] = defaultdict(Usual)
    elsewhere = Usual()
    harm, surely = math.log(settings.harm), -math.log(settings.alpha)
    is_withdrawn = is_lost = False
    for job, decided in enumerate(is_in.tolist()):
        most = int(rng.integers(1, _STRATA, endpoint=True)) if kind.startswith("several") else 1
        programs = rng.choice(_STRATA, most, p=weights / weights.sum(), replace=False).tolist()
        named = {p: job if kind == "alone" else 0 if kind == "one program" else p for p in programs}
        rows = [(usual[name], float(logs[job, p])) for p, name in named.items()]
        told = [(log_s, usual_of(near, elsewhere)) for near, log_s in rows]
        seen = [Seen(log_s, *one, 1.0) for log_s, one in told if one]
        arms.take(seen, is_in=decided, probability=1 - of)
        is_withdrawn |= arms.log_e_above(harm) >= surely
        if job % _LOOKED == 0 and (found := arms.bounded()) is not None:
            is_lost |= not found.lower <= 0.0 <= found.upper
        for near, log_s in rows:
            for one in (near, elsewhere):
                one.add(log_s, is_in=decided, calls=1.0)
    return is_withdrawn, is_lost


def _scatter(rng: np.random.Generator, kind: str) -> Any:
    """Return what jobs meet, by job and program; several of a job meet half of it alike."""
    size = (_YEAR_JOBS, _STRATA)
    scales = np.full(_STRATA, 0.15)
    drawn = rng.standard_t(3, size) if kind == "heavy" else rng.standard_normal(size)
    if kind == "unequal":
        scales = 0.15 * np.exp(rng.normal(0, 0.7, _STRATA))
    if kind == "outliers":
        drawn = drawn + 8.0 * (rng.random(size) < 0.03)
    if kind in ("slow", "several, slow"):
        drawn = drawn + math.log(16.0) / 0.15 * (rng.random((_YEAR_JOBS, 1)) < 0.1)
    if kind == "slow at times":
        drawn = drawn + math.log(4.0) / 0.15 * (rng.random(size) < 0.03)
    if kind == "lognormal":
        drawn = np.exp(drawn)
    if kind == "alone":
        drawn = drawn + rng.normal(0, 4.0, size)
    if kind.startswith("several"):
        drawn = (drawn + rng.standard_normal((_YEAR_JOBS, 1))) / math.sqrt(2.0)
    return drawn * scales + _level(rng, kind)[:, None]


def _level(rng: np.random.Generator, kind: str) -> Any:
    """Return what all programs meet alike, by job."""
    level = np.zeros(_YEAR_JOBS)
    if kind == "series":
        noise = rng.normal(0, 0.3 * math.sqrt(1 - 0.95**2), _YEAR_JOBS)
        for at in range(1, _YEAR_JOBS):
            level[at] = 0.95 * level[at - 1] + noise[at]
    if kind == "trend":
        return np.linspace(0.0, math.log(2.0), _YEAR_JOBS)
    if kind == "jump":
        return math.log(1.6) * (np.arange(_YEAR_JOBS) > _YEAR_JOBS / 3)
    return level


def _drift(seed: int, folder: str) -> dict[str, Any]:
    site = Site(seed, Registry(folder), Production())
    before, told, withdrawn = 0, None, 0
    for day in range(2 * _DRIFT_DAYS):
        site.drift = _DRIFT if day >= _DRIFT_DAYS else 0.0
        site.run(_DRIFT_JOBS, BEGUN + day * DAY_S)
        found = site.judged(BEGUN + (day + 1) * DAY_S)
        withdrawn = sum(f.verdict is ProductionVerdict.REFUTED for f in found.findings)
        if day < _DRIFT_DAYS:
            before = len(found.drifts)
        elif told is None and len(found.drifts) > before:
            told = day + 1 - _DRIFT_DAYS, found.drifts[-1].ratio
    good = all(ratio <= 1.0 for _, ratio in site.decided())
    days, ratio = told or (0, 1.0)
    return {
        "told": told is not None,
        "days": days,
        "ratio": ratio,
        "before": before,
        "withdrawn": withdrawn if good else 0,
    }
