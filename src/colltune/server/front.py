"""What the page's front tells an administrator: health, jobs, gains, drift, and what is next."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import geometric_mean
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from colltune.decisions import Status
from colltune.json_text import DescribedRecord
from colltune.models.confirmations import Confirmation
from colltune.mpi import LIBRARIES
from colltune.server.job_counts import CountedRequest, Counts, RequestOutcome
from colltune.server.metrics import content_of
from colltune.server.state import LoadedBundle, ServiceState
from colltune.server.watcher import BundleWatcher

_MOST_SHAPES, _MOST_WANTED, _MOST_RELEASES = 12, 6, 5
_HANGS_S = 60.0
Read = TypeVar("Read", bound=DescribedRecord)


@dataclass(frozen=True)
class RequestRow(DescribedRecord):
    """Requests for jobs' files: ``kept`` left all to the library, ``tuned`` did not."""

    what: str
    """A release, a shape, or a day"""
    tuned: int
    kept: int


@dataclass(frozen=True)
class KeptRow(DescribedRecord):
    """Why requests of today got the default."""

    reason: str
    requests: int
    releases: tuple[str, ...]


@dataclass(frozen=True)
class Requests(DescribedRecord):
    """Requests for jobs' files of one day, and of those before it."""

    today: RequestRow
    """since midnight, UTC"""
    since_utc: str
    """when this service began"""
    stored: bool
    """whether counts survive a restart"""
    confirmed: int
    """of the tuned, on shapes with confirmed gains"""
    reasons: tuple[KeptRow, ...]
    releases: tuple[RequestRow, ...]
    shapes: tuple[RequestRow, ...]
    """the most frequent ones"""
    shapes_left_out: int
    days: tuple[RequestRow, ...]
    """days before, the latest first"""


@dataclass(frozen=True)
class ConfirmedGain(DescribedRecord):
    """A decision that was measured beside the default."""

    mpi_name: str
    nodes: int
    ppn: int
    first_bytes: int
    last_bytes: int | None
    name: str
    gain: float | None
    lower: float | None
    """of the 95 % interval"""
    upper: float | None
    """of the 95 % interval"""
    launches: int


@dataclass(frozen=True)
class HeldOutGain(DescribedRecord):
    """How fast decisions were on measurements that their models had not seen."""

    instances: int
    shapes: int
    geometric_mean_speedup: float
    geometric_mean_speedup_interval: tuple[float, float] | None
    harm_share: float
    """slower than the default, beyond noise"""


@dataclass(frozen=True)
class ShiftView(DescribedRecord):
    """How runtimes changed: new over old time."""

    of: str
    """A collective, all, or a configuration"""
    since: str
    """the fit, or the latest allocations"""
    ratio: float
    allocations: int
    alarm: bool


@dataclass(frozen=True)
class DriftView(DescribedRecord):
    """What retraining last found of drift."""

    alarm: bool
    shifts: tuple[ShiftView, ...]


@dataclass(frozen=True)
class WantedView(DescribedRecord):
    """A collective on a shape that jobs asked for and that wants measuring."""

    collective: str
    shape: str
    requests: int
    extrapolated: int
    """message sizes outside the range"""
    abstained: int
    """message sizes left to the default"""


@dataclass(frozen=True)
class CampaignView(DescribedRecord):
    """The next campaign, as retraining planned it."""

    problem: str = ""
    """why there is none"""
    nodes: tuple[int, ...] = ()
    ppn: tuple[int, ...] = ()
    collectives: tuple[str, ...] = ()
    expected_s: float = 0.0
    budget_s: float = 0.0
    covered: float = 0.0
    """share of what is wanted"""
    wanted: tuple[WantedView, ...] = ()


@dataclass(frozen=True)
class SlotFront(DescribedRecord):
    """What is known of one slot beyond `SlotView`."""

    slot: str
    bundle: str
    confirmed: tuple[ConfirmedGain, ...]
    withdrawn: int
    """decisions taken back when measured again"""
    mean: tuple[float, float, float] | None
    """geometric means of the confirmed gains and of their intervals' ends"""
    held_out: HeldOutGain | None
    drift: DriftView | None
    campaign: CampaignView | None
    outcome: str
    """of the latest retraining"""
    reason: str


@dataclass(frozen=True)
class FrontView(DescribedRecord):
    """The front of the page, in addition to what `OverviewView` has."""

    attention: tuple[str, ...]
    """what somebody should see to"""
    registry_read_s: float
    """since it was last read"""
    retraining_utc: str
    """when it last ran; empty: never"""
    reported_utc: str
    """when it last reported; empty: never"""
    arrived: int | None
    """files of measurements since then; null: this service takes none"""
    requests: Requests
    slots: tuple[SlotFront, ...]


def front_view(
    state: ServiceState,
    watcher: BundleWatcher,
    days: Mapping[str, Counts],
    started: float,
    *,
    stored: bool,
) -> FrontView:
    reports = watcher.reports
    retrained = content_of(reports, "retrain")
    drift = _mapping(content_of(reports, "drift").get("slots"))
    records = _mapping(retrained.get("slots"))
    slots = tuple(
        _slot(one, _mapping(records.get(slot)), _mapping(drift.get(slot)))
        for slot, one in sorted(state.loaded.items())
    )
    read_s = time.monotonic() - watcher.looked_at
    attention = [f"{slot.slot}: the machine has drifted" for slot in slots if _alarmed(slot)]
    failed = _mapping(retrained.get("failed")).items()
    attention += [f"{name}: the latest retraining failed: {why}" for name, why in failed]
    if read_s > _HANGS_S:
        attention.append(f"the registry was last read {read_s:.0f} s ago: does its storage hang?")
    at, reported_utc = watcher.retrained_at, (reports.get("retrain") or ("", {}))[0]
    return FrontView(
        attention=tuple(attention),
        registry_read_s=round(read_s, 1),
        retraining_utc=max("" if at is None else _iso(at), reported_utc),
        reported_utc=reported_utc,
        arrived=watcher.arrived,
        requests=_requests(days, state, _iso(started), stored=stored),
        slots=slots,
    )


def _alarmed(slot: SlotFront) -> bool:
    return slot.drift is not None and slot.drift.alarm


def _slot(loaded: LoadedBundle, record: Mapping[str, Any], drift: Mapping[str, Any]) -> SlotFront:
    bundle = loaded.bundle
    confirmed = _of(bundle.confirmations, Status.CONFIRMED)
    compared = _mapping(record.get("comparison"))
    whose = {record.get("candidate"): "candidate", record.get("was_in_force"): "in_force"}
    scores = _mapping(compared.get(whose.get(bundle.id, "")))
    campaign = _mapping(record.get("campaign"))
    wanted = campaign.get("wanted")
    most = {"wanted": wanted[:_MOST_WANTED]} if isinstance(wanted, list) else {}
    return SlotFront(
        slot=loaded.slot,
        bundle=bundle.id,
        confirmed=tuple(map(_confirmed, confirmed)),
        withdrawn=len(_of(bundle.confirmations, Status.WITHDRAWN)),
        mean=_means(confirmed),
        held_out=_read(HeldOutGain, _mapping(scores.get("all"))),
        drift=_read(DriftView, drift),
        campaign=_read(CampaignView, {**campaign, **most}),
        outcome=str(record.get("outcome", "")),
        reason=str(record.get("reason", "")),
    )


def _of(records: Iterable[Confirmation], status: Status) -> list[Confirmation]:
    return [one for one in records if one.status is status]


def _confirmed(one: Confirmation) -> ConfirmedGain:
    alike = ("first_bytes", "last_bytes", "gain", "lower", "upper", "launches")
    return ConfirmedGain(
        mpi_name=one.collective.mpi_name,
        nodes=one.shape.nodes,
        ppn=one.shape.ppn,
        name=one.configuration.short,
        **{name: getattr(one, name) for name in alike},
    )


def _means(confirmed: Sequence[Confirmation]) -> tuple[float, float, float] | None:
    """Return the means of gains and of their intervals' ends, None without any."""
    triples = [
        (one.gain, one.lower, one.upper)
        for one in confirmed
        if one.gain is not None and one.lower is not None and one.upper is not None
    ]
    if not triples:
        return None
    gain, lower, upper = (geometric_mean(values) for values in zip(*triples, strict=True))
    return gain, lower, upper


def _requests(
    days: Mapping[str, Counts], state: ServiceState, since_utc: str, *, stored: bool
) -> Requests:
    today = datetime.now(UTC).date().isoformat()
    counts = days.get(today, Counter())
    confirmed = {
        (slot, one.shape.nodes, str(one.shape.ppn))
        for slot, loaded in state.loaded.items()
        for one in _of(loaded.bundle.confirmations, Status.CONFIRMED)
    }
    tuned = {asked: n for asked, n in counts.items() if asked.outcome is RequestOutcome.TUNED}
    shapes = _rows(counts, _shape)
    return Requests(
        today=_day(today, counts),
        since_utc=since_utc,
        stored=stored,
        confirmed=sum(n for a, n in tuned.items() if (a.slot, a.nodes, a.ppn) in confirmed),
        reasons=tuple(_kept(counts)),
        releases=_rows(counts, _release),
        shapes=shapes[:_MOST_SHAPES],
        shapes_left_out=max(0, len(shapes) - _MOST_SHAPES),
        days=tuple(_day(day, found) for day, found in days.items() if day < today),
    )


def _rows(counts: Counts, key: Callable[[CountedRequest], str]) -> tuple[RequestRow, ...]:
    """Return the counts by `key`, the most frequent first."""
    tuned: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for asked, n in counts.items():
        (tuned if asked.outcome is RequestOutcome.TUNED else kept)[key(asked)] += n
    ordered = (what for what, _ in (tuned + kept).most_common())
    return tuple(RequestRow(what=what, tuned=tuned[what], kept=kept[what]) for what in ordered)


def _day(day: str, counts: Counts) -> RequestRow:
    return next(iter(_rows(counts, lambda _: day)), RequestRow(what=day, tuned=0, kept=0))


def _kept(counts: Counts) -> Iterator[KeptRow]:
    for reason in RequestOutcome:
        found = Counter({asked: n for asked, n in counts.items() if asked.outcome is reason})
        if found and reason is not RequestOutcome.TUNED:
            releases = [row.what for row in _rows(found, _release)][:_MOST_RELEASES]
            yield KeptRow(reason=reason, requests=found.total(), releases=tuple(releases))


def _release(asked: CountedRequest) -> str:
    library = LIBRARIES.get(asked.library)
    return f"{library.title if library else asked.library} {asked.release}".strip() or "others"


def _shape(asked: CountedRequest) -> str:
    *others, last = asked.ppn.split() or [""]
    ppn = f"{', '.join(others)} or {last}" if others else last
    return f"{asked.nodes} × {ppn}" if asked.nodes else "others"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read(kind: type[Read], told: Mapping[str, Any]) -> Read | None:
    """Return what a report says, None where it says nothing, or nothing that is understood."""
    try:
        return TypeAdapter(kind).validate_python(told) if told else None
    except ValidationError:
        return None


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
