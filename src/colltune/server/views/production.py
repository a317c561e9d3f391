"""What production jobs proved, as the page shows it."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from colltune.production.status import ProductionStatus
from colltune.server.schemas import BundleId, ConfigurationName, MpiName, Ppn, Slot, Time, View

_GAIN = "the default's time over the arm's"


class _Told(View):
    """A part of `ProductionStatus`, field by field."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class PeriodView(_Told):
    """Node-hours that tuned jobs saved."""

    period: str = Field(description="a month, or all", examples=["2026-11"])
    node_hours: float = Field(examples=[412.0])
    lower: float = Field(description="of the interval", examples=[380.0])
    upper: float = Field(description="of the interval", examples=[450.0])


class CollectiveGainView(_Told):
    """How much faster tuned calls were than the control group's: over all decisions."""

    mpi_name: MpiName
    decisions: int = Field(examples=[14])
    gain: float = Field(description=_GAIN, examples=[1.31])
    lower: float = Field(description="of the 95 % interval", examples=[1.22])
    upper: float = Field(description="of the 95 % interval", examples=[1.4])
    saved_node_hours: float = Field(examples=[120.5])


class DecisionView(_Told):
    """A decision that production jobs proved or refuted."""

    slot: Slot
    mpi_name: MpiName
    nodes_first: int = Field(examples=[4])
    nodes_last: int = Field(examples=[7])
    ppn: Ppn
    first_bytes: int = Field(examples=[4096])
    last_bytes: int | None = Field(description="null: no end", examples=[8191])
    configuration: ConfigurationName
    arm: str = Field(description="tuned or candidate", examples=["tuned"])
    bundle_id: BundleId
    jobs: int = Field(description="of the arm", examples=[120])
    control_jobs: int = Field(examples=[31])
    gain: float = Field(description=_GAIN, examples=[0.53])
    lower: float = Field(examples=[0.48])
    upper: float = Field(examples=[0.59])
    since_utc: Time = Field(description="when it was proven or refuted")
    withdrawn_utc: str = Field(description="empty: it was not", examples=[""])
    revision: str = Field(description="the bundle without it; empty: none", examples=[""])
    note: str = Field(description="what the registry's history says of it", examples=[""])


class ArmView(_Told):
    """How many jobs were given an arm, and what became of them."""

    slot: Slot
    arm: str = Field(description="tuned, candidate or control", examples=["control"])
    bundle_id: str = Field(description="its id; empty: none", examples=[""])
    asked: int = Field(description="jobs that were given it", examples=[812])
    reported: int = Field(examples=[790])
    silent: int = Field(description="reported no run", examples=[22])
    own: int = Field(description="the user's settings decided", examples=[3])


class RollOutView(_Told):
    """A bundle on trial beside the one in force."""

    slot: Slot
    bundle_id: BundleId
    share: float = Field(description="of the jobs", examples=[0.05])
    shares: tuple[float, ...] = Field(description="of all steps", examples=[(0.05, 0.25, 1.0)])
    jobs: int = Field(description="judged at this step", examples=[140])
    jobs_wanted: int = Field(description="for a step on", examples=[200])
    lower: float | None = Field(
        description="time over that of the bundle in force", examples=[0.93]
    )
    upper: float | None = Field(examples=[1.01])
    compared: float | None = Field(
        description="share of the time in calls that it changes, of which jobs were compared; "
        "null: it changed none",
        examples=[0.9],
    )
    showed: str = Field(
        description="harm, no_harm, alike (it decides as before), not_compared",
        examples=["not_compared"],
    )
    harmed: bool = Field(examples=[False])
    why: str = Field(description="what it showed, in words", examples=["not enough to judge"])
    since_utc: Time
    by: str = Field(examples=["colltune-retrain"])


class StoppedTrial(_Told):
    """A trial that was stopped; nothing else happened to its slot since."""

    slot: Slot
    bundle_id: BundleId
    at_utc: Time
    by: str = Field(examples=["production (service)"])
    note: str = Field(description="why", examples=["37 jobs with 5% of all; this harms them"])


class DriftNotice(_Told):
    """The control group became slower or faster: no bundle is the reason."""

    slot: Slot
    ratio: float = Field(description="new over old time", examples=[1.2])
    since_utc: Time
    text: str = Field(examples=["all arms are 1.20x slower since 2026-11-20"])


class NotJudgedView(_Told):
    """What was not judged."""

    reason: str = Field(examples=["unknown bundle"])
    times: int = Field(examples=[2])


class ProductionView(_Told):
    """What production jobs proved so far."""

    machine: str = Field(examples=["leonardo"])
    recording: bool = Field(description="false: nothing is recorded", examples=[True])
    switch_on: str = Field(description="how, where it is off", examples=[""])
    control: float = Field(description="share of jobs without tuning", examples=[0.05])
    judged_utc: str = Field(description="when last; empty: never", examples=[""])
    jobs: int = Field(description="that were judged", examples=[90210])
    waiting: bool = Field(description="whether reports wait for the next look", examples=[False])
    saved: PeriodView | None = Field(description="since the beginning; null: no job was judged")
    months: tuple[PeriodView, ...] = Field(description="the latest first")
    collectives: tuple[CollectiveGainView, ...]
    proven_count: int = Field(examples=[12])
    refuted_count: int = Field(examples=[1])
    open_count: int = Field(description="on which nothing is sure yet", examples=[40])
    not_compared_count: int = Field(description="no jobs of two arms to compare", examples=[7])
    proven: tuple[DecisionView, ...] = Field(description="those that saved most")
    refuted: tuple[DecisionView, ...] = Field(description="the latest first")
    roll_outs: tuple[RollOutView, ...]
    stopped: tuple[StoppedTrial, ...] = Field(description="trials that ended so")
    drifts: tuple[DriftNotice, ...]
    arms: tuple[ArmView, ...]
    set_aside: tuple[NotJudgedView, ...] = Field(description="reports that were refused")
    left_out: tuple[NotJudgedView, ...] = Field(description="what could not be compared")


def production_view(status: ProductionStatus) -> ProductionView:
    return ProductionView.model_validate(status)
