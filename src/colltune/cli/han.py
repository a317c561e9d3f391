"""`colltune han …`: HAN's task-based tuner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltune.cli.console import TextTable, Verbatim, output
from colltune.cli.options import (
    Json,
    Mpi,
    Quiet,
    StartedBy,
    parse_shape,
    writable_folder,
)
from colltune.cli.progress import progress
from colltune.domain import Context, Instance, parse_collective
from colltune.errors import UNFINISHED, DataError
from colltune.text import bytes_text, counted, parse_bytes

if TYPE_CHECKING:
    from colltune.domain import Collective, Configuration, Shape
    from colltune.han.choosing import Compared, FastestSetup, JobSetup
    from colltune.han.measuring import TaskProgress
    from colltune.han.space import Space, TuningInputs
    from colltune.han.tasks_file import TaskTimes

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
    str, typer.Option("--msize", metavar="BYTES,…", help="Message sizes: 4k,64KiB,1M.")
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
    typer.Option(
        "--inner", metavar="BYTES,…", help="Segment sizes inside coll/adapt; 0: no segments."
    ),
]
_OF_FILE = "default: those of the file"
FileMsizes = Annotated[
    str | None,
    typer.Option("--msize", metavar="BYTES,…", help=f"Message sizes: 4k,64KiB; {_OF_FILE}."),
]
FileCollectives = Annotated[
    str | None,
    typer.Option("--collective", metavar="NAME,…", help=f"bcast, allreduce or both; {_OF_FILE}."),
]
FileSegsizes = Annotated[
    str | None,
    typer.Option("--segsize", metavar="BYTES,…", help=f"Segment sizes of coll/han; {_OF_FILE}."),
]
FileUps = Annotated[
    str | None, typer.Option("--up", metavar="NAME,…", help=f"Modules between nodes; {_OF_FILE}.")
]
FileLows = Annotated[
    str | None, typer.Option("--low", metavar="NAME,…", help=f"Modules within nodes; {_OF_FILE}.")
]
FileTrees = Annotated[
    str | None,
    typer.Option("--tree", metavar="NAME,…", help=f"Algorithms of coll/adapt; {_OF_FILE}."),
]
FileInner = Annotated[
    str | None,
    typer.Option(
        "--inner",
        metavar="BYTES,…",
        help=f"Segment sizes inside coll/adapt, 0: no segments; {_OF_FILE}.",
    ),
]
FileShape = Annotated[
    str | None,
    typer.Option(
        "--shape", metavar="NxP", help="Shape of the job, 4x2; default: that of the file, if one."
    ),
]
Heuristics = Annotated[
    bool,
    typer.Option(
        "--heuristics/--no-heuristics", help="Skip setups that the paper's heuristics exclude."
    ),
]
_MSIZES, _SEGSIZES = "4k,16k,64k,256k,1M", "4k,16k,64k,256k"
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
    machine: Annotated[
        str | None, typer.Option(help="Name of the machine; default: the host name.")
    ] = None,
    hostfile: Annotated[
        Path | None, typer.Option(help="Nodes, in the launcher's own notation.")
    ] = None,
    mpi: Mpi = None,
    launcher: StartedBy = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure the tasks that the runtimes of all setups and messages are composed of.

    Tasks that the file TASKS already has are not measured again. The same command therefore resumes
    after a kill, and adds sizes. Shapes need at least two nodes and two processes per node.

    Example: colltune han measure tasks.jsonl --shape 4x2 --heuristics
    """
    from socket import gethostname

    from colltune.bench.durations import seconds
    from colltune.bench.launchers import Placed, launcher_of
    from colltune.han.measuring import TaskBench
    from colltune.han.measuring import measure as measured
    from colltune.han.space import TuningRequest
    from colltune.mpi import installation
    from colltune.mpi.openmpi.releases import LIBRARY

    with progress("preparing", quiet=quiet or json, interrupted=_GOES_ON) as shown:
        found = installation.find(mpi, LIBRARY, launcher)
        space = _space(found.release, segsize, up, low, tree, inner)
        request = TuningRequest(_inputs(collective, shape, msize), space, reps, heuristics)
        placed = Placed(launcher_of(found), hostfile=hostfile) if hostfile is not None else None
        bench = TaskBench(found, launcher=placed)
        context = Context(machine or gethostname(), LIBRARY, found.release)

        def tell(task: TaskProgress) -> None:
            if shown.title != "timing tasks":
                shown.phase("timing tasks")
            done = f"{task.done}/{task.series}"
            shown.spend(task.spent_s, task.budget_s, facts=(f"{done} series", done))

        done = measured(bench, context, request, tasks, seconds(budget), tell)
    n, spent_s = len(done.tasks.series), round(done.spent_s, 3)
    facts = {"complete": done.complete, "launches": done.launches, "tasks": tasks}
    line = (
        f"{n} series of tasks, {counted(done.launches, 'launch', 'es')}, {done.spent_s:.1f} s -> "
        f"{tasks}"
    )
    output(facts | {"series": n, "spent_s": spent_s}, [line], json=json)
    if not done.complete:
        raise typer.Exit(UNFINISHED)


@han.command("select")
def select(
    tasks: Tasks,
    shape: FileShape = None,
    msize: FileMsizes = None,
    collective: FileCollectives = None,
    segsize: FileSegsizes = None,
    up: FileUps = None,
    low: FileLows = None,
    tree: FileTrees = None,
    inner: FileInner = None,
    heuristics: Heuristics = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to write rules and parameters to.",
            callback=writable_folder,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compose runtimes, and pick the best setup for each message size and for a whole job.

    In a job Open MPI uses one segment size and one pair of modules per collective. The written
    setups are therefore those that are best on average over all message sizes.

    Example: colltune han select tasks.jsonl --shape 4x2 --out han
    """
    from colltune.han.choosing import for_job, pick
    from colltune.han.tasks_file import read

    times = read(tasks)
    inputs = _inputs(
        _or_file(times, "collective", collective),
        [_one_shape(times, shape)],
        _or_file(times, "msize", msize),
    )
    space = _file_space(times, segsize, up, low, tree, inner)
    setups = _setups(times, inputs, space, heuristics)
    job_shape = inputs.shapes[0]
    picks = [
        pick(times, setups[c], Instance(c, job_shape, m))
        for c in inputs.collectives
        for m in inputs.msizes_bytes
    ]
    job = for_job(times, setups, job_shape, inputs.msizes_bytes)
    files = _written(times, job_shape, job, out) if out is not None else ()
    facts = {
        "picks": [
            {**vars(one.instance), "setup": one.setup, "time_s": one.time_s} for one in picks
        ],
        "job": {
            c: {
                "setup": setup,
                "slowdown": round(job.slowdown[c], 4),
                "worst_slowdown": round(job.worst[c], 4),
            }
            for c, setup in job.setups.items()
        },
        "files": files,
    }
    output(facts, _pick_lines(picks, job, files), json=json)


@han.command("compare")
def compare(
    tasks: Tasks,
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA…",
            help="Datasets of whole collectives, measured in the setups of coll/han.",
        ),
    ],
    segsize: FileSegsizes = None,
    up: FileUps = None,
    low: FileLows = None,
    tree: FileTrees = None,
    inner: FileInner = None,
    heuristics: Heuristics = False,
    json: Json = False,
) -> None:
    """Compare the picks with an exhaustive search, in which every setup is measured.

    The search is `colltune measure` with --only '*.han_intra*' on the same machine.

    Example: colltune han compare tasks.jsonl dataset
    """
    from colltune.cli.import_ import read_measured
    from colltune.han.choosing import compare as compared
    from colltune.han.choosing import exhaustive_of, mean_regret
    from colltune.han.space import TuningInputs
    from colltune.han.tasks_file import read

    times = read(tasks)
    release = times.context.library_version
    exhaustive = exhaustive_of(release, read_measured(data).measurements())
    if not exhaustive:
        raise DataError(
            "the data have no setups of coll/han. Measure them on several nodes by `colltune "
            "measure` with --only '*.han_intra*'."
        )
    inputs = TuningInputs(
        tuple(sorted({i.collective for i in exhaustive})),
        tuple(sorted({i.shape for i in exhaustive})),
        tuple(sorted({i.msize_bytes for i in exhaustive})),
    )
    space = _file_space(times, segsize, up, low, tree, inner)
    found = compared(times, _setups(times, inputs, space, heuristics), exhaustive)
    facts = {
        "mean_regret": round(mean_regret(found), 4),
        "instances": [_compared_facts(one) for one in found],
    }
    rows = [_compared_row(one) for one in found]
    lines: list[str | TextTable] = [
        TextTable(_COMPARED, rows, ("picked",), ("median ms", "composed ms"))
    ]
    lines.append(f"\nmean regret: {mean_regret(found):.1%}")
    output(facts, lines, json=json)


@han.command("overlap")
def overlap(
    tasks: Tasks,
    shape: FileShape = None,
    segsize: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Segment size; default: the one that most setups have."),
    ] = None,
    json: Json = False,
) -> None:
    """Show how far tasks between nodes and within them overlap, in each setup.

    Perfect overlap takes as long as the longer task, none as long as both after another.

    Example: colltune han overlap tasks.jsonl
    """
    from colltune.han.measuring import overlaps
    from colltune.han.tasks_file import read

    times = read(tasks)
    wanted = parse_bytes(segsize) if segsize is not None else None
    found = overlaps(times, parse_shape(_one_shape(times, shape)), wanted)
    rows = [
        (
            one.setup.collective,
            one.setup.parameter_text,
            *(f"{name} {s * _MS:.3f}" for name, s in zip(one.names, one.slowest_s, strict=True)),
            f"{one.over_longer:.2f}",
            f"{one.over_sum:.2f}",
        )
        for one in found
    ]
    facts = {
        "overlaps": [
            {
                "setup": one.setup,
                "shape": one.shape,
                "tasks": one.names,
                "times_s": one.slowest_s,
                "over_longer": round(one.over_longer, 4),
                "over_sum": round(one.over_sum, 4),
            }
            for one in found
        ],
    }
    output(facts, [TextTable(_OVERLAP, rows, _OVERLAP[1:2], _OVERLAP[2:4])], json=json)


_OVERLAP = (
    *("collective", "setup", "one task, ms", "the other, ms"),
    *("both at once, ms", "over the longer", "over both"),
)


_GOES_ON = "the measurements are kept; run the same command again to go on"


def _setups(
    times: TaskTimes, inputs: TuningInputs, space: Space, heuristics: bool
) -> dict[Collective, tuple[Configuration, ...]]:
    from colltune.han.space import TuningRequest, setups_of

    request = TuningRequest(inputs, space, heuristics=heuristics)
    found: dict[Collective, tuple[Configuration, ...]] = {}
    for shape in inputs.shapes:
        for collective, setups in setups_of(request, times.context.library_version, shape).items():
            found[collective] = tuple(dict.fromkeys((*found.get(collective, ()), *setups)))
    return found


def _space(
    release: str, segsizes: str, ups: str, lows: str | None, trees: str, inner: str
) -> Space:
    from colltune.han.space import Space
    from colltune.mpi.openmpi.library import OPENMPI

    return Space(
        tuple(parse_bytes(word) for word in _words(segsizes)),
        _words(ups),
        tuple(OPENMPI.han_setups(release).low_modules()) if lows is None else _words(lows),
        _words(trees),
        tuple(parse_bytes(word) for word in _words(inner)),
    )


_DEFAULTS = {
    "msize": _MSIZES,
    "collective": _COLLECTIVES,
    "segsize": _SEGSIZES,
    "up": _UPS,
    "tree": _TREES,
    "inner": "0",
}
"""What `measure` does, for files that do not tell what was asked for."""


def _or_file(times: TaskTimes, option: str, given: str | None) -> str:
    """Return what was `given`, else what the file was measured for."""
    return given or ",".join(times.words(option)) or _DEFAULTS[option]


def _file_space(
    times: TaskTimes,
    segsizes: str | None,
    ups: str | None,
    lows: str | None,
    trees: str | None,
    inner: str | None,
) -> Space:
    return _space(
        times.context.library_version,
        _or_file(times, "segsize", segsizes),
        _or_file(times, "up", ups),
        lows or ",".join(times.words("low")) or None,
        _or_file(times, "tree", trees),
        _or_file(times, "inner", inner),
    )


def _one_shape(times: TaskTimes, given: str | None) -> str:
    if given:
        return given
    shapes = dict.fromkeys(str(series.shape) for series in times.series)
    if len(shapes) != 1:
        names = ", ".join(shapes) or "none"
        raise typer.BadParameter(f"name one of the file's shapes by --shape: {names}")
    return next(iter(shapes))


def _inputs(collectives: str, shapes: Sequence[str] | None, msizes: str) -> TuningInputs:
    from colltune.han.space import TuningInputs

    return TuningInputs(
        tuple(dict.fromkeys(parse_collective(word) for word in _words(collectives))),
        tuple(dict.fromkeys(parse_shape(text) for text in shapes or ())),
        tuple(sorted({parse_bytes(word) for word in _words(msizes)})),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _written(times: TaskTimes, shape: Shape, job: JobSetup, folder: Path) -> tuple[Path, Path]:
    """Write the rules and parameters of a job; return where."""
    from colltune.files import whole
    from colltune.mpi.openmpi.han.writing import job_files

    rules, parameters = folder / "han.rules", folder / "han.tune"
    release = times.context.library_version
    files = job_files(release, shape, job.setups, rules.absolute())
    for path, text in ((rules, files.rules), (parameters, files.parameter_file)):
        with whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return rules, parameters


def _pick_lines(
    picks: Sequence[FastestSetup], job: JobSetup, files: Sequence[Path]
) -> Iterator[str | TextTable]:
    """Yield the best setup of every instance, the job's, and what was written."""
    from colltune.mpi.openmpi.library import OPENMPI

    rows = [
        (
            pick.instance.collective,
            bytes_text(pick.instance.msize_bytes),
            pick.setup.parameter_text,
            f"{pick.time_s * _MS:.3f}",
        )
        for pick in picks
    ]
    head = ("collective", "message size", "best setup", "composed ms")
    yield TextTable(head, rows, wrap=head[2:3])
    yield "\nFor a whole job, with one setup per collective for all messages:"
    for collective, setup in job.setups.items():
        mean, worst = job.slowdown[collective], job.worst[collective]
        yield setup.id
        yield f"  {mean:.2f} times the best time of each message on average, {worst:.2f} at worst"
    if files:
        yield f"\n-> {', '.join(map(str, files))}"
        yield Verbatim(OPENMPI.start_line(files[-1].absolute()))


_MS = 1e3
_COMPARED = (
    *("collective", "shape", "message size", "picked"),
    *("composed ms", "ms", "best ms", "median ms", "regret"),
)


def _compared_row(one: Compared) -> list[object]:
    return [
        one.instance.collective,
        one.instance.shape,
        bytes_text(one.instance.msize_bytes),
        one.picked.parameter_text,
        *(f"{s * _MS:.3f}" for s in (one.composed_s, one.picked_s, one.best_s, one.median_s)),
        f"{one.regret:.1%}",
    ]


def _compared_facts(one: Compared) -> dict[str, object]:
    times = ("composed_s", "picked_s", "best_s", "median_s", "mean_s")
    return {
        **vars(one.instance),
        "picked": one.picked,
        "best": one.best,
        **{name: getattr(one, name) for name in times},
        "regret": round(one.regret, 4),
    }
