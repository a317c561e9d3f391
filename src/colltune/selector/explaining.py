"""What runs for one call under a configuration file, why, and what it costs by a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from colltune.decisions import Prediction, Selection
from colltune.domain import Configuration, Instance, Shape
from colltune.errors import BundleError, LibraryError, say
from colltune.mpi import library
from colltune.mpi.job_files import read_script
from colltune.mpi.job_variables import concerns_collectives, is_script
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.opened_file import OpenFile
from colltune.mpi.programs import MOST_PROMISED, Harm, Harms, Programs, Results
from colltune.mpi.rules import Call, Outcome
from colltune.mpi.running import Promises, Refusal
from colltune.text import UNPRINTED, computed

if TYPE_CHECKING:
    from colltune.models.bundle import Bundle
    from colltune.models.costs.breakdown import Costs, Share


@dataclass(frozen=True)
class CostPart:
    """One configuration's predicted time and cost terms."""

    configuration: Configuration
    prediction: Prediction | None
    """its runtime; null: not known"""
    terms: tuple[Share, ...]
    """what it is made of; empty: not known"""


@dataclass(frozen=True)
class ExplainedCosts:
    """What a call takes."""

    shape: Shape
    decision: Selection
    """what the bundle decides itself"""
    extrapolated: bool
    """outside what was measured"""
    cost_model: str | None
    """what the cost terms are by"""
    parts: tuple[CostPart, ...]
    """what runs, and the default if that is something else"""


def explained_costs(
    bundle: Bundle,
    call: Call,
    configuration: Configuration,
    costs: Costs,
    source: str | None,
    programs: Programs,
) -> ExplainedCosts:
    """Return what a call that runs `configuration` costs, by a bundle and by `costs`.

    ``source`` says in words what the latter are by; ``programs`` are those that a decision has to
    be safe for.
    """
    from colltune.selector.argmin import legal_selector

    if configuration.library != bundle.context.library:
        both = f"{bundle.context.library} and {configuration.library}"
        what = "a bundle and a file"
        raise say("libraries-differ", BundleError, what=what, done="joined", libraries=both)
    shape = Shape(call.nodes, -(-call.comm_size // call.nodes))
    default = Configuration.default(configuration.library, call.collective)
    forecast = bundle.model(call.collective).forecast(shape.nodes, shape.ppn, call.msize_bytes)
    parts = tuple(
        _part(bundle, costs, one, shape, call) for one in dict.fromkeys((configuration, default))
    )
    selector = legal_selector(bundle, programs)
    decision = selector.select(Instance(call.collective, shape, call.msize_bytes))
    return ExplainedCosts(shape, decision, bool(forecast.extrapolated[0]), source, parts)


def _part(
    bundle: Bundle, costs: Costs, configuration: Configuration, shape: Shape, call: Call
) -> CostPart:
    from colltune.models.costs.breakdown import shares
    from colltune.models.costs.network import ONE_RAIL, Instances

    model = bundle.model(call.collective)
    prediction = None
    if configuration in model.configurations:
        forecast = model.forecast(shape.nodes, shape.ppn, call.msize_bytes)
        at = 0, model.configurations.index(configuration)
        ends = (forecast.time_s, forecast.lower_s, forecast.upper_s)
        prediction = Prediction(*(float(end[at]) for end in ends))
    cost = costs.get(configuration)
    if cost is None:
        return CostPart(configuration, prediction, ())
    instances = Instances.of(shape.nodes, shape.ppn, call.msize_bytes)
    seconds = cost.by_coefficient_s(instances, ONE_RAIL)[0]
    return CostPart(configuration, prediction, shares(seconds, generic=cost.is_generic))


@dataclass(frozen=True)
class Explanation:
    """What `rules explain` prints."""

    file: str
    """the file"""
    format: str
    """its format"""
    library: str
    """MPI library"""
    release: str
    """release that was asked about"""
    release_assumed: bool
    """whether no release was named"""
    dropped: str
    """why the release ignores the file as a whole, else empty"""
    call: Call
    """the call"""
    outcome: Outcome
    """what runs, and why"""
    harms: Harms = field(metadata=UNPRINTED)
    rounds_otherwise: str = ""
    """of a reduction: why its bits may be others than the library's own decision gives, else
    empty"""
    costs: ExplainedCosts | None = None
    """what the call takes, with --bundle"""

    @computed
    def breaks(self) -> tuple[Harm, ...]:
        """What the algorithm does to legal programs."""
        return self.harms.found


def callers(job: Shape, communicator: str, comm_size: int | None) -> tuple[int, int, bool]:
    """Return how many processes call, on how many nodes, and whether on MPI_COMM_WORLD."""
    if comm_size is not None:
        if comm_size > job.nprocs:
            wanted = f"at most the {job.nprocs} processes of the job"
            raise say("not-allowed", LibraryError, value=comm_size, wanted=wanted).of("--comm-size")
        return comm_size, -(-comm_size // job.ppn), comm_size == job.nprocs
    if communicator == "leaders":
        return job.nodes, job.nodes, False
    if communicator == "node":
        return job.ppn, 1, False
    return job.nprocs, job.nodes, True


def explained(opened: OpenFile, call: Call, variables: Mapping[str, str] | None) -> Explanation:
    """Return what `call` runs in a job with `variables`.

    Without any it sets exactly those that put the file into effect.
    """
    parsed = opened.parse()
    outcome = parsed.decide(call, variables)
    outcome = replace(outcome, reasons=(*outcome.reasons, *_only_the_job_knows(opened)))
    about = opened.source, opened.format.name, opened.format.library, opened.release, opened.assumed
    told = _harms(opened, call, outcome), _rounding(opened, call, outcome)
    return Explanation(*about, parsed.dropped, call, outcome, *told)


def _rounding(opened: OpenFile, call: Call, outcome: Outcome) -> str:
    """Return why a reduction's bits may be others than by the library's own decision."""
    bound = with_libcolltune(library(opened.format.library)).at(opened.release)
    programs = replace(
        MOST_PROMISED, builtin_operations=call.builtin_operation, results=Results.SAME_BITS
    )
    place = Shape(1, call.comm_size) if call.nodes == 1 else Shape(call.nodes, call.ppn)
    runs = bound.runs(outcome.configuration, place, Promises(programs))
    told = runs.parts is not None or runs.refusal in (Refusal.OTHER_BITS, Refusal.HARMS_PROGRAMS)
    return runs.why_not_at(call.msize_bytes) if told and call.collective.reduces else ""


def _only_the_job_knows(opened: OpenFile) -> list[str]:
    """Return what a script sets to values that are not known before the job runs."""
    if not opened.format.lists_variables or not is_script(opened.text):
        return []
    return [
        f"It depends on {each.unknown}, which only the job knows: line {each.line} sets"
        f" {each.name}."
        for each in read_script(opened.text).found
        if each.unknown and concerns_collectives(each.name)
    ]


def _harms(opened: OpenFile, call: Call, outcome: Outcome) -> Harms:
    """Return what the algorithm that runs does to legal programs with messages of this size."""
    bound = with_libcolltune(library(opened.format.library)).at(opened.release)
    try:
        runs = bound.effective(outcome.configuration, call.comm_size, call.msize_bytes)
        return bound.harms(runs)
    except LibraryError:
        return Harms()
