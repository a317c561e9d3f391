"""`colltune han …`: HAN's task-based tuner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import progress, show, show_json
from colltune.cli.options import Json, Mpi, Quiet, writable_folder
from colltune.cli.shapes import parse_shape
from colltune.cli.sizes import parse_size
from colltune.domain import Context, Instance, parse_collective
from colltune.errors import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colltune.bench.launchers import Launcher
    from colltune.domain import Collective, Configuration
    from colltune.han.measuring import Standing
    from colltune.han.space import Inputs, Space
    from colltune.han.tasks_file import TaskTimes
    from colltune.mpi.installation import Installation

han = typer.Typer(
    help="Tune Open MPI's coll/han by the times of its tasks (Luo et al., CLUSTER 2020).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Tasks = Annotated[Path, typer.Argument(metavar="TASKS", help="File of task times.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NxP", help="Shape of jobs, 4x2; repeatable."),
]
Msizes = Annotated[
    str, typer.Option("--msize", metavar="BYTES,…", help="Message sizes: 4K,64K,1M.")
]
Collectives = Annotated[
    str, typer.Option("--collective", metavar="NAME,…", help="bcast, allreduce or both.")
]
Segsizes = Annotated[
    str, typer.Option("--segsize", metavar="BYTES,…", help="Segment sizes of coll/han.")
]
Ups = Annotated[str, typer.Option("--up", metavar="NAME,…", help="Modules between nodes.")]
Lows = Annotated[
    str | None,
    typer.Option("--low", metavar="NAME,…", help="Modules within nodes; default: all."),
]
Trees = Annotated[str, typer.Option("--tree", metavar="NAME,…", help="Algorithms of coll/adapt.")]
Inner = Annotated[
    str,
    typer.Option("--inner", metavar="BYTES,…", help="coll/adapt's own segment sizes; 0: none."),
]
Heuristics = Annotated[
    bool,
    typer.Option(
        "--heuristics/--no-heuristics", help="Leave out what is known beforehand not to pay."
    ),
]
_MSIZES, _SEGSIZES = "4K,16K,64K,256K,1M", "4K,16K,64K,256K"
_COLLECTIVES, _UPS, _TREES = "bcast,allreduce", "libnbc,adapt", "binomial,binary,pipeline,linear"


@han.command("measure")
def measure(
    tasks: Tasks,
    shape: Shapes = None,
    msize: Msizes = _MSIZES,
    collective: Collectives = _COLLECTIVES,
    segsize: Segsizes = _SEGSIZES,
    up: Ups = _UPS,
    low: Lows = None,
    tree: Trees = _TREES,
    inner: Inner = "0",
    reps: Annotated[int, typer.Option(min=1, help="Repetitions of each series of tasks.")] = 5,
    budget: Annotated[str, typer.Option(help="Hard limit of wall time: 90, 30m, 4h.")] = "30m",
    heuristics: Heuristics = False,
    machine: Annotated[str | None, typer.Option(help="Name of the machine; default: host.")] = None,
    hostfile: Annotated[
        Path | None, typer.Option(help="Nodes, in the launcher's own format.")
    ] = None,
    mpi: Mpi = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Time the tasks from which the runtimes of all setups and messages are composed.

    What the file TASKS holds already is not measured again, so that the same command goes on after
    a kill, or with more sizes. Shapes need two nodes and two processes per node, or more.

    Example: colltune han measure tasks.jsonl --shape 4x2 --heuristics
    """
    from socket import gethostname

    from colltune.bench.durations import seconds
    from colltune.han.launching import TaskBench
    from colltune.han.measuring import Request
    from colltune.han.measuring import measure as measured
    from colltune.mpi import installation

    with progress("preparing", quiet=quiet or json, interrupted=_GOES_ON) as shown:
        found = installation.find(mpi, library="openmpi")
        space = _space(found.release, segsize, up, low, tree, inner)
        request = Request(_inputs(collective, shape, msize), space, reps, heuristics)
        bench = TaskBench(found, launcher=_placed(found, hostfile))
        context = Context(machine or gethostname(), "openmpi", found.release)
        done = measured(bench, context, request, tasks, seconds(budget), _shows(shown.phase))
    if json:
        facts = {"complete": done.complete, "launches": done.launches, "tasks": str(tasks)}
        show_json(facts | {"series": len(done.tasks.series), "spent_s": round(done.spent_s, 3)})
    else:
        show(
            f"{len(done.tasks.series)} series of tasks, {done.launches} launches,"
            f" {done.spent_s:.1f} s -> {tasks}"
        )
    if not done.complete:
        raise typer.Exit(UNFINISHED)


@han.command("select")
def select(
    tasks: Tasks,
    shape: Annotated[str, typer.Option("--shape", metavar="NxP", help="The job's shape, 4x2.")],
    msize: Msizes = _MSIZES,
    collective: Collectives = _COLLECTIVES,
    segsize: Segsizes = _SEGSIZES,
    up: Ups = _UPS,
    low: Lows = None,
    tree: Trees = _TREES,
    inner: Inner = "0",
    heuristics: Heuristics = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write rules and parameters there.", callback=writable_folder
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compose runtimes, and pick the best setup for every message and one for a whole job.

    Open MPI has one segment size and one pair of modules per collective in a job: what is written
    are the setups that are closest to the best of all message sizes together.

    Example: colltune han select tasks.jsonl --shape 4x2 --out han
    """
    from colltune.cli import han_report
    from colltune.han.choosing import for_job, pick
    from colltune.han.tasks_file import read

    times = read(tasks)
    inputs = _inputs(collective, [shape], msize)
    space = _space(times.context.library_version, segsize, up, low, tree, inner)
    setups = _setups(times, inputs, space, heuristics)
    job_shape = inputs.shapes[0]
    picks = [
        pick(times, setups[c], Instance(c, job_shape, m))
        for c in inputs.collectives
        for m in inputs.msizes_bytes
    ]
    job = for_job(times, setups, job_shape, inputs.msizes_bytes)
    files = han_report.written(times, job_shape, job, out) if out is not None else ()
    han_report.show_picks(picks, job, files, as_json=json)


@han.command("compare")
def compare(
    tasks: Tasks,
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA…", help="Datasets of whole collectives in coll/han's setups."),
    ],
    segsize: Segsizes = _SEGSIZES,
    up: Ups = _UPS,
    low: Lows = None,
    tree: Trees = _TREES,
    inner: Inner = "0",
    heuristics: Heuristics = False,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw figure 9 into this file: .png, .svg or .pdf.", metavar="FILE"),
    ] = None,
    json: Json = False,
) -> None:
    """Compare the picks with an exhaustive search: whole collectives, measured in every setup.

    Measure these by `colltune measure` with --only '*.han_intra*' on the same machine.

    Example: colltune han compare tasks.jsonl dataset --picture picks.png
    """
    from colltune.cli import han_report
    from colltune.dataset import read as read_data
    from colltune.han.comparing import compare as compared
    from colltune.han.comparing import exhaustive_of
    from colltune.han.space import Inputs
    from colltune.han.tasks_file import read

    if picture is not None:
        from colltune.plots.saving import picture_format

        picture_format(picture)
    times = read(tasks)
    release = times.context.library_version
    exhaustive = exhaustive_of(release, read_data(data, {}).measurements())
    han_report.insist_on(exhaustive)
    inputs = Inputs(
        tuple(sorted({i.collective for i in exhaustive})),
        tuple(sorted({i.shape for i in exhaustive})),
        tuple(sorted({i.msize_bytes for i in exhaustive})),
    )
    space = _space(release, segsize, up, low, tree, inner)
    found = compared(times, _setups(times, inputs, space, heuristics), exhaustive)
    han_report.show_compared(found, picture, as_json=json)


_GOES_ON = "what was measured is kept, and the same command goes on"


def _setups(
    times: TaskTimes, inputs: Inputs, space: Space, heuristics: bool
) -> dict[Collective, tuple[Configuration, ...]]:
    from colltune.han.measuring import Request, setups_of

    request = Request(inputs, space, heuristics=heuristics)
    found: dict[Collective, tuple[Configuration, ...]] = {}
    for shape in inputs.shapes:
        for collective, setups in setups_of(request, times.context.library_version, shape).items():
            found[collective] = tuple(dict.fromkeys((*found.get(collective, ()), *setups)))
    return found


def _space(
    release: str, segsizes: str, ups: str, lows: str | None, trees: str, inner: str
) -> Space:
    from colltune.han.space import Space
    from colltune.mpi.openmpi.han_setups import low_modules

    return Space(
        tuple(parse_size(word) for word in _words(segsizes)),
        _words(ups),
        tuple(low_modules(release)) if lows is None else _words(lows),
        _words(trees),
        tuple(parse_size(word) for word in _words(inner)),
    )


def _inputs(collectives: str, shapes: Sequence[str] | None, msizes: str) -> Inputs:
    from colltune.han.space import Inputs

    return Inputs(
        tuple(dict.fromkeys(parse_collective(word) for word in _words(collectives))),
        tuple(dict.fromkeys(parse_shape(text) for text in shapes or ())),
        tuple(sorted({parse_size(word) for word in _words(msizes)})),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _placed(found: Installation, hostfile: Path | None) -> Launcher | None:
    from colltune.bench.launchers import Placed, launcher_of

    return None if hostfile is None else Placed(launcher_of(found), hostfile=hostfile)


def _shows(phase: Callable[[str], None]) -> Callable[[Standing], None]:
    def shows(standing: Standing) -> None:
        phase(f"timing tasks: {standing.done} of {standing.series} series")

    return shows
