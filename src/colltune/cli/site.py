"""`colltune site init`, `check`, `upgrade`: the folder that tunes a cluster's jobs; and `doctor`.

The two lists of checks, of a machine and of a site, are shown alike.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colltune.cli.console import Mark, TextTable, Verbatim, output, painted, terminal_width
from colltune.cli.options import (
    CollectivesShare,
    ForEverybody,
    ForResults,
    JobNodeHours,
    Json,
    Mpi,
    Quiet,
    StartedBy,
    programs_of,
)
from colltune.cli.progress import progress
from colltune.errors import ColltuneError, UsageError, say
from colltune.text import counted, printable

if TYPE_CHECKING:
    from colltune.checks import CheckResult
    from colltune.site.folder import FileChange, WrittenSite


_MARKS = {"ok": Mark.GOOD, "note": Mark.DOUBTFUL, "problem": Mark.BAD}


def doctor(
    mpi: Mpi = None,
    launcher: StartedBy = None,
    job: Annotated[
        bool, typer.Option("--job", help="Also look at the job that this runs in, on all nodes.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Look at what colltune needs here, and print what mends each problem.

    It looks at MPI, compiler, settings, libcolltune, folders, Slurm, service, bundle and ReproMPI.
    It changes nothing and does not need root. The exit status is 1 if there is a problem.

    Examples: this machine, another MPI, in a batch script.

    colltune doctor

    colltune doctor --mpi /opt/openmpi

    colltune doctor --job
    """
    from colltune.doctor import Host, answers, rank

    if job and rank():
        return 0  # one process of a job speaks
    with progress("looking", quiet=quiet or json) as shown:
        found = answers(Host(mpi, job, launcher), lambda name: shown.phase(f"looking at {name}"))
    return show_answers(found, json=json)


def show_answers(found: Mapping[str, CheckResult], *, json: bool) -> int:
    """Print what checks found; return 1 if there is a problem, else 0."""
    from colltune.checks import CheckReport

    report = CheckReport(found)
    output(report, findings(found), json=json)
    return report.exit_status


def findings(found: Mapping[str, CheckResult]) -> Iterator[str]:
    """Yield a line for each finding, with its mend, and one that counts them."""
    width = terminal_width() or sys.maxsize
    indent = " " * (11 + max(map(len, found)))
    for name, (status, finding, mend) in found.items():
        label = f"{painted(status.ljust(9), _MARKS[status])}{name.ljust(len(indent) - 9)}"
        text = textwrap.fill(
            printable(finding),
            max(width, 2 * len(indent)),
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
        yield Verbatim(f"{label}{text.removeprefix(indent)}")
        if mend:
            yield Verbatim(f"{indent}-> {printable(mend)}")
    counts = Counter(str(answer.status) for answer in found.values())
    said = [counted(counts[word], word) for word in ("problem", "note")]
    yield f"{', '.join(said)}, {counts['ok']} ok"


Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The site's folder, which all nodes see.")
]
_QUESTIONS = {
    "site.machine": "Name of the cluster",
    "cluster.partitions": "Partitions to measure and tune (nodes all alike)",
    "cluster.nodes": "Node counts to measure, as jobs use them",
    "cluster.ppn": "Processes per node",
    "cluster.mpi": "MPIs of jobs, each an mpirun or LIBRARY/RELEASE",
    "cluster.default_mpi": "MPI of jobs that load no module, or none",
    "cluster.collectives": "Collectives",
    "cluster.budget": "Wall time to measure each MPI",
    "site.registry": "Registry of bundles",
    "data.datasets": "Measurements",
    "cluster.service": "URL of the service, or none",
    "cluster.nightly": "Every night by systemd, scrontab or none",
    "cluster.user": "User who measures, retrains and serves",
}
_LISTS = ("partitions", "nodes", "ppn", "mpi", "collectives", "datasets")
_NUMBERS = ("nodes", "ppn")


def init(
    folder: Folder,
    name: Annotated[str | None, typer.Option(help="Name of the cluster.")] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(help="A partition to measure and tune; repeatable, of nodes that are alike."),
    ] = None,
    nodes: Annotated[str | None, typer.Option(help="Node counts to measure: 2,4,6,8.")] = None,
    ppn: Annotated[str | None, typer.Option(help="Processes per node: 1,16,32.")] = None,
    mpi: Annotated[
        list[str] | None,
        typer.Option(
            help="An MPI that jobs use: its mpirun or folder, or openmpi/4.1.6 where a module"
            " brings it; repeatable."
        ),
    ] = None,
    default_mpi: Annotated[
        str | None,
        typer.Option(metavar="LIBRARY/RELEASE", help="The MPI of jobs that load no module."),
    ] = None,
    collectives: Annotated[str | None, typer.Option(help="bcast,allreduce,alltoall.")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Wall time to measure each MPI: 30m, 4h.")
    ] = None,
    registry: Annotated[
        str | None, typer.Option(help="Registry of bundles, a folder or s3://…; below FOLDER.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Folder of measurements; below FOLDER.")] = None,
    service: Annotated[
        str | None, typer.Option(metavar="URL", help="The service, http://HOST:PORT, or none.")
    ] = None,
    nightly: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="What retrains every night: systemd, scrontab or none."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="What measures: native, or reprompi where it is built.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="User who measures, retrains and serves.")
    ] = None,
    node_hours_per_month: JobNodeHours = None,
    collectives_share: CollectivesShare = None,
    programs: ForEverybody = None,
    results: ForResults = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take what is found.")] = False,
    json: Json = False,
) -> None:
    """Write a site's campaigns, Slurm hooks, units, module file and README into one folder.

    It asks on a terminal what no option tells, with what it finds here as default. The answers are
    kept in FOLDER/site.toml: edit that, and run it again. A file that somebody edited is kept.
    Nothing outside of FOLDER is changed; FOLDER/install does that. The last lines say when
    measuring pays, and what that rests on.

    Example: colltune site init /shared/colltune

    Example: colltune site init /shared/colltune --yes --partition batch --nodes 2,3,4,8 --budget 2h
    """
    from colltune.mpi.programs import (
        FOR_EVERYBODY,
        RESULTS_VARIABLE,
        VARIABLE,
        Results,
        parse_results,
    )
    from colltune.production.payback import parse_share
    from colltune.site import folder as stage
    from colltune.site.recording import prepare

    home = folder.absolute()
    given = {
        "site.machine": name,
        "site.registry": registry,
        "cluster.partitions": partition,
        "cluster.nodes": nodes,
        "cluster.ppn": ppn,
        "cluster.mpi": mpi,
        "cluster.default_mpi": default_mpi,
        "cluster.collectives": collectives,
        "cluster.budget": budget,
        "data.datasets": data,
        "cluster.service": "" if service == "none" else service,
        "cluster.nightly": nightly,
        "cluster.backend": backend,
        "cluster.user": user,
    }
    share = parse_share(collectives_share) if collectives_share is not None else None
    told = {key: _value(key, value) for key, value in given.items() if value is not None}
    is_new = not (home / stage.SITE).exists()
    if programs or (is_new and os.environ.get(VARIABLE)):
        told["site.programs"] = str(
            programs_of(programs, Results.RANKS_AGREE, otherwise=FOR_EVERYBODY)
        )
    if said := results or (is_new and os.environ.get(RESULTS_VARIABLE)):
        told["site.results"] = str(parse_results(said))
    ask = not yes and not json and sys.stdin.isatty()
    text = stage.site_text(_answers(told, ask=ask), home) if is_new else ""
    with stage.alone(home):
        if is_new:
            stage.begin(home, text)
        site = stage.site_of(home)
        stage.agreed(home, told)
        stage.check_release(home)
        changes = stage.write(home, stage.files_of(site, home))
        notes = prepare(site, home)
    facts = stage.WrittenSite(
        home,
        home / stage.SITE,
        is_new,
        changes,
        stage.places(site, home),
        stage.payback_of(site, home, node_hours_per_month, share),
    )
    output(facts, _lines(facts), json=json, warnings=notes)


def _value(key: str, value: object) -> object:
    """Return what an option or an answer says, as the site file has it."""
    from colltune.site.folder import named_mpi

    name = key.rpartition(".")[2]
    if name not in _LISTS:
        return value
    if name == "datasets":
        return [value]
    words = value if isinstance(value, list) else str(value).replace(",", " ").split()
    if name in _NUMBERS and not all(str(word).isdecimal() for word in words):
        raise say("malformed", UsageError, value=value, what=f"numbers for {name}", like="2,4,8")
    if name == "mpi":
        return [named_mpi(word) for word in words]
    return [int(word) for word in words] if name in _NUMBERS else words


def _answers(told: Mapping[str, object], *, ask: bool) -> dict[str, Any]:
    """Return the answers to all questions: those `told`, those found here, those of the user."""
    from colltune.site.folder import guessed

    found: dict[str, Any] = {**guessed(), **told}
    for key, question in _QUESTIONS.items():
        if key == "cluster.default_mpi" and "cluster.mpi" in found:
            found.setdefault(key, found["cluster.mpi"][0].partition("=")[0])
        if ask and key not in told:
            found[key] = _asked(key, question, found.get(key))
    if "cluster.mpi" not in found:
        raise say("no-mpi-for-jobs")
    return found


def _asked(key: str, question: str, default: object) -> object:
    from rich.prompt import Prompt

    from colltune.cli.progress import console_on

    console = console_on(sys.stderr)
    shown = " ".join(map(str, default)) if isinstance(default, list) else default
    while True:
        try:
            answer = Prompt.ask(question, console=console, default=shown)
        except EOFError:
            raise typer.Abort from None
        try:
            return _value(
                key, "" if answer in ("none", "''") and key != "cluster.nightly" else answer
            )
        except ColltuneError as error:
            console.print(printable(str(error)))


def _lines(found: WrittenSite) -> Iterator[str | TextTable]:
    from colltune.cli.plan import payback_lines

    folder = found.folder
    yield from _changed(folder, found.files)
    rows = [[p.file, p.goes_to, p.read_by, "yes" if p.root else ""] for p in found.places]
    yield ""
    yield TextTable(("file", "goes to", "read by", "root"), rows, wrap=("goes to", "read by"))
    yield ""
    yield f"look into {folder}/site.toml and run this again after changes; then:"
    for command in (
        f"sudo sh {folder}/install",
        f"sh {folder}/measure",
        f"colltune site check {folder}",
    ):
        yield Verbatim(f"  {command}")
    yield ""
    yield from payback_lines(found.payback)


def _changed(folder: Path, changes: tuple[FileChange, ...]) -> Iterator[str]:
    states = [change.state for change in changes]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    yield f"{folder}: {counted(len(changes), 'file')}: {', '.join(counts)}"
    for change in changes:
        if change.state == "edited":
            yield f"{change.file} was edited and is kept; colltune would write:"
            yield from (Verbatim(f"  {printable(line)}") for line in change.diff)


def check(
    folder: Folder,
    job: Annotated[
        bool, typer.Option("--job/--no-job", help="Also start a tiny job, as users would.")
    ] = True,
    wait: Annotated[
        int, typer.Option(metavar="SECONDS", help="How long it may wait for nodes.", min=1)
    ] = 60,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Test a site from its file to a job, and print for each problem what mends it.

    The site file, the written files, campaigns, registry, service, Slurm's hooks and the nightly
    run are looked at. A job of a few processes prints what it was told, for two minutes at most.
    Nothing is changed. The status is 1 if a problem was found.

    Example: colltune site check /shared/colltune
    """
    from colltune.checks import answers_of
    from colltune.site.check import CHECKS, Subject

    subject = Subject(folder.absolute(), job, wait)
    with progress("looking", quiet=quiet or json) as shown:
        found = answers_of(CHECKS, subject, lambda name: shown.phase(f"looking at {name}"))
    return show_answers(found, json=json)


def upgrade(
    folder: Folder,
    check: Annotated[
        bool, typer.Option("--check", help="Show what would change, and change nothing.")
    ] = False,
    json: Json = False,
) -> int:
    """Write a site's files anew by this release of colltune, after it was installed.

    What somebody edited is kept, and the difference shown. Bundles in force and measurements of the
    other release are read for a trial first: if one cannot be read, nothing is changed. An older
    release takes a folder back in the same way.

    Example: colltune site upgrade /shared/colltune --check
    """
    from colltune import __version__
    from colltune.site import folder as stage
    from colltune.site.check import unreadable
    from colltune.site.recording import prepare

    home = folder.absolute()
    stage.site_of(home)
    with nullcontext() if check else stage.alone(home):
        site, wrote = stage.site_of(home), stage.stamp_of(home).colltune
        texts, unread = stage.files_of(site, home), unreadable(site)
        keep = check or bool(unread)
        changes = stage.compared(home, texts) if keep else stage.write(home, texts)
        notes = () if keep else prepare(site, home)
    restart = [c.file for c in changes if c.state not in ("unchanged", "edited")]
    facts = stage.UpgradedSite(home, wrote, __version__, not keep, changes, tuple(unread))
    lines = [
        f"{home}: from colltune {wrote or 'unknown'} to {__version__}",
        *_changed(home, changes),
        *(f"{change.state}: {change.file}" for change in changes if change.file in restart),
        *(f"cannot be read by this release: {printable(what)}" for what in unread),
    ]
    if unread:
        lines.append("nothing was written; go on with the release that wrote these")
    elif wrote == __version__ and not restart:
        lines.append("this release wrote it: nothing to do")
    elif check:
        lines.append(f"nothing was written; to do it: colltune site upgrade {home}")
    else:
        lines.append(f"then: sudo sh {home}/install; colltune site check {home}")
        lines.append(f"to go back: install {wrote or 'the former release'}, and do the same by it")
    output(facts, lines, json=json, warnings=notes)
    return 1 if unread else 0
