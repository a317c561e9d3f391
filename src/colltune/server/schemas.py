"""What answers look like: each field with an example, of which the reference makes whole ones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

_ID = "a555f03d5cba0c1a2f5c3a5b1d7e9f00112233445566778899aabbccddeeff00"

RULES = """\
1 # colltune: bcast, 4 nodes x 8
7 # bcast
1 # communicator sizes
32 # processes
2 # message sizes
0 6 0 0 # from 0 B: binomial
262144 0 0 0 # from 256 KiB: the library's own decision
"""
JOB_FILE = f"""\
colltune-job 1
bundle {_ID}
library openmpi 4.1.4
user OMPI_MCA_coll_tuned_*
harmless *_verbose
shape 4x8
file 4x8/rules 7
{RULES}set OMPI_MCA_coll_tuned_use_dynamic_rules=1
set OMPI_MCA_coll_tuned_dynamic_rules_filename=/shared/colltune/1234/4x8/rules
end
"""
METRICS = """\
# HELP colltune_http_requests_total Requests answered.
# TYPE colltune_http_requests_total counter
colltune_http_requests_total{method="GET",route="/v1/select",status="200"} 12.0
"""
SUMMARY = f"""\
colltune-summary 1
job 4711
started 1795500000
ended 1795500060
nodes 2
state completed
user -
given openmpi 4.1.4 tuned {_ID}
left_out 0
end
"""
BundleId = Annotated[str, Field(examples=[_ID])]
Slot = Annotated[str, Field(examples=["openmpi-4.1.6"])]
CollectiveName = Annotated[str, Field(examples=["allreduce"])]
ConfigurationId = Annotated[str, Field(examples=["openmpi.allreduce.ring:segsize=65536"])]
Nodes = Annotated[int, Field(examples=[16])]
Ppn = Annotated[int, Field(examples=[1])]
Bytes = Annotated[int, Field(examples=[65536])]
Objective = Annotated[str, Field(examples=["trimmed-mean"])]
Time = Annotated[str, Field(examples=["2025-11-21T02:14:51+00:00"])]
Reason = Annotated[str, Field(examples=["predicted 1.56x faster than the default"])]
StatusText = Annotated[
    str,
    Field(
        description="predicted, or measured beside the default: confirmed or withdrawn",
        examples=["predicted"],
    ),
]


class RunnerUp(BaseModel):
    """A candidate that was not chosen."""

    configuration: ConfigurationId
    time_s: float = Field(examples=[6.0e-05])


class Decision(BaseModel):
    """What to use for one instance, and why."""

    collective: CollectiveName
    nodes: Nodes
    ppn: Ppn
    msize_bytes: Bytes
    algorithm: str = Field(examples=["ring"])
    parameters: str | None = Field(examples=[None])
    segsize_bytes: int | None = Field(examples=[65536])
    time_s: float | None = Field(examples=[4.1e-05])
    lower_s: float | None = Field(examples=[3.2e-05])
    upper_s: float | None = Field(examples=[5.4e-05])
    default_time_s: float | None = Field(examples=[6.4e-05])
    reason: Reason
    status: StatusText
    configuration: ConfigurationId
    gain: float = Field(examples=[1.56])
    gain_bound: float | None = Field(examples=[1.21])
    extrapolated: bool = Field(examples=[False])
    runners_up: list[RunnerUp]


class ShapeOf(BaseModel):
    """A job's shape."""

    nodes: Nodes
    ppn: Ppn


class IntervalOf(BaseModel):
    """What to use for message sizes from ``first_bytes`` to ``last_bytes`` (null: no end)."""

    collective: CollectiveName
    first_bytes: int = Field(examples=[0])
    last_bytes: int | None = Field(examples=[262143])
    configuration: ConfigurationId
    time_s: float | None = Field(examples=[4.1e-05])
    default_time_s: float | None = Field(examples=[6.4e-05])
    gain: float | None = Field(examples=[1.56])
    reason: Reason
    status: StatusText


class Table(BaseModel):
    """What to use on a shape, over all message sizes."""

    bundle: BundleId
    objective: Objective
    promise: str = Field(examples=["any-legal"])
    shape: ShapeOf
    intervals: list[IntervalOf]


class ContextOf(BaseModel):
    """Where measurements come from."""

    machine: str = Field(examples=["hydra"])
    library: str = Field(examples=["openmpi"])
    library_version: str = Field(examples=["4.1.6"])
    fabric: str = Field(examples=["Omni-Path"])
    cores_shared: str = Field("", examples=[""])


class BundleOf(BaseModel):
    """A bundle of the registry."""

    id: BundleId
    context: ContextOf
    collectives: list[CollectiveName]
    objective: Objective
    created_utc: Time
    size_bytes: int = Field(examples=[31337])
    slot: Slot
    in_force: bool = Field(examples=[True])


class EventOf(BaseModel):
    """A promotion, a rollback, or a step or the end of a trial."""

    sequence: int = Field(examples=[7])
    slot: Slot
    bundle_id: BundleId
    previous_id: str | None = Field(examples=[None])
    action: str = Field(examples=["promote"])
    at_utc: Time
    by: str = Field(examples=["retrain"])
    note: str = Field(examples=[""])
    share: float | None = Field(
        default=None, description="of the jobs, for a bundle on trial", examples=[None]
    )
    cause: str | None = Field(
        default=None,
        description="withdrawal where production withdrew decisions",
        examples=[None],
    )


class Bundles(BaseModel):
    """All bundles; ``in_force`` names the one of each MPI release that this service answers from.

    A registry's history can be ahead of that for a second.
    """

    in_force: dict[str, str] = Field(examples=[{"openmpi-4.1.6": _ID}])
    bundles: list[BundleOf]
    history: list[EventOf]


class Liveness(BaseModel):
    """That the process lives."""

    status: str = Field(examples=["live"])


class ProblemOf(BaseModel):
    """Why a request was not answered (RFC 9457)."""

    type: str = Field(examples=["about:blank"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["unknown bundle for 'openmpi 3.1.6'; known: openmpi-4.1.6"])
    code: str | None = Field(default=None, examples=["unknown"])


class Readiness(BaseModel):
    """Whether requests are answered, and why not."""

    ready: bool = Field(examples=[True])
    bundles: dict[str, str] = Field(examples=[{"openmpi-4.1.6": _ID}])
    problems: list[str] = Field(examples=[[]])


class Receipt(BaseModel):
    """What became of a job's summary; one that is set aside is never judged, and why is told."""

    job: str = Field(examples=["4711"])
    outcome: Literal["stored", "known", "set_aside"] = Field(examples=["set_aside"])
    reason: str | None = Field(default=None, examples=["clock_off"])
    detail: str | None = Field(default=None, examples=["its times cannot be right"])
