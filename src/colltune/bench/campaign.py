"""What is to be measured: a campaign, with what each key of its file means.

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
from typing import TYPE_CHECKING, Annotated, Any

from colltune.bench import strategies
from colltune.bench.durations import seconds
from colltune.bench.launchers import LAUNCHERS
from colltune.bench.schedule import octaves_apart
from colltune.bench.simulated import SIZE, SIZE_TYPES, Simulation, size
from colltune.bench.weights import LEAST, MOST, Focus, SizeWeight, Spent, size_weights
from colltune.dataset.profile import Profile, Use
from colltune.domain import (
    Collective,
    Configuration,
    Portfolio,
    Shape,
    Synchronisation,
    parse_collective,
)
from colltune.errors import CampaignError, say
from colltune.files.settings import Key, SettingTable, check
from colltune.mpi import DEFAULT_LIBRARY, LIBRARIES, MpiLibrary
from colltune.mpi.libcolltune.library import with_libcolltune
from colltune.mpi.programs import FOR_A_PROGRAM, Programs
from colltune.mpi.release import Release
from colltune.mpi.running import Promises, Refusal
from colltune.provenance import usable_cores
from colltune.text import counted

if TYPE_CHECKING:
    from colltune.selector.confirming import ContestedInstance


_SYNCHRONISATIONS = (
    '"barrier", "window", or ["window", "barrier"]: barriers where no window can be kept'
)
_FEW_PROCESSES = 4
"""On fewer of them algorithms hardly differ."""
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


@dataclass(frozen=True)
class CampaignPart:
    """Number ``index`` of the ``count`` parts (from 1) that a campaign is split into."""

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise say("no-such-part", part=self)

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
            raise say("malformed", CampaignError, value=text, what="a part I/N", like="2/8")
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
        raise say("one-process")
    return cores


_SIZES = f"a list, each {SIZE}"


def _sizes_by_collective(table: Mapping[str, Any]) -> Mapping[Collective, tuple[int, ...]]:
    found = {}
    for name, sizes in table.items():
        if not isinstance(sizes, list) or any(type(size) not in SIZE_TYPES for size in sizes):
            raise say("not-allowed", CampaignError, value=sizes, wanted=_SIZES)
        found[parse_collective(name)] = tuple(map(size, sizes))
    return found


def _synchronisation(value: str | list[str]) -> tuple[Synchronisation, ...]:
    names = [value] if isinstance(value, str) else value
    if names not in (["barrier"], ["window"], ["window", "barrier"]):
        raise say("not-allowed", CampaignError, value=value, wanted=_SYNCHRONISATIONS)
    return tuple(map(Synchronisation, names))


@dataclass(frozen=True)
class Campaign:
    """A measuring campaign.

    `part` tells which of its shapes are measured here, with an equal share of the budget.

    Key fields are keys of a campaign file. An empty `ppn` stands for what `usual_ppn` says.
    `focus` is what the profile tells (`focused`); None: all instances are worth as much. `contests`
    are decisions of a bundle to be confirmed (`selector.confirming`); if there are any, their cells
    are measured and nothing else.
    """

    collectives: Annotated[
        tuple[Collective, ...],
        Key(
            "What to measure.",
            key="space.collectives",
            read=parse_collective,
            wanted="a list of collectives",
            empty=False,
            example=["bcast", "allreduce", "alltoall"],
        ),
    ]
    msizes_bytes: Annotated[
        tuple[int, ...],
        Key(
            "Message sizes as the caller passes them.",
            0,
            key="space.msizes_bytes",
            read=size,
            takes=SIZE_TYPES,
            wanted=_SIZES,
            empty=False,
            example=[8, 512, 8192, 131072, 1048576],
        ),
    ]
    machine: Annotated[
        str,
        Key(
            "Stored with the measurements; by default the host's name.",
            key="machine.name",
            example="hydra",
        ),
    ] = field(default_factory=socket.gethostname)
    fabric: Annotated[
        str,
        Key(
            "The network, if a machine has several; measurements of different networks are never"
            " joined.",
            key="machine.fabric",
        ),
    ] = ""
    cores_per_node: Annotated[
        int | None,
        Key(
            "Processors that a node's processes may use; by default those of this host.",
            1,
            key="machine.cores_per_node",
            example=32,
        ),
    ] = None
    library: Annotated[str, Key("The MPI library.", key="library.name", names=LIBRARIES)] = (
        DEFAULT_LIBRARY
    )
    release: Annotated[
        str | None,
        Key(
            "The release to be measured; any other one is an error. By default the one found.",
            key="library.release",
            example="4.1.6",
        ),
    ] = None
    mpi: Annotated[
        str | None,
        Key(
            "Its mpirun or folder; by default the wheel next to this Python, otherwise PATH.",
            key="library.mpi",
            example="/opt/openmpi",
        ),
    ] = None
    launcher: Annotated[
        str | None,
        Key(
            "What starts programs; by default the library's own.",
            key="launcher.name",
            names=LAUNCHERS,
            example="srun",
        ),
    ] = None
    launcher_program: Annotated[
        str | None,
        Key(
            "What starts ranks in place of the launcher's own program, such as a script; it takes"
            " its options.",
            key="launcher.program",
            example="/opt/site/launch",
        ),
    ] = None
    launcher_options: Annotated[
        tuple[str, ...],
        Key("Words passed to the launcher.", key="launcher.options", example=["--mpi=pmix"]),
    ] = ()
    hostfile: Annotated[
        str | None,
        Key(
            "Names the nodes, in the launcher's own format.",
            key="launcher.hostfile",
            example="hosts",
        ),
    ] = None
    nodes: Annotated[
        tuple[int, ...],
        Key(
            "Node counts; every combination with `ppn` is a shape to measure.",
            1,
            key="space.nodes",
            empty=False,
        ),
    ] = (1,)
    ppn: Annotated[
        tuple[int, ...],
        Key(
            "Processes per node; by default one for each core that may be used, and on fewer than 4"
            " cores 4 where the library's processes share them.",
            1,
            key="space.ppn",
            example=[1, 32],
        ),
    ] = ()
    only: Annotated[
        tuple[str, ...],
        Key(
            "Globs over configuration ids, of which these alone are measured.",
            key="space.only",
            example=["*.bcast.chain:*"],
        ),
    ] = ()
    skip: Annotated[
        tuple[str, ...],
        Key(
            "Globs over configuration ids that are left out.",
            key="space.skip",
            example=["*.linear"],
        ),
    ] = ()
    segsizes_bytes: Annotated[
        tuple[int, ...] | None,
        Key(
            "Segment sizes to try; by default six usual ones.",
            0,
            key="space.segsizes_bytes",
            read=size,
            takes=SIZE_TYPES,
            wanted=_SIZES,
            example=[0, 4096, 65536],
        ),
    ] = None
    fanouts: Annotated[
        tuple[int, ...] | None,
        Key("Fanouts to try; by default three usual ones.", 1, key="space.fanouts", example=[2, 4]),
    ] = None
    programs: Annotated[
        Programs,
        Key(
            "Measure what these programs may use: `any-legal`, `same-types`, `builtin-operations`,"
            " or the last two with a comma.",
            key="space.programs",
            read=Programs.parse,
        ),
    ] = FOR_A_PROGRAM
    interposed: Annotated[
        bool,
        Key(
            "Measure libcolltune's own algorithms as well as the library's.",
            key="library.interposed",
        ),
    ] = False
    msizes_bytes_of: Annotated[
        Mapping[Collective, tuple[int, ...]],
        Key(
            "Message sizes of one collective, in place of `msizes_bytes`.",
            key="space.msizes_bytes_of",
            read=_sizes_by_collective,
            takes=(dict,),
            wanted=f"a table of which each value is {_SIZES}",
            example={"alltoall": [8, 64]},
        ),
    ] = field(default_factory=dict)
    profile: Annotated[
        str | None,
        Key(
            "Profile of an application, or a folder of them: measure what the application uses,"
            " most where its time is.",
            key="space.profile",
            example="profiles",
        ),
    ] = None
    focus: Focus | None = None
    weights: Annotated[
        tuple[SizeWeight, ...],
        Key(
            f"Which collectives and sizes count more, from {LEAST:g} to {MOST:g}; the others count"
            " 1.",
            read=size_weights,
            takes=(dict,),
            wanted="a table of collectives",
            example={"allreduce": 5, "bcast": {"0..4096": 2}},
        ),
    ] = ()
    backend: Annotated[
        str, Key("What measures: `native`, `reprompi`, `smpi` or `replay`.", key="measure.backend")
    ] = "native"
    strategy: Annotated[
        str,
        Key(
            f"What is measured next: {' or '.join(f'`{name}`' for name in strategies.STRATEGIES)}.",
            key="measure.strategy",
            read=strategies.known,
        ),
    ] = "full_grid"
    synchronisation: Annotated[
        tuple[Synchronisation, ...],
        Key(
            "How ranks begin together: by a barrier, or in a window, at an agreed time.",
            key="measure.synchronisation",
            read=_synchronisation,
            takes=(str, list),
            wanted=_SYNCHRONISATIONS,
            example="barrier",
        ),
    ] = (Synchronisation.BARRIER,)
    subshapes: Annotated[
        bool, Key("Measure smaller shapes inside a launch of the largest.", key="measure.subshapes")
    ] = True
    side_by_side: Annotated[
        bool, Key("Several of them at once; they share links.", key="measure.side_by_side")
    ] = False
    repeat_shapes: Annotated[
        float,
        Key(
            "Share of the shapes that are measured in a second launch.",
            0,
            1,
            key="measure.repeat_shapes",
        ),
    ] = 0.1
    mpibenchmark: Annotated[
        str | None,
        Key(
            "ReproMPI's program; by default that of COLLTUNE_REPROMPI, else of PATH.",
            key="measure.mpibenchmark",
            example="/opt/reprompi/bin/mpibenchmark",
        ),
    ] = None
    total_s: Annotated[
        float,
        Key(
            'Hard wall time of all parts, such as 90, "30m" or "4h".',
            above=0,
            key="budget.total",
            also="budget.total_s",
            read=seconds,
            takes=(int, float, str),
            wanted='seconds, or a wall time such as "4h"',
        ),
    ] = 90.0
    launch_s: Annotated[
        float | None,
        Key(
            "Seconds that a launch takes beside its measurements. By default it is learned from"
            " every launch into the same dataset.",
            0,
            key="budget.launch_s",
            example=1.5,
        ),
    ] = None
    max_reps: Annotated[
        int, Key("Repetitions in one visit of a cell, at most.", 1, key="budget.max_reps")
    ] = 500
    cell_s: Annotated[
        float, Key("Seconds in one visit of a cell, at most.", above=0, key="budget.cell_s")
    ] = 0.05
    max_buffer_bytes: Annotated[
        int,
        Key(
            "Larger buffers on any rank are left out.",
            1,
            key="budget.max_buffer_bytes",
            read=size,
            takes=SIZE_TYPES,
            wanted=SIZE,
        ),
    ] = 64 << 20
    part: CampaignPart = field(default_factory=CampaignPart)
    smpi: Annotated[
        Simulation | None, SettingTable("The simulated cluster of the backend `smpi`.")
    ] = None
    contests: tuple[ContestedInstance, ...] = ()

    def __post_init__(self) -> None:
        check(self, CampaignError, "campaign: ")
        for sizes in self.msizes_bytes_of.values():
            if not sizes or min(sizes) < 0:
                raise say("no-sizes")
        if self.part.count > len(self._every_shape):
            shapes = counted(len(self._every_shape), "shape")
            raise say("too-many-parts", parts=self.part.count, shapes=shapes)

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
        legal = (c for c in every if c.is_default or self._may_run(bound, c))
        return Portfolio(found.library, found.release, collective, tuple(legal))

    def _may_run(self, bound: Release, configuration: Configuration) -> bool:
        """Tell whether it breaks no programs and, where that is promised, no results."""
        if bound.harms(configuration).sentence(self.programs):
            return False
        promises = Promises(self.programs)
        return not promises.same_bits or any(
            bound.runs(configuration, shape, promises).refusal is not Refusal.OTHER_BITS
            for shape in self._every_shape
        )

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
        called = dict.fromkeys(use.kind.collective.value for use in profile.uses)
        raise say(
            "application-not-covered",
            called=", ".join(called) or "no collective",
            collectives=", ".join(campaign.collectives),
            shapes=", ".join(map(str, campaign.shapes)),
        )
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
