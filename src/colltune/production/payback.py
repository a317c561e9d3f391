"""When a campaign pays: what it costs, against what tuned jobs are expected to save.

A job that spends the share s of its time in collectives, which become g times as fast, saves
s (1 - 1/g) of it. How fast they become on a new machine is drawn from the measured machines of
``machines.toml``: one of them, then a gain from its interval. No gain counts as less than 1, since
`confirm` withdraws what is slower. Intervals hold 90 % of the draws.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltune.dataset.profile import CallKind, Profile, ProfiledRun, Use, added_up
from colltune.domain import Collective, Shape
from colltune.errors import DataError, say
from colltune.evidence.launches import held, sd_behind
from colltune.production.arms import Production
from colltune.selector.demand import Demand
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.production.store import Store


_KIND = ["slot", "collective", "nprocs", "layout", "first_bytes", "job_layout"]
_SUMS = ["calls", "timed", "process_s"]


def usage(settings: Production, slot: str, since: float = 0.0) -> Profile | None:
    """Return what jobs of `slot` spent from the time `since` on, None where none told yet.

    Merged days tell, or before there are any the newest reports. ``process_s`` are seconds of whole
    nodes, shared among their processes: what a site has to spend. The first size of a bin, a power
    of two, stands for all of it.
    """
    if not settings.record:
        raise say("not-recorded")
    if "://" not in settings.store and not Path(settings.store).exists():
        return None
    from colltune.production.store import Store

    store = Store(settings.store, settings.archive)
    try:
        uses = list(_merged(store, slot, since)) or list(_newest(store, slot))
    finally:
        store.close()
    library, _, release = slot.partition("-")
    site = ProfiledRun(library, release, "site", "-", "-", "", 1, None, 1, 0.0, (0.0, 0.0, 0.0))
    return added_up([site], uses) if uses else None


def _merged(store: Store, slot: str, since: float) -> Iterator[Use]:
    rows = store.archive_rows(since, [*_KIND, *_SUMS])
    summed = rows.group_by(_KIND).aggregate([(name, "sum") for name in _SUMS])
    for row in summed.to_pylist():
        if row["slot"] == slot:
            kind = CallKind(
                Collective(row["collective"]),
                row["nprocs"],
                _shape(row["layout"]),
                row["first_bytes"],
            )
            yield _use(kind, _shape(row["job_layout"]), *(row[f"{name}_sum"] for name in _SUMS))


def _newest(store: Store, slot: str) -> Iterator[Use]:
    for summary in store.newest():
        for run in summary.runs:
            if f"{run.job.library}-{run.job.release}" == slot:
                for use in run.uses:
                    sums = (use.process_calls, use.timed, use.process_s)
                    yield _use(use.kind, run.job.shape, *sums)


def _shape(layout: str) -> Shape | None:
    return Shape.parse(layout) if layout else None


def _use(kind: CallKind, job: Shape | None, calls: int, timed: int, process_s: float) -> Use:
    ppn = (job or kind.shape or Shape(1, 1)).ppn
    sizes = (calls * kind.first_bytes, kind.first_bytes, kind.last_bytes)
    return Use(kind, calls, *sizes, timed, 0.0, 0.0, 0.0, 0.0, process_s / ppn)


SHARE = 0.05, 0.20
"""Assumed share of time in collectives; docs/explanation/gain.md measured .04, .09 and .29."""
JOB_HOURS = 0.25, 4.0
"""Assumed hours of a job, where only the jobs were counted."""
MONTH_HOURS = 730.5
_LEAST_HOURS = 24.0
_GROUP = ["day", "slot", "job_layout"]
_DRAWS = 20_000
_SHARE = 0.9


class Machine(NamedTuple):
    """A measured machine: the gain that decisions reach on node counts they were not fitted to."""

    name: str
    library: str
    calls: int
    gain: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Estimate:
    """An expected value with its 90 % interval."""

    expected: float
    """expected value"""
    lower: float
    """lower end of its 90 % interval"""
    upper: float | None
    """upper end of its 90 % interval; null: no limit"""

    def __str__(self) -> str:
        upper = "no limit" if self.upper is None else _number(self.upper)
        return f"{_number(self.expected)} ({_number(self.lower)} to {upper})"


@dataclass(frozen=True)
class Load:
    """What the site's jobs use: ends of ranges, and in words where they come from.

    ``node_hours`` are those of jobs that would be tuned, in a month, None if not known; ``share``
    is that of their time in collectives.
    """

    node_hours: tuple[float, float] | None = None
    share: tuple[float, float] = SHARE
    basis: tuple[str, ...] = ()


@dataclass(frozen=True)
class Payback:
    """What measuring costs, what it saves in a month, and after how many days it pays."""

    cost_node_hours: float
    """what measuring costs; for `site init` at most"""
    saving_node_hours_per_month: Estimate | None
    """what tuned jobs save in a month; null: the node-hours of jobs are unknown"""
    days: Estimate | None
    """after how many days it pays; null: unknown, or it does not pay"""
    node_hours_to_pay: Estimate | None
    """node-hours of tuned jobs after which it pays; null: it does not pay"""
    basis: str
    """what the figures rest on, in words"""

    @property
    def text(self) -> str:
        """The result in a sentence or two."""
        costs = f"measuring costs {_number(self.cost_node_hours)} node-hours"
        saving = self.saving_node_hours_per_month
        if self.node_hours_to_pay is None or (saving is not None and self.days is None):
            return f"{costs} and does not pay: nothing is expected to be saved"
        if saving is None or self.days is None:
            return f"{costs}; it pays once tuned jobs took {self.node_hours_to_pay} node-hours"
        days = f"{_number(self.days.expected)} days ({_number(self.days.lower)} to"
        upper = "never" if self.days.upper is None else _number(self.days.upper)
        return f"{costs}; saves {saving} node-hours a month; pays after {days} {upper})"


def machines() -> tuple[Machine, ...]:
    """Return the measured machines that ship with colltune."""
    text = (resources.files(__package__) / "machines.toml").read_text(encoding="utf-8")
    return tuple(Machine(**machine) for machine in tomllib.loads(text)["machine"])


def payback(
    cost_node_hours: float, load: Load, measured: Sequence[Machine] | None = None, *, seed: int = 0
) -> Payback:
    """Return when a campaign of `cost_node_hours` pays on a site whose jobs are those of `load`.

    `measured` are the machines from which the gain is drawn; default: those that ship.
    """
    corpus = machines() if measured is None else measured
    random = np.random.default_rng(seed)
    gained = _gains(corpus, random)
    saved = random.uniform(*load.share, _DRAWS) * (1 - 1 / gained)
    basis = "; ".join((_basis(corpus), *load.basis))
    to_pay = _quotient(cost_node_hours, saved)
    if load.node_hours is None:
        return Payback(cost_node_hours, None, None, to_pay, basis)
    low, high = load.node_hours
    jobs = np.exp(random.uniform(np.log(low), np.log(high), _DRAWS)) if low > 0 else np.zeros(1)
    a_month = saved * jobs
    saving = Estimate(float(a_month.mean()), *held(a_month, _SHARE))
    days = _quotient(cost_node_hours, a_month / (MONTH_HOURS / 24))
    return Payback(cost_node_hours, saving, days, to_pay, basis)


def _gains(corpus: Sequence[Machine], random: np.random.Generator) -> NDArray[np.float64]:
    gains = np.log([(m.gain, m.lower, m.upper) for m in corpus])
    middle, lower, upper = gains[random.integers(len(corpus), size=_DRAWS)].T
    drawn = random.normal(middle, sd_behind(lower, upper))
    found: NDArray[np.float64] = np.exp(np.maximum(drawn, 0.0))
    return found


def _quotient(cost: float, saved: NDArray[np.float64]) -> Estimate | None:
    """Return `cost` over the mean of `saved` and its ends; None where nothing is saved."""
    if saved.mean() <= 0:
        return None
    least, most = held(saved, _SHARE)
    upper = float(cost / least) if least > 0 else None
    return Estimate(float(cost / saved.mean()), float(cost / most), upper)


def _basis(corpus: Sequence[Machine]) -> str:
    gains = [machine.gain for machine in corpus]
    nothing = ", ".join(machine.name for machine in corpus if machine.gain <= 1)
    return (
        f"{counted(len(corpus), 'measured machine')} gained {min(gains):.2f}x to {max(gains):.2f}x"
        f" in collectives{f' ({nothing}: nothing)' if nothing else ''}"
    )


def load_of(
    *,
    node_hours: float | None = None,
    share: tuple[float, float] | None = None,
    profiled: float | None = None,
    demand: Iterable[Demand] = (),
    demand_hours: float = 0.0,
    releases: Iterable[tuple[str, str]] = (),
    recorded: float | None = None,
) -> Load:
    """Return what is known of the jobs, with assumptions for the rest.

    `recorded` are node-hours a month in collectives, as jobs reported them: where they are known
    and the user says no node-hours, nothing else counts.

    `node_hours` of all jobs in a month and the `share` of their time in collectives are what the
    user says; `profiled` is the share in a profile. `demand` was counted in `demand_hours`; only
    that for the `releases` that would be tuned counts, on two nodes or more.
    """
    basis = []
    if recorded is not None and node_hours is None:
        told = f"{_number(recorded)} node-hours a month in collectives, as jobs reported"
        return Load((recorded, recorded), (1.0, 1.0), (told,))
    if share is not None:
        basis.append(f"share of time in collectives {_percent(share)} as given")
    elif profiled is not None:
        share = profiled, profiled
        basis.append(f"share of time in collectives {profiled:.1%} in the profile, waits included")
    else:
        share = SHARE
        basis.append(
            f"share of time in collectives assumed to be {_percent(SHARE)}"
            " (--collectives-share tells another)"
        )
    asked, tuned = _asked(demand, set(releases))
    if node_hours is not None:
        part = tuned / asked if asked else 1.0
        hours = node_hours * part, node_hours * part
        what = f"; {part:.0%} of what the service was asked for would be tuned" if asked else ""
        basis.append(f"{_number(node_hours)} node-hours of jobs a month as given{what}")
        return Load(hours, share, tuple(basis))
    if not asked:
        basis.append("node-hours of jobs unknown (--node-hours-per-month tells them)")
        return Load(None, share, tuple(basis))
    a_month = tuned * MONTH_HOURS / max(demand_hours, _LEAST_HOURS)
    low, high = JOB_HOURS
    basis.append(
        f"{_number(a_month)} nodes of tuned jobs a month, as asked of the service, for {low:g} to"
        f" {high:g} hours each by assumption (--node-hours-per-month tells their node-hours)"
    )
    return Load((low * a_month, high * a_month), share, tuple(basis))


def recorded(settings: Production, releases: Iterable[tuple[str, str]], now: float) -> float | None:
    """Return the node-hours a month that jobs of `releases` spend in collectives on several nodes.

    Whole days of the last month count; None where none is there.
    """
    if not settings.record or ("://" not in settings.store and not Path(settings.store).exists()):
        return None
    from colltune.production.store import Store

    store = Store(settings.store, settings.archive)
    try:
        rows = store.archive_rows(now - MONTH_HOURS * 3600, [*_GROUP, "process_s"])
    finally:
        store.close()
    slots = {f"{library}-{release}" for library, release in releases}
    found = rows.group_by(_GROUP).aggregate([("process_s", "sum")]).to_pylist()
    jobs = [(Shape.parse(r["job_layout"]), r) for r in found if r["job_layout"]]
    spent = (
        row["process_s_sum"] / shape.ppn / 3600
        for shape, row in jobs
        if row["slot"] in slots and shape.nodes > 1
    )
    days = {row["day"] for row in found}
    return math.fsum(spent) / (24 * len(days)) * MONTH_HOURS if days else None


def _asked(demand: Iterable[Demand], releases: set[tuple[str, str]]) -> tuple[int, int]:
    """Return how many nodes jobs asked for, and how many of them would be tuned."""
    every = [(d.nodes * d.count, d) for d in demand]
    tuned = (n for n, d in every if d.nodes > 1 and (d.library, d.release) in releases)
    return sum(n for n, _ in every), sum(tuned)


def _number(value: float) -> str:
    """Return `value` to three digits, as 12,300 or 0.0123."""
    return f"{float(f'{value:.3g}'):,.12g}"


def _percent(share: tuple[float, float]) -> str:
    low, high = (f"{100 * end:.3g}" for end in share)
    return f"{low} %" if low == high else f"{low} to {high} %"


def parse_share(text: str) -> tuple[float, float]:
    """Return the ends of a share in percent such as ``5-20`` or ``12``."""
    low, dash, high = text.replace("%", "").partition("-")
    try:
        ends = float(low) / 100, float(high if dash else low) / 100
    except ValueError:
        ends = -1.0, -1.0
    if not 0 <= ends[0] <= ends[1] <= 1:
        what, like = "a share in percent", "5-20 or 12"
        raise say("malformed", DataError, value=text[:40], what=what, like=like)
    return ends
