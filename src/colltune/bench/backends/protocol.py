"""What the runner asks of a benchmark backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from colltune.bench.campaign import Campaign
from colltune.bench.launchers import Launcher
from colltune.bench.schedule import Cell, ScheduleStep
from colltune.domain import (
    Collective,
    Context,
    Measurement,
    Portfolio,
    RunStatus,
    Shape,
    Synchronisation,
)
from colltune.mpi.installation import Installation


class Ending(StrEnum):
    """Why a launch ended."""

    PLAN = "plan"
    BUDGET = "budget"
    CRASH = "crash"
    HANG = "hang"


MOST_PATIENCE_S = 15.0
BLAME = {Ending.CRASH: RunStatus.CRASH, Ending.HANG: RunStatus.TIMEOUT}
"""What becomes of the cell that is to blame for a launch's ending."""


@dataclass(frozen=True)
class LaunchPlan:
    """One launch on `shape`: the steps to execute on `cells`, in order, within `budget_s` seconds.

    A cell's own shape may be smaller than the launch's; its processes are then the first ``ppn`` of
    each of the first ``nodes`` nodes. With `side_by_side` several disjoint sets of nodes measure
    at once. A launch is thought to cost `launch_s` seconds beside its steps; where its start takes
    longer it ends later, but not after `latest_s` seconds. One that does not come to its first job
    within `start_s` seconds hangs, and so does what shows no sign of life for `patience_s` seconds,
    and three times its own, after that. Without windows there are so many `barriers` before each
    repetition.
    """

    shape: Shape
    cells: tuple[Cell, ...]
    steps: tuple[ScheduleStep, ...]
    budget_s: float
    synchronisation: Synchronisation = Synchronisation.BARRIER
    side_by_side: bool = False
    patience_s: float = MOST_PATIENCE_S
    launch_s: float = 1.0
    start_s: float = MOST_PATIENCE_S
    latest_s: float = 0.0
    barriers: int = 1

    @property
    def limit_s(self) -> float:
        """Seconds after which the launch is killed, whatever it does."""
        return max(self.budget_s, self.latest_s)


@dataclass(frozen=True)
class LaunchResult:
    """What a launch brought.

    ``timed_s`` are the seconds inside timed loops, ``wall_s`` those of the whole launch;
    ``suspect`` is the cell to blame for a crash or hang, ``in_flight`` those that may be where
    several were measured at once, and ``message`` what the program said. ``facts`` are what only
    the launch could tell: hosts, binding, clock scheme. ``note`` is a sentence for the user about
    what could not be had as it was asked for. ``launch_s`` is what it cost beside its steps, None
    where the backend does not know; with ``cut`` it ended so before its first job.

    ``measurements`` hold one entry for each cell that was timed or is to blame.
    """

    measurements: tuple[Measurement, ...]
    ending: Ending
    timed_s: float
    wall_s: float
    suspect: Cell | None = None
    message: str = ""
    in_flight: tuple[Cell, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    launch_s: float | None = None
    cut: bool = False


@runtime_checkable
class FollowsVisits(Protocol):
    """A backend that knows how far the launch is that it is running."""

    @property
    def begun(self) -> Sequence[int]:
        """Indices into the plan's cells of those whose visits have begun, the latest last."""
        ...


@runtime_checkable
class OnCores(Protocol):
    """A backend that starts processes on nodes of so many ``cores``."""

    cores: int


def barriers_before(backend: object, shape: Shape, number: int) -> int:
    """Return how many barriers `backend` has before each repetition of launch `number` of a shape.

    On shared cores it is one and two by turns: which processes hold a core after a barrier can
    decide what is fast, and a gain that rests on that has to differ between launches.
    """
    shared = isinstance(backend, OnCores) and shape.ppn > backend.cores
    return 1 + number % 2 * shared


@dataclass(frozen=True)
class Means:
    """What a backend can be made of, found when it is asked for.

    ``installation`` returns the MPI that the campaign or its user names, ``launcher`` what starts
    programs of it; ``recorded`` is the dataset to replay. With ``imagined`` the campaign is only
    planned: neither the MPI nor any other program need be there.
    """

    installation: Callable[[], Installation]
    launcher: Callable[[Installation], Launcher]
    recorded: Path | None = None
    imagined: bool = False


class Backend(Protocol):
    """Measures cells; a campaign's runner needs nothing else.

    ``measures_subshapes`` tells whether a launch can hold cells of smaller shapes than its own.
    """

    measures_subshapes: bool

    @classmethod
    def made_for(cls, campaign: Campaign, means: Means) -> Self:
        """Return the backend that measures `campaign`.

        Raises
        ------
        CampaignError, DataError, ProgramError
            If something that it needs is not there.
        """
        ...

    @property
    def launch_s(self) -> float:
        """Seconds that a launch is thought to cost beside its steps before one was made."""
        ...

    def context(self, machine: str) -> Context:
        """Return the context of everything this backend measures.

        `machine` is the name that the campaign gives this machine.
        """
        ...

    def portfolio(self, campaign: Campaign, collective: Collective) -> Portfolio:
        """Return the configurations of `collective` that the campaign asks for."""
        ...

    def feasible(self, cell: Cell) -> bool:
        """Tell whether the cell's configuration runs as itself on its instance."""
        ...

    def together(self, cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
        """Return `cells` in groups, each of which one launch can measure.

        A library that cannot change its algorithm while it runs needs a launch per configuration.
        """
        ...

    def provenance(self) -> Mapping[str, str]:
        """Return facts to be stored with each launch."""
        ...

    def run(
        self, plan: LaunchPlan, launch: str, folder: Path, progress: Callable[[float], None]
    ) -> LaunchResult:
        """Execute `plan` as the launch named `launch`.

        Raw output goes into `folder`; `progress` is called with the seconds spent so far.
        """
        ...

    def answers(self, shape: Shape, within_s: float) -> bool:
        """Tell whether a program that does nothing still starts and ends on all of `shape`.

        `within_s` are the seconds to wait for it.
        """
        ...

    def salvage(self, folder: Path) -> tuple[Measurement, ...]:
        """Return what a killed launch left in `folder`."""
        ...


def context_of(campaign: Campaign, backend: Backend) -> Context:
    """Return the context of what `backend` measures of `campaign`."""
    context = backend.context(campaign.machine)
    shared = context.cores_shared
    if isinstance(backend, OnCores):
        shared = campaign.cores_shared(backend.cores)
    return replace(context, fabric=campaign.fabric or context.fabric, cores_shared=shared)
