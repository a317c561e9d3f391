"""What answers look like; of the page's, ``…View``, every field is read by ``page/*.js``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from colltune import __version__
from colltune.server import examples

_ID = "a555f03d5cba0c1a2f5c3a5b1d7e9f00112233445566778899aabbccddeeff00"


def example(content: dict[str, Any]) -> ConfigDict:
    """Return the configuration of a model that is shown by an example."""
    return ConfigDict(json_schema_extra={"examples": [content]})


class RunnerUp(BaseModel):
    """A candidate that was not chosen."""

    configuration: str
    time_s: float


class Decision(BaseModel):
    """What to use for one instance, and why."""

    model_config = example(examples.DECISION)

    collective: str
    nodes: int
    ppn: int
    msize_bytes: int
    algorithm: str
    parameters: str | None
    segsize_bytes: int | None
    time_s: float | None
    lower_s: float | None
    upper_s: float | None
    default_time_s: float | None
    reason: str
    status: str
    configuration: str
    gain: float
    gain_bound: float | None
    extrapolated: bool
    runners_up: list[RunnerUp]


class ShapeOf(BaseModel):
    """A job's shape."""

    nodes: int
    ppn: int


class IntervalOf(BaseModel):
    """What to use for message sizes from ``first_bytes`` to ``last_bytes`` (null: no end)."""

    collective: str
    first_bytes: int
    last_bytes: int | None
    configuration: str
    time_s: float | None
    default_time_s: float | None
    gain: float | None
    reason: str
    status: str


class Table(BaseModel):
    """What to use on a shape, over all message sizes."""

    model_config = example(examples.TABLE)

    bundle: str
    objective: str
    shape: ShapeOf
    intervals: list[IntervalOf]


class ContextOf(BaseModel):
    """Where measurements come from."""

    machine: str
    library: str
    library_version: str
    fabric: str


class BundleOf(BaseModel):
    """A bundle of the registry."""

    id: str
    context: ContextOf
    collectives: list[str]
    objective: str
    created_utc: str
    size_bytes: int
    slot: str
    in_force: bool


class EventOf(BaseModel):
    """A promotion or a rollback."""

    model_config = example(examples.BUNDLES["history"][0])

    sequence: int
    slot: str
    bundle_id: str
    previous_id: str | None
    action: str
    at_utc: str
    by: str
    note: str


class Bundles(BaseModel):
    """All bundles; ``in_force`` names the one of each MPI release that this service answers from.

    A registry's history can be ahead of that for a second.
    """

    model_config = example(examples.BUNDLES)

    in_force: dict[str, str]
    bundles: list[BundleOf]
    history: list[EventOf]


class Liveness(BaseModel):
    """That the process lives."""

    model_config = example({"status": "live"})

    status: str


class ProblemOf(BaseModel):
    """Why a request was not answered (RFC 9457)."""

    model_config = example(examples.PROBLEM)

    type: str
    title: str
    status: int
    detail: str


class Readiness(BaseModel):
    """Whether requests are answered, and why not."""

    model_config = example(examples.READY)

    ready: bool
    bundles: dict[str, str]
    problems: list[str]


class Stored(BaseModel):
    """What became of measurements that were sent; ``new`` is false where they were there."""

    model_config = example(examples.STORED)

    new: bool
    rows: int
    file: str
    sha256: str
    context: ContextOf


class View(BaseModel):
    """What all answers have in common: they are made once and never changed."""

    model_config = ConfigDict(frozen=True)


class CollectiveSummary(View):
    """What a bundle knows of one collective."""

    name: str = Field(examples=["allreduce"])
    mpi_name: str = Field(examples=["MPI_Allreduce"])
    learner: str = Field(examples=["regret_trees"])
    configurations: int = Field(description="how many were measured", examples=[9])
    shapes: int = Field(description="how many shapes were measured", examples=[44])
    default_measured: bool = Field(examples=[True])
    held_out: str = Field(
        description="how good decisions were on what was left out of the fit; empty: not known",
        examples=[
            "held out: 97% of the possible gain, 1% slower than the default, in 90 decisions"
        ],
    )


class FormatView(View):
    """A format of configuration files."""

    name: str = Field(examples=["openmpi-classic"])
    title: str = Field(examples=["Open MPI's classic rules file"])


class SlotView(View):
    """One release of an MPI library and the bundle that is in force for it."""

    slot: str = Field(examples=["openmpi-4.1.6"])
    library: str = Field(examples=["openmpi"])
    library_title: str = Field(examples=["Open MPI"])
    release: str = Field(examples=["4.1.6"])
    machine: str = Field(examples=["leonardo"])
    fabric: str = Field(description="empty where it was not stated", examples=["HDR InfiniBand"])
    objective: str = Field(description="the statistic of the runtime", examples=["trimmed-mean"])
    bundle: str = Field(description="its id, a SHA-256", examples=[_ID])
    since_utc: str = Field(
        description="since when it is in force", examples=["2025-11-21T02:14:51+00:00"]
    )
    created_utc: str = Field(
        description="when it was fitted", examples=["2025-11-21T02:11:09+00:00"]
    )
    colltune_version: str = Field(
        description="of the colltune that fitted it", examples=[__version__]
    )
    nodes: tuple[int, int] = Field(description="fewest and most measured", examples=[(4, 2048)])
    ppn: tuple[int, int] = Field(description="fewest and most measured", examples=[(1, 32)])
    collectives: tuple[CollectiveSummary, ...]
    formats: tuple[FormatView, ...] = Field(description="that the release reads, the best first")
    not_written: str = Field(
        description="why no configuration file can be written; empty if one can", examples=[""]
    )


class HistoryView(View):
    """A promotion or a rollback, as the registry recorded it."""

    sequence: int = Field(examples=[7])
    slot: str = Field(examples=["openmpi-4.1.6"])
    action: str = Field(examples=["promote"])
    bundle: str = Field(description="in force from then on", examples=[_ID])
    previous: str | None = Field(description="in force before", examples=[None])
    at_utc: str = Field(examples=["2025-11-21T02:14:51+00:00"])
    by: str = Field(examples=["colltune-retrain"])
    note: str = Field(description="shortened", examples=["regret 1.031, was 1.044"])
    in_force: bool = Field(description="whether this service answers from it", examples=[True])
    is_latest: bool = Field(description="whether it is the slot's latest event", examples=[True])


class OverviewView(View):
    """Everything that the page needs before anything is chosen."""

    colltune_version: str = Field(examples=[__version__])
    slots: tuple[SlotView, ...]
    looked_at: SlotView | None = Field(
        description="the bundle that was asked for, in force or not", examples=[None]
    )
    warnings: tuple[str, ...] = Field(
        description="what is wrong although requests are answered", examples=[()]
    )
    history: tuple[HistoryView, ...] = Field(description="the latest first")
    history_left_out: int = Field(description="older events that are not listed", examples=[0])


class ConfigurationView(View):
    """A configuration as the map shows it."""

    id: str = Field(examples=["openmpi.allreduce.ring:segsize=65536"])
    name: str = Field(description="algorithm and parameters", examples=["ring segsize=65536"])
    code: str = Field(description="what stands in its fields; no two are alike", examples=["B2"])
    rank: int = Field(
        description="of its algorithm, by how often it is used; 0 is the library's own decision",
        examples=[2],
    )
    is_default: bool = Field(examples=[False])
    fields: int = Field(description="how many fields of the map use it", examples=[112])


class ReasonView(View):
    """A reason for which the default is replaced or kept."""

    code: str = Field(examples=["G"])
    text: str = Field(examples=["replaced: the predicted gain is beyond the model's error"])
    replaced: bool = Field(examples=[True])
    fields: int = Field(description="for how many fields of the map it holds", examples=[252])


class MapRow(View):
    """The decisions of one shape, one value per message size."""

    nodes: int = Field(examples=[16])
    ppn: int = Field(examples=[1])
    measured: bool = Field(examples=[True])
    chosen: tuple[int, ...] = Field(description="indices of `configurations`")
    why: tuple[int, ...] = Field(description="indices of `reasons`")
    gain: tuple[float, ...] = Field(description="predicted, 1 where the default is kept")
    bound: tuple[float | None, ...] = Field(description="lower bound of the gain that was weighed")
    extrapolated: tuple[bool, ...] = Field(description="outside the measured range")


class MapView(View):
    """A decision map of one collective."""

    slot: str = Field(examples=["openmpi-4.1.6"])
    bundle: str = Field(examples=[_ID])
    collective: str = Field(examples=["allreduce"])
    mpi_name: str = Field(examples=["MPI_Allreduce"])
    block_per_rank: bool = Field(
        description="whether a message size is that of the block per process", examples=[False]
    )
    configurations: tuple[ConfigurationView, ...]
    reasons: tuple[ReasonView, ...]
    msize_bytes: tuple[int, ...] = Field(examples=[(64, 96, 128)])
    measured_sizes: tuple[bool, ...]
    rows: tuple[MapRow, ...]
    shapes_left_out: int = Field(description="measured shapes that found no place", examples=[0])
    replaced_share: float = Field(
        description="of the measured shapes and sizes, where the default is not kept",
        examples=[0.42],
    )
    mean_gain: float = Field(
        description="predicted, geometric mean over the same, 1 where the default is kept",
        examples=[1.18],
    )
    mean_bound: float | None = Field(description="the same of its lower bound", examples=[1.09])


class PredictedConfiguration(View):
    """What is predicted for one configuration on one instance."""

    column: int = Field(description="index of `MapView.configurations`", examples=[2])
    id: str = Field(examples=["openmpi.allreduce.ring:segsize=65536"])
    name: str = Field(examples=["ring segsize=65536"])
    time_s: float = Field(examples=[1.2e-4])
    lower_s: float = Field(description="of the 90 % interval", examples=[0.9e-4])
    upper_s: float = Field(description="of the 90 % interval", examples=[1.7e-4])
    excluded: str = Field(
        description="why it cannot be chosen here; empty if it can", examples=[""]
    )


class PredictionView(View):
    """Everything that is predicted for one instance, and what became of it."""

    slot: str = Field(examples=["openmpi-4.1.6"])
    bundle: str = Field(examples=[_ID])
    objective: str = Field(examples=["trimmed-mean"])
    collective: str = Field(examples=["allreduce"])
    nodes: int = Field(examples=[16])
    ppn: int = Field(examples=[1])
    msize_bytes: int = Field(examples=[65536])
    measured: bool = Field(description="whether this shape and size were measured", examples=[True])
    extrapolated: bool = Field(examples=[False])
    chosen: int = Field(description="index of `MapView.configurations`", examples=[2])
    default: int = Field(description="the same of the library's own decision", examples=[0])
    replaced: bool = Field(examples=[True])
    status: str = Field(
        description="predicted, or measured beside the default: confirmed or withdrawn",
        examples=["predicted"],
    )
    reason: str = Field(examples=["predicted 1.56x faster than the default"])
    gain: float | None = Field(
        description="predicted, of what is chosen or, if that is the default, of the fastest"
        " candidate; null where nothing can be compared",
        examples=[1.56],
    )
    gain_bound: float | None = Field(description="its lower bound", examples=[1.21])
    gain_required: float | None = Field(
        description="what the guard asked of it; null where it did not ask", examples=[1.12]
    )
    considered: int | None = Field(description="whose gain that is", examples=[2])
    configurations: tuple[PredictedConfiguration, ...] = Field(description="the fastest first")


class IntervalView(View):
    """What is used for messages from ``first_bytes`` to ``last_bytes``; null: without end."""

    first_bytes: int = Field(examples=[0])
    last_bytes: int | None = Field(examples=[26386])
    name: str = Field(examples=["recursive_doubling"])
    is_default: bool = Field(examples=[False])
    gain: float | None = Field(description="predicted at its geometric middle", examples=[1.56])
    status: str = Field(
        description="predicted, or measured beside the default: confirmed or withdrawn",
        examples=["predicted"],
    )
    reason: str = Field(examples=["predicted 1.56x faster than the default"])


class JobCollective(View):
    """What a job's own shape gets for one collective."""

    name: str = Field(examples=["allreduce"])
    mpi_name: str = Field(examples=["MPI_Allreduce"])
    measured: bool = Field(description="whether this shape was measured", examples=[True])
    extrapolated: bool = Field(description="outside the measured shapes", examples=[False])
    intervals: tuple[IntervalView, ...]


class JobFile(View):
    """One file of a job's configuration."""

    name: str = Field(examples=["colltune-openmpi-4.1.6-16x1.rules"])
    url: str = Field(description="relative to the page", examples=["v1/config/openmpi/4.1.6?…"])
    text: str


class JobView(View):
    """A job's configuration, how it is put into effect, and what to know about it."""

    slot: str = Field(examples=["openmpi-4.1.6"])
    bundle: str = Field(examples=[_ID])
    library: str = Field(examples=["openmpi"])
    release: str = Field(description="for which the file is written", examples=["4.1.6"])
    nodes: int = Field(examples=[16])
    ppn: int = Field(examples=[1])
    format: str = Field(examples=["openmpi-classic"])
    changes_anything: bool = Field(description="if not, no file is needed", examples=[True])
    files: tuple[JobFile, ...]
    environment: dict[str, str] = Field(
        description="variables; ``@folder@`` stands for the absolute folder of the files",
        examples=[{"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}],
    )
    command: tuple[str, ...] = Field(
        description="the same as options of mpirun or mpiexec, values as in `environment`",
        examples=[("mpirun", "--mca", "coll_tuned_use_dynamic_rules", "1")],
    )
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = Field(description="what was left to the library, and why")
    collectives: tuple[JobCollective, ...]
