"""`colltune han …`: HAN's task-based tuner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from colltune.errors import UNFINISHED, say
from colltune.text import bytes_text, counted, parse_bytes

if TYPE_CHECKING:
    from colltune.domain import Shape
    from colltune.han.choosing import FastestSetup, JobSetup
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


def _asked(option: str, what: str, metavar: str = "NAME,…") -> Any:
    default = ",".join(_DEFAULTS.get(option, ("all",)))
    told = f"{what}; default: those of TASKS; for `measure`: {default}."
    return typer.Option(f"--{option}", metavar=metavar, help=told)


_DEFAULTS = {
    "msize": ("4k", "16k", "64k", "256k", "1M"),
    "collective": ("bcast", "allreduce"),
    "segsize": ("4k", "16k", "64k", "256k"),
    "up": ("libnbc", "adapt"),
    "tree": ("binomial", "binary", "pipeline", "linear"),
    "inner": ("0",),
}
"""What `measure` does; the others do it for files that do not tell what was asked for."""
_SIZES = "BYTES,…"
Msizes = Annotated[str | None, _asked("msize", "Message sizes, 4k,64KiB", _SIZES)]
Collectives = Annotated[str | None, _asked("collective", "bcast, allreduce or both")]
Segsizes = Annotated[str | None, _asked("segsize", "Segment sizes of coll/han", _SIZES)]
Ups = Annotated[str | None, _asked("up", "Modules between nodes")]
Lows = Annotated[str | None, _asked("low", "Modules within nodes")]
Trees = Annotated[str | None, _asked("tree", "Algorithms of coll/adapt")]
Inner = Annotated[
    str | None, _asked("inner", "Segment sizes inside coll/adapt, 0: no segments", _SIZES)
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
_MS = 1e3
_GOES_ON = "the measurements are kept; run the same command again to go on"


@dataclass(frozen=True)
class HanSelected:
    """What `han select` prints."""

    picks: tuple[FastestSetup, ...]
    """best setup of every message"""
    job: JobSetup
    """one setup for a whole job, by collective"""
    files: tuple[Path, ...]
    """files that were written"""


@han.command("measure")
def measure(
    tasks: Tasks,
    shape: Shapes = None,
    msize: Msizes = None,
    collective: Collectives = None,
    segsize: Segsizes = None,
    up: Ups = None,
    low: Lows = None,
    tree: Trees = None,
    inner: Inner = None,
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
        space = _space(found.release, segsize=segsize, up=up, low=low, tree=tree, inner=inner)
        request = TuningRequest(_inputs(shape or (), collective, msize), space, reps, heuristics)
        placed = Placed(launcher_of(found), hostfile=hostfile) if hostfile is not None else None
        bench = TaskBench(found, launcher=placed)
        context = Context(machine or gethostname(), LIBRARY, found.release)

        def tell(task: TaskProgress) -> None:
            if shown.title != "timing tasks":
                shown.phase("timing tasks")
            done = f"{task.done}/{task.series}"
            shown.spend(task.spent_s, task.budget_s, facts=(f"{done} series", done))

        done = measured(bench, context, request, tasks, seconds(budget), tell)
    launches = counted(done.launches, "launch", "es")
    line = f"{done.series} series of tasks, {launches}, {done.spent_s:.1f} s -> {tasks}"
    output(done, [line], json=json)
    if not done.complete:
        raise typer.Exit(UNFINISHED)


@han.command("select")
def select(
    tasks: Tasks,
    shape: FileShape = None,
    msize: Msizes = None,
    collective: Collectives = None,
    segsize: Segsizes = None,
    up: Ups = None,
    low: Lows = None,
    tree: Trees = None,
    inner: Inner = None,
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
    from colltune.han.space import TuningRequest, every_setup
    from colltune.han.tasks_file import read

    times = read(tasks)
    inputs = _inputs([_one_shape(times, shape)], collective, msize, times)
    release = times.context.library_version
    space = _space(release, times, segsize=segsize, up=up, low=low, tree=tree, inner=inner)
    setups = every_setup(TuningRequest(inputs, space, heuristics=heuristics), release)
    job_shape = inputs.shapes[0]
    picks = tuple(
        pick(times, setups[c], Instance(c, job_shape, m))
        for c in inputs.collectives
        for m in inputs.msizes_bytes
    )
    job = for_job(times, setups, job_shape, inputs.msizes_bytes)
    files = _written(times, job_shape, job, out) if out is not None else ()
    output(HanSelected(picks, job, files), _pick_lines(picks, job, files), json=json)


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
    segsize: Segsizes = None,
    up: Ups = None,
    low: Lows = None,
    tree: Trees = None,
    inner: Inner = None,
    heuristics: Heuristics = False,
    json: Json = False,
) -> None:
    """Compare the picks with an exhaustive search, in which every setup is measured.

    The search is `colltune measure` with --only '*.han_intra*' on the same machine.

    Example: colltune han compare tasks.jsonl dataset
    """
    from colltune.cli.import_ import read_measured
    from colltune.han.choosing import compare as compared
    from colltune.han.choosing import exhaustive_of
    from colltune.han.space import TuningInputs, TuningRequest, every_setup
    from colltune.han.tasks_file import read

    times = read(tasks)
    release = times.context.library_version
    exhaustive = exhaustive_of(release, read_measured(data).measurements())
    if not exhaustive:
        raise say("no-exhaustive-search")
    inputs = TuningInputs(
        tuple(sorted({i.collective for i in exhaustive})),
        tuple(sorted({i.shape for i in exhaustive})),
        tuple(sorted({i.msize_bytes for i in exhaustive})),
    )
    space = _space(release, times, segsize=segsize, up=up, low=low, tree=tree, inner=inner)
    request = TuningRequest(inputs, space, heuristics=heuristics)
    found = compared(times, every_setup(request, release), exhaustive)
    rows = [
        (
            *(one.instance.collective, one.instance.shape, bytes_text(one.instance.msize_bytes)),
            one.picked.parameter_text,
            *(f"{s * _MS:.3f}" for s in (one.composed_s, one.picked_s, one.best_s, one.median_s)),
            f"{one.regret:.1%}",
        )
        for one in found.instances
    ]
    table = TextTable(_COMPARED, rows, ("picked",), ("median ms", "composed ms"))
    output(found, [table, f"\nmean regret: {found.mean_regret:.1%}"], json=json)


_COMPARED = (
    *("collective", "shape", "message size", "picked"),
    *("composed ms", "ms", "best ms", "median ms", "regret"),
)


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
            *(f"{name} {s * _MS:.3f}" for name, s in zip(one.tasks, one.times_s, strict=True)),
            f"{one.over_longer:.2f}",
            f"{one.over_sum:.2f}",
        )
        for one in found
    ]
    output(found, [TextTable(_OVERLAP, rows, _OVERLAP[1:2], _OVERLAP[2:4])], json=json)


_OVERLAP = (
    *("collective", "setup", "one task, ms", "the other, ms"),
    *("both at once, ms", "over the longer", "over both"),
)


def _space(release: str, times: TaskTimes | None = None, **given: str | None) -> Space:
    from colltune.han.space import Space
    from colltune.mpi.openmpi.library import OPENMPI

    of = {option: _words(option, words, times) for option, words in given.items()}
    return Space(
        tuple(map(parse_bytes, of["segsize"])),
        of["up"],
        of["low"] or tuple(OPENMPI.han_setups(release).low_modules()),
        of["tree"],
        tuple(map(parse_bytes, of["inner"])),
    )


def _words(option: str, given: str | None, times: TaskTimes | None = None) -> tuple[str, ...]:
    """Return what was `given`, else what the file was measured for, else the default."""
    words = tuple(word.strip() for word in (given or "").split(",") if word.strip())
    return words or (times.words(option) if times else ()) or _DEFAULTS.get(option, ())


def _one_shape(times: TaskTimes, given: str | None) -> str:
    if given:
        return given
    shapes = dict.fromkeys(str(series.shape) for series in times.series)
    if len(shapes) != 1:
        known = ", ".join(shapes) or "no shapes"
        raise say("choose-one", where="the file", known=known, option="--shape")
    return next(iter(shapes))


def _inputs(
    shapes: Sequence[str],
    collectives: str | None,
    msizes: str | None,
    times: TaskTimes | None = None,
) -> TuningInputs:
    from colltune.han.space import TuningInputs

    names, sizes = _words("collective", collectives, times), _words("msize", msizes, times)
    return TuningInputs(
        tuple(dict.fromkeys(map(parse_collective, names))),
        tuple(dict.fromkeys(map(parse_shape, shapes))),
        tuple(sorted(set(map(parse_bytes, sizes)))),
    )


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
