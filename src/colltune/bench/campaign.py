"""What is to be measured: a campaign. ``campaign_file`` tells how its file is written.

`focused` narrows a campaign down to what an application uses, by its profile. Measured are the
campaign's collectives that the application calls, with the message sizes that it passes (the mean
of each bin), and with the campaign's own sizes between and next to them: those tell models what
lies in between, and get little time. A communicator's shape is measured itself if it is one of the
campaign's shapes, or fits into them where launches measure smaller shapes; otherwise the two
nearest of the campaign's shapes share its weight, of those on one node or of those on several, as
it is itself.
"""

from __future__ import annotations

import hashlib
import json
import math
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from colltune.bench.schedule import octaves_apart
from colltune.bench.simulated import Simulation
from colltune.dataset.profile import Profile, Use
from colltune.domain import Collective, Instance, Portfolio, Shape, Synchronisation
from colltune.errors import CampaignError
from colltune.mpi import DEFAULT_LIBRARY, LIBRARIES, MpiLibrary
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.programs import FOR_A_PROGRAM, Programs
from colltune.provenance import usable_cores
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.selector.confirming import ContestedInstance


LEAST, MOST = 0.1, 10.0
"""Bounds of a weight; the mean instance of the application has 1."""
_FEW_PROCESSES = 4
"""On fewer of them algorithms hardly differ."""
_BOUNDS = (
    (1, "be at least 1", ("nodes", "ppn", "fanouts")),
    (0, "not be negative", ("msizes_bytes", "segsizes_bytes")),
)
_OUTSIDE_IDENTITY = ("total_s", "part", "profile", "launch_s")
# their defaults are left out: a run that was killed before there was a choice goes on
_CAME_LATER = (
    "programs",
    "interposed",
    "smpi",
    "focus",
    "contests",
    "weights",
    "repeat_shapes",
    "launcher_program",
)


class Spent(NamedTuple):
    """The `share` of the application's time in collectives spent on messages of `msize_bytes`."""

    collective: Collective
    shape: Shape
    msize_bytes: int
    share: float


class SizeWeight(NamedTuple):
    """The `weight` of a collective's messages of `least_bytes` to `most_bytes` (None: no bound)."""

    collective: Collective
    least_bytes: int
    most_bytes: int | None
    weight: float

    def holds(self, msize_bytes: int) -> bool:
        """Tell whether messages of `msize_bytes` are meant."""
        most_bytes = math.inf if self.most_bytes is None else self.most_bytes
        return self.least_bytes <= msize_bytes <= most_bytes

    def __str__(self) -> str:
        return f"{self.least_bytes}..{'' if self.most_bytes is None else self.most_bytes}"


def weighed(
    instances: Sequence[Instance], focus: Focus | None, given: Sequence[SizeWeight]
) -> tuple[float, ...]:
    """Return the weights of `instances`: by `focus` times those `given`, which have the mean 1.

    None where all count as much.
    """
    weights = focus.weights(instances) if focus else (1.0,) * len(instances)
    if not given or not instances:
        return weights if focus else ()
    factors = [
        next(
            (g.weight for g in given if g.collective is i.collective and g.holds(i.msize_bytes)), 1
        )
        for i in instances
    ]
    mean = math.fsum(factors) / len(factors)
    return tuple(w * factor / mean for w, factor in zip(weights, factors, strict=True))


@dataclass(frozen=True)
class Focus:
    """What an application spends its time on.

    ``shapes`` are to be measured, whatever the campaign's nodes and ppn; ``spent`` has each
    instance once. ``covered`` is the share of the time in collectives that they stand for,
    ``of_run`` the share of the run that is spent in collectives, None if that is not known.
    """

    shapes: tuple[Shape, ...]
    spent: tuple[Spent, ...]
    covered: float
    of_run: float | None = None

    def weights(self, instances: Iterable[Instance]) -> tuple[float, ...]:
        """Return how much time each of `instances` is worth, `LEAST` to `MOST`.

        Those that the application does not use are there to tell what lies between others.
        """
        return tuple(self._by_instance.get(instance, LEAST) for instance in instances)

    @cached_property
    def _by_instance(self) -> dict[Instance, float]:
        mean = sum(s.share for s in self.spent) / max(1, len(self.spent))
        return {
            Instance(s.collective, s.shape, s.msize_bytes): min(MOST, max(LEAST, s.share / mean))
            for s in self.spent
        }


@dataclass(frozen=True)
class CampaignPart:
    """Number ``index`` of the ``count`` parts (from 1) that a campaign is split into."""

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise CampaignError(f"part {self} must be I/N with 1 <= I <= N")

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> CampaignPart:
        """Return the part written ``2/8``.

        Raises
        ------
        CampaignError
            If `text` is no such part, or counts from 0.
        """
        index, _, count = text.partition("/")
        if not (index.isdigit() and count.isdigit()):
            raise CampaignError(f"part {text!r} is not I/N, such as 2/8")
        return cls(int(index), int(count))


def usual_ppn(library: str, nodes: int, cores: int) -> int:
    """Return with how many processes on each of `nodes` nodes of `cores` cores to measure.

    One per core. Where that is too few, and waiting processes leave their core to others, a few
    more share cores.

    Raises
    ------
    CampaignError
        If there is one core, and processes of `library` do not share it.
    """
    known = LIBRARIES.get(library)
    yields = known is not None and known.toolchain.yields
    if nodes == 1 and cores < _FEW_PROCESSES and yields:
        return _FEW_PROCESSES
    if nodes == 1 and cores == 1:
        raise CampaignError(
            "one process per core is one process here, which has nobody to talk to",
            "Allow more "
            "cores (processor binding, control group), or name a number of processes (ppn) to "
            "measure what holds for jobs on a shared core only.",
        )
    return cores


@dataclass(frozen=True)
class Campaign:
    """A measuring campaign; ``campaign_file`` tells the meaning of each field.

    ``part`` tells which of its shapes are measured here, with an equal share of the budget.

    Most fields are keys of the file, with the same meaning and default: `collectives, nodes, ppn`,
    `msizes_bytes, msizes_bytes_of, only, skip, segsizes_bytes, fanouts, programs, profile`,
    `weights, machine, fabric, cores_per_node, library, release, mpi, interposed, mpibenchmark`,
    `smpi, launcher, launcher_program, launcher_options, hostfile, backend, strategy`,
    `synchronisation, subshapes, side_by_side, repeat_shapes, max_reps, cell_s`, `max_buffer_bytes`,
    `launch_s` (None: learned) and `total_s`, the wall time in seconds of all parts. An empty `ppn`
    stands for what `usual_ppn` says. `focus` is what the profile tells (`focused`);
    None: all instances are worth as much. `contests` are decisions of a bundle to be confirmed
    (`selector.confirming`); if there are any, their cells are measured and nothing else.
    """

    collectives: tuple[Collective, ...]
    msizes_bytes: tuple[int, ...]
    machine: str = field(default_factory=socket.gethostname)
    fabric: str = ""
    cores_per_node: int | None = None
    library: str = DEFAULT_LIBRARY
    release: str | None = None
    mpi: str | None = None
    launcher: str | None = None
    launcher_program: str | None = None
    launcher_options: tuple[str, ...] = ()
    hostfile: str | None = None
    nodes: tuple[int, ...] = (1,)
    ppn: tuple[int, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    segsizes_bytes: tuple[int, ...] | None = None
    fanouts: tuple[int, ...] | None = None
    programs: Programs = FOR_A_PROGRAM
    interposed: bool = False
    msizes_bytes_of: Mapping[Collective, tuple[int, ...]] = field(default_factory=dict)
    profile: str | None = None
    focus: Focus | None = None
    weights: tuple[SizeWeight, ...] = ()
    backend: str = "native"
    strategy: str = "full_grid"
    synchronisation: tuple[Synchronisation, ...] = (Synchronisation.BARRIER,)
    subshapes: bool = True
    side_by_side: bool = False
    repeat_shapes: float = 0.1
    mpibenchmark: str | None = None
    total_s: float = 90.0
    launch_s: float | None = None
    max_reps: int = 500
    cell_s: float = 0.05
    max_buffer_bytes: int = 64 << 20
    part: CampaignPart = field(default_factory=CampaignPart)
    smpi: Simulation | None = None
    contests: tuple[ContestedInstance, ...] = ()

    def __post_init__(self) -> None:
        self._check_lists()
        for name in ("total_s", "max_reps", "cell_s", "max_buffer_bytes"):
            if not 0 < getattr(self, name) < float("inf"):
                raise CampaignError(f"campaign: {name} must be positive")
        if self.launch_s is not None and not 0 <= self.launch_s < math.inf:
            raise CampaignError("campaign: launch_s must not be negative")
        if not 0 <= self.repeat_shapes <= 1:
            raise CampaignError(
                "campaign: repeat_shapes must be from 0 to 1, a share of the shapes"
            )
        if self.part.count > len(self._every_shape):
            raise CampaignError(
                f"campaign: there are {self.part.count} parts, but only "
                f"{counted(len(self._every_shape), 'shape')}",
                "Use fewer parts.",
            )

    def _check_lists(self) -> None:
        for name in ("collectives", "msizes_bytes", "nodes"):
            if not getattr(self, name):
                raise CampaignError(f"campaign: {name} is empty", "give at least one value")
        for least, complaint, names in _BOUNDS:
            for name in names:
                if any(value < least for value in getattr(self, name) or ()):
                    raise CampaignError(f"campaign: {name} must {complaint}")
        for sizes in self.msizes_bytes_of.values():
            if not sizes or min(sizes) < 0:
                raise CampaignError("campaign: msizes_bytes_of needs sizes of at least 0")

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Every combination of nodes and ppn that belongs to this part, the largest first.

        With a `focus` its shapes are in their place.
        """
        return self._every_shape[self.part.index - 1 :: self.part.count]

    @property
    def repeated_shapes(self) -> tuple[Shape, ...]:
        """The shapes of this part that are measured in a second launch, where they can be."""
        every = sorted(self._every_shape, key=lambda shape: (shape.nprocs, shape))
        if len(every) < 2 or not self.repeat_shapes:
            return ()
        count = max(1, round(self.repeat_shapes * len(every)))
        # the middle of each of as many equal parts
        chosen = {every[(2 * part + 1) * len(every) // (2 * count)] for part in range(count)}
        return tuple(shape for shape in self.shapes if shape in chosen)

    @property
    def _every_shape(self) -> tuple[Shape, ...]:
        if self.contests:
            return tuple(sorted({contest.shape for contest in self.contests}, reverse=True))
        if self.focus is not None:
            return self.focus.shapes
        return tuple(sorted(self._grid, reverse=True))

    @property
    def _grid(self) -> Iterator[Shape]:
        return (Shape(n, p) for n in set(self.nodes) for p in set(self.each_ppn))

    @cached_property
    def each_ppn(self) -> tuple[int, ...]:
        """Processes per node that are asked for, or as many as fit the library on this machine."""
        if self.ppn:
            return self.ppn
        return (usual_ppn(self.library, max(self.nodes), self.cores_per_node or usable_cores()),)

    def cores_shared(self, cores: int) -> str:
        """Return how processes share the cores of a node, which has `cores`; empty if they do not.

        Of other nodes than this one nothing is known unless the campaign tells it.
        """
        # contests are of some of the shapes, and belong to what was measured on all
        shapes = self.focus.shapes if self.focus else tuple(self._grid)
        known = self.cores_per_node or (cores if max(s.nodes for s in shapes) == 1 else None)
        ppn = max(shape.ppn for shape in shapes)
        if known is None or ppn <= known:
            return ""
        return f"{counted(ppn, 'process', 'es')} on {counted(known, 'core')} per node"

    @property
    def started_by(self) -> str:
        """What starts its programs, as journals name it."""
        known = LIBRARIES.get(self.library)
        usual = known.toolchain.launcher if known else ""
        return f"{self.backend} {self.launcher or usual}"

    @property
    def largest(self) -> Shape:
        """The smallest shape that contains every shape of this part."""
        return Shape(max(s.nodes for s in self.shapes), max(s.ppn for s in self.shapes))

    @property
    def budget_s(self) -> float:
        """Wall time of this part."""
        return self.total_s / self.part.count

    def msizes_of(self, collective: Collective) -> tuple[int, ...]:
        """Return the message sizes of `collective`; a barrier has none but 0."""
        if collective is Collective.BARRIER:
            return (0,)
        return self.msizes_bytes_of.get(collective, self.msizes_bytes)

    def offered(self, library: MpiLibrary, release: str, collective: Collective) -> Portfolio:
        """Return what `library` offers with the campaign's parameter values, globs not applied.

        That is its portfolio, and what a job as a whole can choose on one of the campaign's shapes,
        without what breaks some of the campaign's programs.
        `release` is that of the installed library.
        """
        chosen = {"segsizes_bytes": self.segsizes_bytes, "fanouts": self.fanouts}
        values = {name: value for name, value in chosen.items() if value is not None}
        whole = with_libcolltune(library) if self.interposed else library
        found = whole.at(release).portfolio(collective, **values)
        values.pop("fanouts", None)
        bound = library.at(release)
        job_wide = tuple(
            configuration
            for configuration in bound.job_wide_configurations(collective, **values)
            if any(not bound.runs(configuration, s).refusal for s in self._every_shape)
        )
        every = (*found.configurations, *job_wide)
        bound = whole.at(release)
        legal = (c for c in every if not bound.harms(c).sentence(self.programs))
        return Portfolio(found.library, found.release, collective, tuple(legal))

    @property
    def identity(self) -> str:
        """Hash of everything but the budget: a killed run of this campaign has the same one."""
        facts = {k: v for k, v in asdict(self).items() if k not in _OUTSIDE_IDENTITY}
        facts["ppn"] = self.each_ppn
        if len(self.synchronisation) == 1:
            facts["synchronisation"] = self.synchronisation[0]
        for name in _CAME_LATER:
            if getattr(self, name) == getattr(Campaign, name):
                del facts[name]
        text = json.dumps({**facts, "part": str(self.part)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changed(self, **changes: Any) -> Campaign:
        """Return a copy with the given fields replaced; None keeps a field.

        `changes` are new values of fields.
        """
        return replace(self, **{k: v for k, v in changes.items() if v is not None})


_LEAST_SHARE = 0.001
_NEAREST = 2


def focused(campaign: Campaign, profile: Profile) -> Campaign:
    """Return `campaign` with the budget where the application's time is."""
    total_s = max(profile.collectives_s, 1e-300)
    spent: dict[tuple[Collective, Shape, int], float] = {}
    for use in profile.uses:
        share = use.process_s / total_s
        if use.kind.collective not in campaign.collectives or share < _LEAST_SHARE:
            continue
        shapes = _shapes_for(use, campaign)
        for shape in shapes:
            at = use.kind.collective, shape, use.msize_bytes
            spent[at] = spent.get(at, 0.0) + share / len(shapes)
    if not spent:
        raise CampaignError(_nothing(campaign, profile))
    rows = tuple(Spent(*at, share) for at, share in sorted(spent.items()))
    collectives = tuple(dict.fromkeys(row.collective for row in rows))
    focus = Focus(
        tuple(sorted({row.shape for row in rows}, reverse=True)),
        rows,
        math.fsum(row.share for row in rows),
        profile.collectives_s / profile.process_s if profile.process_s else None,
    )
    sizes = {
        c: _with_neighbours(
            sorted({row.msize_bytes for row in rows if row.collective is c}), campaign.msizes_of(c)
        )
        for c in collectives
    }
    return campaign.changed(collectives=collectives, msizes_bytes_of=sizes, focus=focus)


def _shapes_for(use: Use, campaign: Campaign) -> Sequence[Shape]:
    """Return the shapes whose measurements tell of a use; none if there are none."""
    shape, own = use.kind.shape, campaign.shapes
    if shape is None or shape.nprocs == 1:
        return ()
    largest = campaign.largest
    fits = shape.nodes <= largest.nodes and shape.ppn <= largest.ppn
    if shape in own or (campaign.subshapes and fits):
        return (shape,)
    alike = [other for other in own if (other.nodes > 1) == (shape.nodes > 1)]
    return sorted(alike, key=lambda other: (octaves_apart(shape, other), other))[:_NEAREST]


def _with_neighbours(used: Sequence[int], own: Iterable[int]) -> tuple[int, ...]:
    """Return the sizes used, and those of the campaign from the next lower to the next higher."""
    own = sorted(own)
    low = max((size for size in own if size <= used[0]), default=used[0])
    high = min((size for size in own if size >= used[-1]), default=used[-1])
    return tuple(sorted({*used, *(size for size in own if low <= size <= high)}))


def _nothing(campaign: Campaign, profile: Profile) -> str:
    called: Mapping[str, None] = dict.fromkeys(u.kind.collective.value for u in profile.uses)
    return (
        f"the application calls {', '.join(called) or 'no collective'}, but the campaign "
        f"({', '.join(campaign.collectives)} on {', '.join(map(str, campaign.shapes))}) does "
        "not cover its communicators. Add the missing values to space.collectives, "
        "space.nodes and space.ppn."
    )
