"""What the page's front tells an administrator: health, jobs, gains, drift, and what is next."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import geometric_mean
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from colltune.decisions import Status
from colltune.models.confirmations import Confirmation
from colltune.mpi import LIBRARIES
from colltune.plot_data.decisions import decision_map
from colltune.plot_data.summaries import only_predicted
from colltune.selector.argmin import ModelSelector
from colltune.server.job_counts import CountedRequest, Counts, RequestOutcome
from colltune.server.metrics import content_of
from colltune.server.schemas import (
    BundleId,
    BundleView,
    CollectiveName,
    ConfigurationName,
    MpiName,
    Nodes,
    Ppn,
    Slot,
    Time,
    View,
)
from colltune.server.state import LoadedBundle, ServiceState
from colltune.server.watcher import BundleWatcher

_MOST_SHAPES, _MOST_WANTED, _MOST_RELEASES = 12, 6, 5
_HANGS_S = 60.0
Read = TypeVar("Read", bound=BaseModel)


class RequestRow(View):
    """Requests for jobs' files: ``kept`` left all to the library, ``tuned`` did not."""

    what: str = Field(description="a release, a shape, or a day", examples=["Open MPI 4.1.6"])
    tuned: int = Field(examples=[312])
    kept: int = Field(examples=[40])


class KeptRow(View):
    """Why requests of today got the default."""

    reason: str = Field(examples=["no bundle fits its MPI release"])
    requests: int = Field(examples=[31])
    releases: tuple[str, ...] = Field(examples=[("Open MPI 5.0.3",)])


class Requests(View):
    """Requests for jobs' files of one day, and of those before it."""

    today: RequestRow = Field(description="since midnight, UTC")
    since_utc: Time = Field(description="when this service began")
    stored: bool = Field(description="whether counts survive a restart", examples=[True])
    confirmed: int = Field(description="of the tuned, on shapes with confirmed gains", examples=[9])
    reasons: tuple[KeptRow, ...]
    releases: tuple[RequestRow, ...]
    shapes: tuple[RequestRow, ...] = Field(description="the most frequent ones")
    shapes_left_out: int = Field(examples=[0])
    days: tuple[RequestRow, ...] = Field(description="days before, the latest first")


class ConfirmedGain(View):
    """A decision that was measured beside the default."""

    mpi_name: MpiName
    nodes: Nodes
    ppn: Ppn
    first_bytes: int = Field(examples=[0])
    last_bytes: int | None = Field(examples=[26386])
    name: ConfigurationName
    gain: float | None = Field(examples=[1.41])
    lower: float | None = Field(description="of the 95 % interval", examples=[1.22])
    upper: float | None = Field(description="of the 95 % interval", examples=[1.63])
    launches: int = Field(examples=[3])


class HeldOutGain(View):
    """How fast decisions were on measurements that their models had not seen."""

    instances: int = Field(examples=[196])
    shapes: int = Field(examples=[13])
    geometric_mean_speedup: float = Field(examples=[1.2])
    geometric_mean_speedup_interval: tuple[float, float] | None = Field(examples=[(1.13, 1.3)])
    harm_share: float = Field(description="slower than the default, beyond noise", examples=[0.02])


class ShiftView(View):
    """How runtimes changed: new over old time."""

    of: str = Field(description="a collective, all, or a configuration", examples=["all"])
    since: str = Field(description="the fit, or the latest allocations", examples=["fit"])
    ratio: float = Field(examples=[1.03])
    allocations: int = Field(examples=[12])
    alarm: bool = Field(examples=[False])


class DriftView(View):
    """What retraining last found of drift."""

    alarm: bool = Field(examples=[False])
    shifts: tuple[ShiftView, ...]


class WantedView(View):
    """A collective on a shape that jobs asked for and that wants measuring."""

    collective: CollectiveName
    shape: str = Field(examples=["8x32"])
    requests: int = Field(examples=[23])
    extrapolated: int = Field(description="message sizes outside the range", examples=[20])
    abstained: int = Field(description="message sizes left to the default", examples=[0])


class CampaignView(View):
    """The next campaign, as retraining planned it."""

    problem: str = Field(default="", description="why there is none", examples=[""])
    nodes: tuple[int, ...] = ()
    ppn: tuple[int, ...] = ()
    collectives: tuple[str, ...] = ()
    expected_s: float = Field(default=0.0, examples=[599.1])
    budget_s: float = Field(default=0.0, examples=[14400.0])
    covered: float = Field(default=0.0, description="share of what is wanted", examples=[1.0])
    wanted: tuple[WantedView, ...] = ()


class SlotFront(View):
    """What is known of one slot beyond `SlotView`."""

    slot: Slot
    bundle: BundleId
    confirmed: tuple[ConfirmedGain, ...]
    withdrawn: int = Field(description="decisions taken back when measured again", examples=[4])
    mean: tuple[float, float, float] | None = Field(
        description="geometric means of the confirmed gains and of their intervals' ends",
        examples=[(1.32, 1.18, 1.49)],
    )
    held_out: HeldOutGain | None
    drift: DriftView | None
    campaign: CampaignView | None
    outcome: str = Field(description="of the latest retraining", examples=["promoted"])
    reason: str = Field(examples=["not worse"])


class FrontView(View):
    """The front of the page, in addition to what `OverviewView` has."""

    attention: tuple[str, ...] = Field(description="what somebody should see to", examples=[()])
    registry_read_s: float = Field(description="since it was last read", examples=[0.4])
    retraining_utc: str = Field(description="when it last ran; empty: never", examples=[""])
    reported_utc: str = Field(description="when it last reported; empty: never", examples=[""])
    arrived: int | None = Field(
        description="files of measurements since then; null: this service takes none", examples=[2]
    )
    requests: Requests
    slots: tuple[SlotFront, ...]


class CollectiveGain(View):
    """What models predict of one collective, where they alone decide."""

    mpi_name: MpiName
    fields: int = Field(description="measured instances where they replace the default")
    of: int = Field(description="measured instances")
    gain: float | None = Field(description="geometric mean", examples=[1.21])
    bound: float | None = Field(description="the same of the lower bounds", examples=[1.09])


class GainView(BundleView):
    """The gains that are only predicted; what was confirmed is left out."""

    collectives: tuple[CollectiveGain, ...]


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


def gain_view(selector: ModelSelector, slot: str) -> GainView:
    found = []
    for collective in selector.bundle.collectives:
        decided = decision_map(selector, collective)
        fields, gain, bound = only_predicted(decided)
        found.append(
            CollectiveGain(
                mpi_name=collective.mpi_name,
                fields=fields,
                of=int(decided.inside.sum()),
                gain=gain,
                bound=bound,
            )
        )
    return GainView(slot=slot, bundle=selector.bundle.id, collectives=tuple(found))


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
        return kind.model_validate(told) if told else None
    except ValidationError:
        return None


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
